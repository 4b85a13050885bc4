"""The look of the page and of a chart on its own, and the few lines of script that show tooltips."""

from __future__ import annotations

# Ten colours that can be read on white and on near-black.
_LINES = ("3b7dd8", "e07b1a", "2b9e76", "c2447f", "8a63c9", "b8941c", "2a9bb8", "d6513f", "6b8e3a", "8c8c8c")
_KINDS = {"train": "3b7dd8", "send": "e8912d", "receive": "2fa68a", "work": "9a6ad0"}

STYLE = (
    """
:root, svg { --ink: #1c2430; --soft: #5d6878; --rule: #dfe4ea; --paper: #ffffff; --panel: #f5f7f9;
  --wait: #a9b2bd; --fail: #c3362b; }
@media (prefers-color-scheme: dark) {
  :root, svg { --ink: #e6eaf0; --soft: #98a3b3; --rule: #2f3743; --paper: #14181e; --panel: #1c222a;
    --wait: #6b7686; --fail: #ff8577; }
}
svg text { font: 11px system-ui, sans-serif; fill: var(--soft); }
svg .label { font-size: 12px; }
svg .middle { text-anchor: middle; }
svg .end { text-anchor: end; }
svg .grid { stroke: var(--rule); stroke-width: 1; }
svg .axis { stroke: var(--soft); stroke-width: 1; }
svg :is(.target, .stop) { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 5 4; }
svg .line { fill: none; stroke-width: 2; stroke-linejoin: round; }
svg .second { stroke-dasharray: 6 3; }
svg .band { opacity: 0.18; stroke: none; }
svg .hover { opacity: 0; }
svg .hover:hover { opacity: 1; }
svg .fail { stroke: var(--fail); stroke-width: 1.2; stroke-dasharray: 2 3; }
svg .grip { stroke: transparent; stroke-width: 9; }
svg text.failed { fill: var(--fail); paint-order: stroke; stroke: var(--paper); stroke-width: 3px; }
svg .lane { fill: var(--panel); }
svg .bar:hover { opacity: 0.75; }
svg .hatch { stroke: var(--wait); stroke-width: 1.2; }
svg .bar.wait { fill: url(#waiting); stroke: none; }
"""
    + "".join(
        f"svg .line.c{i} {{ stroke: #{c}; }} svg :is(.band, .dot, .hover, .bar).c{i} {{ fill: #{c}; }}\n"
        for i, c in enumerate(_LINES)
    )
    + "".join(f"svg .bar.{kind} {{ fill: #{colour}; }}\n" for kind, colour in _KINDS.items())
)

PAGE_STYLE = """
:root { color-scheme: light dark; }
body { margin: 0 auto; max-width: 1180px; padding: 24px 20px 60px; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 26px; margin: 0 0 4px; }
h2 { font-size: 19px; margin: 36px 0 8px; }
h3 { font-size: 16px; margin: 28px 0 6px; }
.note { color: var(--soft); font-size: 13px; margin: 4px 0 8px; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(420px, 1fr)); gap: 16px; }
.trio { display: grid; grid-template-columns: repeat(auto-fill, minmax(300px, 1fr)); gap: 8px 20px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 0 5px 16px; text-align: right; border-bottom: 1px solid var(--rule);
  white-space: nowrap; }
th { color: var(--soft); font-weight: 500; vertical-align: bottom; white-space: normal; }
th:first-child, td:first-child, table.settings td { text-align: left; }
th:first-child, td:first-child { padding-left: 0; }
table.settings td { white-space: normal; overflow-wrap: anywhere; }
table.settings td:first-child { white-space: nowrap; color: var(--soft); }
td.best { font-weight: 650; }
.chart { display: block; width: 100%; height: auto; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 18px; padding: 0; margin: 6px 0;
  font-size: 13px; }
.legend li { display: flex; align-items: center; gap: 6px; }
.legend .key { width: 22px; height: 10px; flex: none; }
.meter { display: inline-block; width: 160px; height: 8px; background: var(--panel); vertical-align: middle; }
.meter i { display: block; height: 100%; background: var(--wait); }
details { margin: 10px 0; }
.decisions { margin: 6px 0; padding-left: 20px; font-size: 14px; max-width: 100ch; }
summary { cursor: pointer; }
#tip { position: fixed; display: none; pointer-events: none; white-space: pre-line; max-width: 340px;
  z-index: 2; padding: 6px 9px; border-radius: 5px; background: var(--ink); color: var(--paper);
  font-size: 12.5px; line-height: 1.4; }
"""

# Without script the <title> of each mark is the browser's own, slower tooltip.
SCRIPT = """
const tip = document.getElementById("tip");
document.addEventListener("mousemove", (event) => {
  const mark = event.target.closest("svg .bar, svg .hover, svg .mark");
  if (mark && !mark.dataset.tip) {
    const title = mark.querySelector("title");
    if (title) { mark.dataset.tip = title.textContent; title.remove(); }
  }
  if (!mark || !mark.dataset.tip) { tip.style.display = "none"; return; }
  tip.textContent = mark.dataset.tip;
  tip.style.display = "block";
  const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  const below = event.clientY + 16 + tip.offsetHeight < innerHeight;
  tip.style.left = left + "px";
  tip.style.top = (below ? event.clientY + 16 : event.clientY - tip.offsetHeight - 12) + "px";
});
"""
