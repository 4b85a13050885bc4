"""Draws the pictures of docs/concepts.md from real schedules: ``python docs/images/draw.py``; a test compares."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch
from xml.sax.saxutils import escape

import paceline

HERE = Path(__file__).parent
SECONDS = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0]
"""Of a visit, by device: the last is five times as slow as the first."""
LEFT, BAR, ROW, WIDTH = 104, 18, 26, 760
LABELS = {"train": "trains", "send": "sends", "receive": "receives", "wait": "waits"}

STYLE = """
  svg { --page: #ffffff; --ink: #1f2933; --soft: #5b6673; --line: #c9d1d9;
        --train: #2563a8; --send: #2a9d8f; --receive: #8bcabf; --wait: #fde3c8; --hatch: #c2570c; --on: #ffffff; }
  @media (prefers-color-scheme: dark) {
    svg { --page: #1b1f24; --ink: #e6edf3; --soft: #a8b3bf; --line: #4b5563;
          --train: #6ea8e5; --send: #4fc3b3; --receive: #2f7d73; --wait: #4a3017; --hatch: #f5a35c; --on: #10151a; } }
  text { font: 13px system-ui, sans-serif; fill: var(--ink); }
  .soft { fill: var(--soft); font-size: 12px; } .bold { font-weight: 600; } .on { fill: var(--on); font-size: 12px; }
  .page { fill: var(--page); } .line { stroke: var(--line); }
  .train { fill: var(--train); } .send { fill: var(--send); } .receive { fill: var(--receive); }
  .wait { fill: url(#hatch); stroke: var(--hatch); stroke-width: 1; }
  .round { stroke: var(--ink); stroke-width: 1.2; }
"""
HATCH = (
    '<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" style="fill: var(--wait)"/>'
    '<line y2="6" style="stroke: var(--hatch); stroke-width: 2.5"/></pattern>'
)


class Sheet:
    """An SVG that grows downwards."""

    def __init__(self, title: str, seconds: float) -> None:
        self.title, self.height, self.parts = title, 14.0, list[str]()
        self._scale = (WIDTH - LEFT - 16) / seconds

    def x(self, time: float) -> float:
        """Where a time is."""
        return LEFT + time * self._scale

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> None:
        """Write some words."""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def bar(self, y: float, start: float, end: float, kind: str, words: str = "") -> None:
        """Draw one span."""
        x, width = self.x(start), max(1.0, self.x(end) - self.x(start))
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{BAR}" rx="2" class="{kind}"/>')
        if words and width > 7 * len(words):
            self.text(x + width / 2, y + BAR - 5, words, "on", "middle")

    def line(self, x: float, top: float, bottom: float, kind: str = "line") -> None:
        """Draw a line from top to bottom."""
        self.parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom:.1f}" class="{kind}"/>')

    def heading(self, words: str, more: str = "") -> None:
        """Begin a part."""
        self.text(16, self.height + 14, words, "bold")
        self.text(16 + 8.4 * len(words) + 8, self.height + 14, more, "soft")
        self.height += 26

    def rows(self, spans: list[dict[str, Any]], names: dict[int, str], words: dict[Any, str] | None = None) -> float:
        """Draw one row a site; returns where they begin."""
        top = self.height
        for number, (site, name) in enumerate(names.items()):
            y = top + ROW * number
            self.text(16, y + BAR - 5, name)
            for span in spans:
                if span["site"] == site and span["kind"] in LABELS:
                    said = (words or {}).get((site, span["start"]), "") if span["kind"] == "train" else ""
                    self.bar(y, span["start"], span["end"], span["kind"], said)
        self.height = top + ROW * len(names)
        return top

    def legend(self, kinds: dict[str, str]) -> None:
        """Say what the colours are."""
        x, self.height = float(LEFT), self.height + 8
        for kind, label in kinds.items():
            self.parts.append(f'<rect x="{x}" y="{self.height}" width="14" height="12" rx="2" class="{kind}"/>')
            self.text(x + 20, self.height + 11, label, "soft")
            x += 44 + 7 * len(label)
        self.text(WIDTH - 16, self.height + 11, "virtual time →", "soft", "end")
        self.height += 26

    def svg(self) -> str:
        """The whole picture."""
        body = "\n".join(self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height:.0f}" role="img">'
            f"<title>{escape(self.title)}</title><style>{STYLE}</style><defs>{HATCH}</defs>"
            f'<rect class="page" width="{WIDTH}" height="{self.height:.0f}" rx="8"/>\n{body}\n</svg>\n'
        )


@dataclass(frozen=True)
class Schedule:
    """What a dry run of an algorithm did, and when its rounds ended."""

    spans: list[dict[str, Any]]
    times: list[float]


def schedule(algorithm: paceline.Algorithm, devices: int) -> Schedule:
    """A dry run on the first so many devices, whose transfers take some time."""
    with tempfile.TemporaryDirectory() as folder:
        fleet = Path(folder) / "fleet.csv"
        fleet.write_text("seconds\n" + "\n".join(map(str, SECONDS[-devices:])) + "\n")
        described = {"file": str(fleet), "links": "seconds:0.35,0.35", "jitter": 0}
        timeline = paceline.dry(algorithm, described, clients=devices)
    return Schedule(timeline.spans().to_pylist(), timeline.times)


def anatomy() -> Sheet:
    """A round of FedAvg: sites, a visit, spans, and who waits for whom."""
    fedavg = paceline.PSFL(width=4, length=1, sampler="uniform", rounds=1)
    found = schedule(fedavg, 4)
    sheet = Sheet("One round of FedAvg on four devices", found.times[0] * 1.02)
    sheet.heading("One round of FedAvg", "every row is a site, every bar a span")
    names = {k: f"device {k + 1}" for k in range(4)} | {-1: "server"}
    top = sheet.rows(found.spans, names, dict.fromkeys(_trained(found), "visit"))
    for span in found.spans:
        if span["kind"] == "wait" and span["site"] >= 0:
            words = f"for {names[span['peer']]}"
            x, y = (sheet.x(span["start"]) + sheet.x(span["end"])) / 2, top + ROW * span["site"]
            sheet.parts.append(f'<rect x="{x - 44:.1f}" y="{y + 1}" width="88" height="{BAR - 2}" class="page"/>')
            sheet.text(x, y + BAR - 5, words, "", "middle")
    for x in (sheet.x(0), sheet.x(found.times[0])):
        sheet.line(x, top - 4, sheet.height + 12, "round")
    sheet.text((sheet.x(0) + sheet.x(found.times[0])) / 2, sheet.height + 12, "one round", "soft", "middle")
    sheet.height += 16
    sheet.legend(LABELS)
    return sheet


def _trained(found: Schedule) -> Iterator[tuple[int, float]]:
    return ((span["site"], span["start"]) for span in found.spans if span["kind"] == "train")


def schedules() -> Sheet:
    """Three schedules on the same six devices: who waits differs."""
    found = {
        "FedAvg": (
            "all train, all wait for the slowest",
            paceline.PSFL(width=6, length=1, sampler="uniform", rounds=3),
        ),
        "PSFL": ("two sequences of three clients, then a mean", paceline.PSFL(width=2, length=3, rounds=2)),
        "FedBuff": ("nobody waits; every third arrival makes a new model", paceline.FedBuff(concurrency=6, buffer=3)),
    }
    until = 18.0
    sheet = Sheet("The same six devices under FedAvg, PSFL and FedBuff", until)
    for name, (words, algorithm) in found.items():
        done = schedule(algorithm, 6)
        seen = [span | {"end": min(span["end"], until)} for span in done.spans if span["start"] < until]
        sheet.heading(name, words)
        top = sheet.rows(seen, {k: f"device {k + 1}" for k in range(6)})
        for time in done.times:
            if time < until:
                sheet.line(sheet.x(time), top - 4, sheet.height, "round")
        sheet.height += 8
    sheet.text(LEFT, sheet.height + 6, "a vertical line: a new global model", "soft")
    sheet.height += 8
    sheet.legend(LABELS)
    return sheet


def waves() -> Sheet:
    """Two runs of PSFL at the same time: which visits were computed in which wave, as the executor did it.

    A visit is known by its client and the time at which it begins.
    """
    from paceline.learn.executor import Executor
    from paceline.learn.pending import visit_of

    calls: list[list[tuple[int, float]]] = []
    settle = Executor._settle_group

    def told(self: Executor, pending: Any, group: list[Any], results: Any) -> None:
        calls.append([(visit.client, visit.time) for visit in map(visit_of, group)])
        settle(self, pending, group, results)

    psfl = paceline.PSFL(width=2, length=2, rounds=2)
    fleet = {"times": "uniform:1,4", "links": "seconds:0.25,0.25"}
    with patch.object(Executor, "_settle_group", told):
        result = paceline.run(psfl, clients=4, partition="iid", fleet=fleet, seeds=2)
    numbers = {visit: str(number) for number, call in enumerate(calls, 1) for visit in call}
    spans = result.spans()
    found = spans.to_dict("records") if hasattr(spans, "to_dict") else spans.to_pylist()
    rows = [[span for span in found if span["seed"] == seed] for seed in range(2)]
    until = max(span["end"] for spans in rows for span in spans)
    sheet = Sheet("Two runs whose visits are computed together, in waves", until)
    for seed, spans in enumerate(rows):
        sheet.heading(f"PSFL, seed {seed}", "the number in a visit is the wave in which it was computed")
        sheet.rows(spans, {k: f"device {k + 1}" for k in range(4)}, numbers)
        sheet.height += 6
    sizes = ", ".join(f"wave {number}: {len(call)} visits" for number, call in enumerate(calls, 1))
    sheet.text(LEFT, sheet.height + 8, sizes, "soft")
    sheet.height += 12
    sheet.legend(LABELS)
    return sheet


PICTURES = {"anatomy": anatomy, "schedules": schedules, "waves": waves}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (HERE / f"{name}.svg").write_text(draw().svg())
