// The list of runs: filters as one types, stays up to date, and remembers what is chosen.
"use strict";
const EVERY = 3000;
const holder = document.getElementById("runs");
const search = document.getElementById("search");
const count = document.getElementById("count");
const chosen = new Set();
let asked = 0;

function boxes() { return [...holder.querySelectorAll('input[name="run"]')]; }

function show() {
  for (const all of holder.querySelectorAll("input.all")) {
    const own = [...all.closest("tbody").querySelectorAll('input[name="run"]')];
    const set = own.filter((box) => box.checked).length;
    all.checked = own.length > 0 && set === own.length;
    all.indeterminate = set > 0 && set < own.length;
    all.disabled = own.length === 0;
  }
  const seen = boxes().filter((box) => box.checked).length;
  count.textContent = seen === 0 ? "no run is chosen" : seen === 1 ? "1 run is chosen" : `${seen} runs are chosen`;
  for (const button of document.querySelectorAll(".actions button")) button.disabled = seen === 0;
}

function restore() {
  for (const box of boxes()) box.checked = chosen.has(box.value);
  show();
}

async function refresh() {
  const mine = ++asked;
  const words = new URLSearchParams(new FormData(search));
  try {
    const answer = await fetch(`/table?${words}`);
    const text = await answer.text();
    if (mine !== asked || !answer.ok || text === refresh.last) return;
    refresh.last = text;
    const focus = document.activeElement;
    const label = holder.contains(focus) ? focus.getAttribute("aria-label") ?? focus.textContent : null;
    holder.innerHTML = text; // made and escaped by the server
    restore();
    if (label !== null) {
      [...holder.querySelectorAll("input, a")].find((one) => (one.getAttribute("aria-label") ?? one.textContent) === label)?.focus();
    }
  } catch { /* the server has ended, or is busy: the next time may be better */ }
}

holder.addEventListener("change", (event) => {
  const box = event.target;
  if (box.classList.contains("all")) {
    for (const one of box.closest("tbody").querySelectorAll('input[name="run"]')) one.checked = box.checked;
  }
  for (const one of boxes()) if (one.checked) chosen.add(one.value); else chosen.delete(one.value);
  show();
});

let typing;
search.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    const words = new URLSearchParams(new FormData(search));
    history.replaceState(null, "", `/?${words}`);
    refresh();
  }, 200);
});
search.addEventListener("submit", (event) => { event.preventDefault(); refresh(); });
for (const box of boxes()) if (box.checked) chosen.add(box.value);
show();
setInterval(() => { if (!document.hidden) refresh(); }, EVERY);
