"""``paceline plan fleet RUN``: a run on real machines becomes a fleet that the simulator reads."""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli.plan_answer import Answer, print_json, refuse_existing
from paceline.errors import PacelineError, SettingError

if TYPE_CHECKING:
    from paceline.plans.fleet import Measured
    from paceline.plans.fleet_check import Prediction


def measure_run(run: Path, out: Path | None, *, check: bool, trust: bool, as_json: bool) -> None:
    """Make a fleet file of a run, and say what is in it."""
    if out is not None:
        _refuse(out)
    # numpy and scipy, and torch for the check, are imported here: help should not wait for them.
    from paceline.plans.fleet import measure
    from paceline.plans.fleet_file import as_toml

    found = measure(run)
    text = as_toml(found, run.absolute().name)
    predicted = _predicted(run, text, trust=trust) if check else None
    if out is not None:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    if as_json:
        print_json(_tree(found, predicted, out))
    else:
        _answer(found, _lines(found, predicted, run, out)).print()


def _refuse(out: Path) -> None:
    """Before anything is measured."""
    if out.suffix != ".toml":
        raise SettingError(f"--out is {str(out)!r}; a fleet with measured times is TOML: name it such as fleet.toml")
    refuse_existing(out)


def _predicted(run: Path, text: str, *, trust: bool) -> Prediction | str:
    """How near a simulation comes, or why that cannot be said."""
    from paceline.plans.fleet_check import predict

    with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
        file = Path(folder) / "fleet.toml"
        file.write_text(text, encoding="utf-8")
        try:
            return predict(run, file, trust=trust)
        except PacelineError as problem:
            return str(problem)


def _tree(found: Measured, predicted: Prediction | str | None, out: Path | None) -> dict[str, Any]:
    devices = [
        {
            "device": device.number,
            "visits": 0 if device.borrowed else len(device.seconds),
            "median_seconds": statistics.median(device.seconds),
            "lost": device.lost,
            "away_share": device.away_share(found.span),
            "availability": device.availability,
            **(asdict(device.link) if found.linked else {}),
        }
        for device in found.devices
    ]
    tree: dict[str, Any] = {"seconds": found.span, "server_seconds": found.server, "devices": devices}
    tree["file"] = None if out is None else str(out)
    tree["prediction"] = None
    if isinstance(predicted, str):
        tree["prediction"] = {"problem": predicted}
    elif predicted is not None:
        tree["prediction"] = asdict(predicted) | {"ratio": predicted.ratio}
    return tree


def _answer(found: Measured, lines: list[str]) -> Answer:
    titles = ("device", "visits", "median", "slowest", "lost", "away")
    links = ("up", "down", "latency") if found.linked else ()
    rows = []
    for device in found.devices:
        visits = "none" if device.borrowed else str(len(device.seconds))
        times = (f"{seconds:.4g} s" for seconds in (statistics.median(device.seconds), max(device.seconds)))
        cells = [str(device.number), visits, *times, str(device.lost), f"{100 * device.away_share(found.span):.1f} %"]
        if found.linked:
            link = device.link
            cells += [f"{link.up_mbps:.4g} Mbit/s", f"{link.down_mbps:.4g} Mbit/s", f"{link.latency:.3g} s"]
        rows.append((cells, False))
    return Answer(columns=(*titles, *links), rows=rows, lines=lines, close=True)


def _lines(found: Measured, predicted: Prediction | str | None, run: Path, out: Path | None) -> list[str]:
    lines = []
    if borrowed := sum(device.borrowed for device in found.devices):
        who = "1 device has" if borrowed == 1 else f"{borrowed} devices have"
        lines.append(f"{who} finished no visit; the seconds of the others are taken.")
    if found.linked and found.one_size:
        lines.append("All transfers of a direction had one size: all their time is put down to the byte rate.")
    if found.server is not None:
        lines.append(f"A server's job took {found.server:.3g} s on average.")
    if isinstance(predicted, str):
        lines.append(f"The prediction could not be checked: {predicted}")
    elif predicted is not None:
        lines.append(
            f"Median of {predicted.rounds} rounds: {predicted.measured:.4g} s measured, {predicted.predicted:.4g} s"
            f" in a simulation on this fleet (x{predicted.ratio:.3f})."
        )
    if out is not None:
        lines.append(f"{out} is written; the next run: paceline run NAME --config {run} --set fleet.file={out}")
    return lines
