// Small tools: elements made of text that stays text, numbers with units.

const FONT = "system-ui, sans-serif";

/** An element; what is not an element among its children becomes text, never markup. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** A button with text and what it does. */
function button(text, onclick, attributes = {}) {
  return element("button", { type: "button", onclick, ...attributes }, text);
}

/** A field with its label. */
function labelled(text, field) {
  return element("label", { class: "field" }, element("span", {}, text), field);
}

/** A list to choose from; options are [value, text]. */
function chooser(options, chosen, onchange) {
  const made = element("select", { onchange: () => onchange(made.value) });
  for (const [value, text] of options) made.append(element("option", { value, selected: value === chosen }, text));
  return made;
}

/** A number with so many significant digits, grouped in thousands. */
function plain(value, digits = 4) {
  if (value === null || !Number.isFinite(value)) return "–";
  const places = value === 0 ? 0 : Math.min(Math.max(digits - 1 - Math.floor(Math.log10(Math.abs(value))), 0), 12);
  return value.toLocaleString("en", { maximumFractionDigits: places });
}

/** A number with its unit: shares as percent, bytes, joules and operations with a decimal prefix. */
function united(value, unit, digits = 3) {
  if (value === null || !Number.isFinite(value)) return "–";
  if (unit === "%") return `${plain(100 * value, digits)} %`;
  if (unit !== "B" && unit !== "J" && unit !== "FLOP") return plain(value, Math.max(digits, 4)) + (unit ? ` ${unit}` : "");
  const prefixes = ["", "k", "M", "G", "T", "P"];
  let step = 0;
  while (Math.abs(value) >= 999.5 && step < prefixes.length - 1) { value /= 1000; step += 1; }
  return `${plain(value, digits)} ${prefixes[step]}${unit}`;
}

/** The value of a colour or length that the style sheet names. */
function styled(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** The place of the last of these rising numbers that is not above a value; -1 where all are. */
function lastNotAbove(values, value, low = 0, high = values.length) {
  const first = low;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= value) low = middle + 1; else high = middle;
  }
  return low - 1 < first ? -1 : low - 1;
}

const tip = document.getElementById("tip");

/** Show lines of text beside a place of the window; with none, hide them. */
function showTip(lines, x, y) {
  tip.replaceChildren(...(lines || []).map((line) => element("div", {}, line)));
  tip.style.display = lines && lines.length ? "block" : "none";
  if (!lines || !lines.length) return;
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${y + 16 + tip.offsetHeight < innerHeight ? y + 16 : Math.max(4, y - tip.offsetHeight - 12)}px`;
}
