// The form for plans: says that it is at work, and goes to the answer when that is there.
"use strict";
const form = document.getElementById("form");
form.addEventListener("submit", () => {
  document.getElementById("busy").textContent = "planning: this takes some seconds";
  setTimeout(() => { for (const button of form.querySelectorAll("button")) button.disabled = true; });
});
addEventListener("pageshow", () => {
  document.getElementById("busy").textContent = "";
  for (const button of form.querySelectorAll("button")) button.disabled = false;
});
document.getElementById("answer")?.scrollIntoView({ block: "start" });
