// Light, dark or as the system has it; on paper always light.

const themed = [];
let printing = false;

/** Have this called whenever colours have changed. */
function onTheme(redraw) { themed.push(redraw); }

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  if (printing) return false;
  return chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
}

function retheme() { for (const redraw of themed) redraw(); }

function startThemes() {
  for (const one of document.querySelectorAll("[data-theme-choice]")) {
    one.addEventListener("click", () => {
      document.documentElement.dataset.theme = one.dataset.themeChoice;
      for (const other of document.querySelectorAll("[data-theme-choice]")) {
        other.setAttribute("aria-pressed", String(other === one));
      }
      retheme();
    });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", retheme);
  addEventListener("beforeprint", () => { printing = true; retheme(); });
  addEventListener("afterprint", () => { printing = false; retheme(); });
}

/** The colour of a look on the paper there is. */
function inked(look) { return isDark() ? look.dark : look.colour; }
