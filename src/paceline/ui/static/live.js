// Curves of some runs, which grow while these run: asks for what has come since, draws it, says it in words.
"use strict";
const EVERY = 1000, SLOWLY = 5000, MOST = 1500;
const SVG = "http://www.w3.org/2000/svg";
const COLUMNS = ["round", "time", "visits", "bytes", "idle_share", "accuracy", "loss"];
const dark = matchMedia("(prefers-color-scheme: dark)");
const state = document.getElementById("state");
const holder = document.getElementById("chart");
const reading = document.getElementById("reading");
const choice = { x: document.getElementById("x"), y: document.getElementById("y") };
const runs = [...document.querySelectorAll("tr[data-run]")].map((row) => ({
  row, name: row.dataset.run, label: row.dataset.label, light: row.dataset.colour, dark: row.dataset.dark,
  dash: row.dataset.dash, goal: row.dataset.goal === "" ? null : Number(row.dataset.goal), rows: [], next: 0, status: "", problem: "",
}));

function plain(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  return value.toLocaleString("en", { maximumSignificantDigits: digits });
}
function scaled(value, unit) {
  if (value === null || value === undefined) return "–";
  let prefix = "";
  for (const next of ["k", "M", "G", "T", "P"]) { if (Math.abs(value) < 1000) break; value /= 1000; prefix = next; }
  return `${plain(value, 3)} ${prefix}${unit}`;
}
function percent(value) { return value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)} %`; }
const FORMS = [(v) => plain(v, 7), (v) => `${plain(v)} s`, (v) => plain(v, 9), (v) => scaled(v, "B"), percent, percent, plain];

function make(name, marks, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(marks)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
function colour(run) { return dark.matches ? run.dark : run.light; }

function ticks(low, high, about) {
  if (!(high > low)) return [low];
  const power = 10 ** Math.floor(Math.log10((high - low) / about));
  const step = [1, 2, 2.5, 5, 10].map((k) => k * power).find((s) => s >= (high - low) / about * (1 - 1e-9));
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step + 0); // no minus before 0
  return found;
}

function points(run) {
  const x = Number(choice.x.value), y = Number(choice.y.value);
  const all = run.rows.filter((row) => row[x] !== null && row[y] !== null).map((row) => [row[x], row[y]]);
  if (all.length <= MOST) return all;
  const step = all.length / MOST; // as many as there are pixels; the last one always
  return [...Array(MOST - 1).keys()].map((k) => all[Math.floor(k * step)]).concat([all.at(-1)]);
}

let drawn = null;
function draw() {
  const wide = Math.max(300, holder.clientWidth), high = wide < 560 ? 260 : 380;
  const names = wide >= 560;
  const left = 58, right = names ? 176 : 14, top = 14, bottom = 44;
  const lines = runs.map((run) => ({ run, points: points(run) })).filter((line) => line.points.length);
  const svg = make("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", tabindex: 0, "aria-label": said() });
  drawn = null;
  if (!lines.length) {
    svg.append(make("text", { x: wide / 2, y: high / 2, "text-anchor": "middle" }, waiting()));
    holder.replaceChildren(svg);
    return;
  }
  const xs = lines.flatMap((line) => [line.points[0][0], line.points.at(-1)[0]]);
  let [low, most] = [Infinity, -Infinity];
  for (const line of lines) for (const [, y] of line.points) { low = Math.min(low, y); most = Math.max(most, y); }
  const aim = choice.y.value === "5" ? [...new Set(lines.map((line) => line.run.goal))].filter((goal) => goal !== null) : [];
  for (const goal of aim) most = Math.max(most, goal);
  const begin = Math.min(0, ...xs), end = Math.max(...xs) || 1;
  const room = (most - low) * 0.06 || Math.abs(most) * 0.1 || 0.1;
  low = low - room; most = most + room;
  if (choice.y.value !== "6") { low = Math.max(0, low); most = Math.min(1, most); if (!(most > low)) low = most - 0.1; }
  const at = { x: (v) => left + (v - begin) / (end - begin || 1) * (wide - left - right), y: (v) => high - bottom - (v - low) / (most - low) * (high - top - bottom) };
  for (const tick of ticks(low, most, 5)) {
    svg.append(make("line", { class: "grid", x1: left, x2: wide - right, y1: at.y(tick), y2: at.y(tick) }));
    svg.append(make("text", { x: left - 8, y: at.y(tick) + 4, "text-anchor": "end" }, FORMS[choice.y.value](tick)));
  }
  for (const tick of ticks(begin, end, wide < 560 ? 3 : 6)) {
    svg.append(make("text", { x: at.x(tick), y: high - bottom + 18, "text-anchor": "middle" }, FORMS[choice.x.value](tick)));
  }
  for (const goal of aim) {
    svg.append(make("line", { class: "goal", x1: left, x2: wide - right, y1: at.y(goal), y2: at.y(goal) }));
    svg.append(make("text", { x: left + 6, y: at.y(goal) - 5 }, `target ${FORMS[5](goal)}`));
  }
  svg.append(make("line", { class: "axis", x1: left, x2: wide - right, y1: high - bottom, y2: high - bottom }));
  svg.append(make("text", { x: (left + wide - right) / 2, y: high - 6, "text-anchor": "middle" }, choice.x.selectedOptions[0].textContent));
  for (const line of lines) {
    const path = line.points.map(([x, y], k) => `${k ? "L" : "M"}${at.x(x).toFixed(1)} ${at.y(y).toFixed(1)}`).join("");
    const mark = make("path", { class: "line", d: path, "stroke-dasharray": line.run.dash, stroke: colour(line.run) });
    mark.dataset.points = line.points.length;
    svg.append(mark);
  }
  if (names) label(svg, lines, at, top, high - bottom, wide - right);
  svg.append(make("line", { class: "cursor", y1: top, y2: high - bottom, visibility: "hidden" }));
  const focused = holder.contains(document.activeElement);
  holder.replaceChildren(svg);
  if (focused) svg.focus();
  drawn = { svg, lines, at, left, right: wide - right, begin, end, wide };
}

function label(svg, lines, at, top, bottom, edge) {
  const ends = lines.map((line) => ({ line, y: at.y(line.points.at(-1)[1]), x: at.x(line.points.at(-1)[0]) })).sort((a, b) => a.y - b.y);
  if (ends.length > (bottom - top) / 14) return; // no room for so many: the table below names them
  let last = top - 14;
  for (const one of ends) { one.place = Math.max(one.y, last + 14); last = one.place; }
  const over = last - bottom;
  if (over > 0) { let next = bottom; for (const one of ends.toReversed()) { one.place = Math.min(one.place, next); next = one.place - 14; } }
  for (const one of ends) {
    const name = one.line.run.label;
    const text = name.length > 22 ? `${name.slice(0, 21)}…` : name;
    svg.append(make("text", { class: "name", x: Math.min(one.x, edge) + 6, y: one.place + 4 }, text));
    svg.lastChild.style.fill = colour(one.line.run);
  }
}

function said() {
  const parts = runs.map((run) => `${run.label}: ${FORMS[choice.y.value](run.rows.at(-1)?.[choice.y.value])}`);
  return `${choice.y.selectedOptions[0].textContent} over ${choice.x.selectedOptions[0].textContent}. Now: ${parts.slice(0, 12).join("; ")}`;
}
function waiting() { return runs.some((run) => run.status === "running") ? "No metrics yet: they come with the first evaluation." : "No metrics were measured."; }

function read(value) {
  if (!drawn) return;
  const cursor = drawn.svg.querySelector(".cursor");
  cursor.setAttribute("visibility", "visible");
  cursor.setAttribute("x1", drawn.at.x(value)); cursor.setAttribute("x2", drawn.at.x(value));
  const found = drawn.lines.map(({ run, points }) => {
    const before = points.filter(([x]) => x <= value).at(-1);
    return before ? `${run.label}: ${FORMS[choice.y.value](before[1])}` : null;
  }).filter(Boolean);
  reading.textContent = `at ${FORMS[choice.x.value](value)}: ${found.join(", ") || "nothing yet"}`;
}
let reader = null;
holder.addEventListener("pointermove", (event) => {
  if (!drawn) return;
  const box = drawn.svg.getBoundingClientRect();
  const x = (event.clientX - box.left) * drawn.wide / box.width;
  if (x < drawn.left || x > drawn.right) return;
  reader = drawn.begin + (x - drawn.left) / (drawn.right - drawn.left) * (drawn.end - drawn.begin);
  read(reader);
});
holder.addEventListener("keydown", (event) => {
  if (!drawn || !["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return;
  event.preventDefault();
  const step = (drawn.end - drawn.begin) / 40;
  const from = reader ?? drawn.end;
  reader = { ArrowLeft: from - step, ArrowRight: from + step, Home: drawn.begin, End: drawn.end }[event.key];
  reader = Math.min(drawn.end, Math.max(drawn.begin, reader));
  read(reader);
});

function tell(run) {
  const last = run.rows.at(-1), cells = run.row.querySelectorAll("td");
  const status = document.createElement("span");
  status.className = `status ${run.status}`;
  status.textContent = run.status;
  cells[0].replaceChildren(status);
  if (run.problem) {
    const why = document.createElement("small");
    why.className = "problem";
    why.textContent = run.problem;
    cells[0].append(why);
  }
  COLUMNS.forEach((_, k) => { cells[k + 1].textContent = FORMS[k](last?.[k]); });
  const line = run.row.querySelector(".swatch line");
  line.setAttribute("stroke", colour(run));
  line.setAttribute("stroke-dasharray", run.dash);
}

async function ask() {
  const words = new URLSearchParams();
  for (const run of runs) { words.append("run", run.name); words.append("from", run.next); }
  const answer = await fetch(`/news?${words}`);
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.problem);
  let fresh = false, more = false;
  found.forEach((news, k) => {
    const run = runs[k];
    fresh ||= news.rows.length > 0 || run.status !== news.status;
    more ||= news.more;
    run.rows.push(...news.rows);
    Object.assign(run, { next: news.next, status: news.status, problem: news.problem });
    tell(run);
  });
  if (fresh) draw();
  return more;
}

async function follow() {
  let wait = SLOWLY;
  try {
    if (!document.hidden) {
      const more = await ask();
      const alive = runs.filter((run) => run.status === "running").length;
      state.textContent = alive ? `live: ${alive} of ${runs.length} ${runs.length === 1 ? "run is" : "runs are"} running` : "ended";
      wait = more ? 0 : alive ? EVERY : SLOWLY;
    } else wait = EVERY;
  } catch (problem) {
    state.textContent = `no answer from the server: ${problem.message}`;
  }
  setTimeout(follow, wait);
}

for (const select of Object.values(choice)) select.addEventListener("change", draw);
dark.addEventListener("change", () => { runs.forEach(tell); draw(); });
let size;
addEventListener("resize", () => { clearTimeout(size); size = setTimeout(draw, 120); });
draw();
follow();
