"""What runs have left in their directories: tables, frames, spans, models, pages and figures."""

from __future__ import annotations

import math
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.api.models import state_dict
from paceline.config import parse_variant
from paceline.errors import DataError, nearest
from paceline.report.runs import Group, Run, group_runs, load_run
from paceline.report.tables import Comparison, compared, comparison, remarks

if TYPE_CHECKING:  # pages and figures are imported by those who ask for one: a run alone does without their 20 MB
    import pyarrow as pa

Frame = Any
"""A pandas DataFrame where pandas is installed, else a pyarrow Table."""


class Table:
    """A comparison that shows itself: as text in a terminal, as a table in a notebook."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._groups = groups
        found: Comparison = compared(groups)
        self.titles = list(found.titles)
        self.rows = [list(row) for row in found.rows]

    def __repr__(self) -> str:
        lines = [self.titles, *self.rows]
        widths = [max(len(line[k]) for line in lines) for k in range(len(self.titles))]
        text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        return "\n".join([*(line.rstrip() for line in text), *remarks(self._groups)])

    def _repr_html_(self) -> str:
        return comparison(self._groups)

    def latex(self) -> str:
        """The same table in LaTeX, with booktabs' rules."""
        from paceline.figures.latex import latex_table

        return latex_table(self._groups)


