"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paceline.cli.limits import few_seeds

Set = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", help="A setting, such as fleet.times=uniform or psfl.width=8."),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", help="A TOML file of settings, or the directory of a run; --set wins over it."),
]
UntilOption = Annotated[
    list[str] | None,
    typer.Option("--until", help="Stop at accuracy=0.9, loss=0.3, time=3600 (virtual seconds) or visits=1000."),
]
Seeds = Annotated[
    int,
    typer.Option("--seeds", help="Repeat with this many seeds; shows mean and 95 % interval.", click_type=few_seeds),
]
Out = Annotated[str | None, typer.Option("--out", "-o", help="Directory to write; default runs/DATE-NAME.")]
Dry = Annotated[bool, typer.Option("--dry-run", help="The schedule and its costs only; nothing is learned.")]
Json = Annotated[bool, typer.Option("--json", help="Print the summaries as JSON on standard output.")]
FiguresJson = Annotated[bool, typer.Option("--json", help="Print the figures as one JSON object.")]
PlanJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print the page of the documentation.")]
Read = Annotated[Path | None, typer.Option("--read", help="Run nothing: take the figures from this file of --json.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Absence = Annotated[
    str | None,
    typer.Option(
        "--absence", help="What becomes of devices that are away, for all algorithms: skip, wait or deadline:30."
    ),
]
CheckPlaces = Annotated[
    bool, typer.Option("--check-places", help="Fail if a model is used where it was never sent (slower).")
]
NoSpans = Annotated[
    bool, typer.Option("--no-spans", help="Keep no record of single spans (smaller, no Gantt chart).")
]


Checkpoint = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        help="Keep what is under way every so many seconds (20), so that it can be resumed; or never. 60,2GB also"
        " says how much room that may take.",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        help="How much memory learning may take, such as 4GiB: of the process on a CPU, of the device on CUDA. What"
        " is trained at once shrinks to fit.",
    ),
]
Trust = Annotated[
    bool, typer.Option("--trust", help="Import code, such as a network, that a settings file or a run on disk names.")
]
TrainerOption = Annotated[
    str | None,
    typer.Option(
        "--trainer",
        help="Who computes: cohort (this process), ray (a Ray cluster) or reference (one by one).",
    ),
]
RayOption = Annotated[
    str | None,
    typer.Option("--ray", help="HOST:PORT of a Ray cluster's head node, or auto; this machine's own unless given."),
]
Track = Annotated[
    list[str] | None,
    typer.Option(
        "--track",
        help="Also write to a tracker, on this machine only: tensorboard, mlflow or wandb; may be repeated.",
    ),
]