class Scratch:
    """A directory that lasts as long as somebody holds on to this."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="paceline-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class Result:
    """Runs that have ended; ``paceline.compare`` gives one, and ``paceline.load`` reads one from disk.

    >>> import paceline, tempfile
    >>> result = paceline.compare(["fedavg", "fedbuff"], clients=5, rounds=2, partition="iid", seeds=2)
    >>> len(result.runs), len(result.groups), result.labels
    (4, 2, ['fedavg', 'fedbuff'])
    >>> [row[0] for row in result.table().rows]
    ['fedavg', 'fedbuff']
    >>> [row["round"] for row in result.rows("fedavg", seed=1)]
    [1.0, 2.0]
    >>> len(result.frame()), len(result.spans("fedavg")) > 20
    (8, True)
    >>> sorted(result.model("fedbuff"))
    ['1.bias', '1.weight', '3.bias', '3.weight']
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(result.report(f"{folder}/page.html").name)
    page.html
    >>> result.figure("time-to-accuracy").axes[0].get_xlabel()
    'target accuracy'
    """

    def __init__(self, directories: Sequence[Path], scratch: Scratch | None = None, *, trust: bool = False) -> None:
        self.directories = list(directories)
        self._scratch = scratch
        self._trust = trust

    @cached_property
    def runs(self) -> list[Run]:
        """Every run: algorithm, seed, settings, metrics, summary."""
        return [load_run(path) for path in self.directories]

    @cached_property
    def groups(self) -> list[Group]:
        """The seeds of one and the same thing, together."""
        return group_runs(self.runs)

    @property
    def labels(self) -> list[str]:
        """What is compared: the algorithms, and what tells their variants apart."""
        return [group.label for group in self.groups]

    def table(self) -> Table:
        """Time, bytes, waiting and accuracy, one row for each algorithm, with 95 % intervals over seeds."""
        return Table(self.groups)

    def rows(self, label: str, seed: int | None = None) -> list[dict[str, float]]:
        """The metrics of one run, one dictionary for each evaluation."""
        run = self._run(label, seed)
        columns = {name: list(column) for name, column in run.metrics.items()}
        rows = [dict(zip(columns, map(float, values), strict=True)) for values in zip(*columns.values(), strict=True)]
        return [{name: value for name, value in row.items() if not math.isnan(value)} for row in rows]

    def frame(self) -> Frame:
        """The metrics of all runs as one frame: pandas where it is installed, else pyarrow."""
        import pyarrow as pa

        parts = [
            pa.table({"algorithm": [group.label] * count, "seed": [run.seed] * count, **run.metrics})
            for group in self.groups
            for run in group.runs
            if (count := len(next(iter(run.metrics.values()), ())))
        ]
        return _frame(pa.concat_tables(parts, promote_options="default") if parts else pa.table({}))

    def spans(self, label: str | None = None) -> Frame:
        """Who did what when, one row for each span, of all runs or of one algorithm's."""
        import pyarrow as pa

        from paceline.report.spans import read_spans

        groups = self.groups if label is None else [self._group(label)]
        parts = []
        for group in groups:
            for run in group.runs:
                if run.spans is None:
                    raise DataError(f"{run.path} keeps no spans; run it again without --no-spans")
                spans = read_spans(run.spans)
                spans = spans.add_column(0, "seed", pa.array([run.seed] * len(spans)))
                parts.append(spans.add_column(0, "algorithm", pa.array([group.label] * len(spans))))
        return _frame(pa.concat_tables(parts))

    def model(self, label: str, seed: int | None = None, client: int | None = None) -> dict[str, Any]:
        """The weights that were scored last, as a ``state_dict``; of one client where models are personal."""
        return state_dict(self._run(label, seed).path, client, trust=self._trust)

    def report(self, path: str | PathLike[str] = "report.html", title: str | None = None) -> Path:
        """Write one self-contained HTML page about all runs."""
        from paceline.report.page import write_report

        return write_report(self.directories, Path(path), title)

    def figure(self, kind: str = "time-to-accuracy", *, width: str | float = "column", **options: Any) -> Any:
        """A matplotlib figure as ``paceline figure`` writes it.

        Kinds are ``time-to-accuracy``, ``accuracy``, ``bytes``, ``pareto``, ``gantt`` and ``topology``; options are
        those of the command (``log="y"``, ``targets=(0.8, 0.9)``, ``over="round"``, ``window=(0, 60)``, ...).
        """
        from paceline.figures.kinds import draw
        from paceline.figures.paper import Options, parse_width

        return draw(kind, self.groups, Options(width=parse_width(str(width)), **options))

    def __repr__(self) -> str:
        return f"{len(self.runs)} runs in {self.directories[0].parent}\n{self.table()!r}"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def _group(self, label: str) -> Group:
        found = [group for group in self.groups if label == group.label or _is_variant(group.runs[0], label)]
        if len(found) == 1:
            return found[0]
        if found:
            raise DataError(f"there are several runs of {label!r}: {', '.join(group.label for group in found)}")
        raise DataError(f"there is no run of {label!r}; {nearest(label, self.labels)}")

    def _run(self, label: str, seed: int | None) -> Run:
        runs = self._group(label).runs
        for run in runs:
            if seed is None or run.seed == seed:
                return run
        raise DataError(f"{label} has no seed {seed}; it has {', '.join(str(run.seed) for run in runs)}")


def load(directory: str | PathLike[str], *, trust: bool = False) -> Result:
    """The runs in a directory: of one run, or of a whole comparison.

    With ``trust`` code of the user's own that the settings name (a network, say) may be imported when it is needed.

    >>> import paceline, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = paceline.run("fedavg", clients=5, rounds=1, partition="iid", out=f"{folder}/one")
    ...     print(paceline.load(f"{folder}/one").labels)
    ['fedavg']
    """
    path = Path(directory)
    inside = sorted(found.parent for found in path.glob("*/settings.json")) if path.is_dir() else []
    return Result([path] if (path / "settings.json").exists() or not inside else inside, trust=trust)


def _is_variant(run: Run, label: str) -> bool:
    """Whether a run is what ``fedbuff`` or ``fedbuff@buffer=5`` names."""
    name, words = parse_variant(label)
    settings = run.settings
    same = all(settings.get(f"options.{key}", settings.get(key)) == value for key, value in words.items())
    return run.algorithm == name and same


def _frame(table: pa.Table) -> Frame:
    return table.to_pandas() if find_spec("pandas") else table
