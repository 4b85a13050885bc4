"""Reports on chosen runs, made beside the server's own work and kept while the runs stay as they are."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

from starlette.concurrency import run_in_threadpool

from paceline.ledger.directory import refuse_links
from paceline.ui.listing import Listed

KEPT = 4
Key = tuple[tuple[str, float], ...]


class Reporter:
    """Makes one report at a time."""

    def __init__(self) -> None:
        self._one = asyncio.Lock()
        self._kept: OrderedDict[Key, str] = OrderedDict()

    async def page(self, runs: Sequence[Listed]) -> str:
        """The report on these runs."""
        key = tuple((run.name, run.changed) for run in runs)
        async with self._one:
            if key not in self._kept:
                self._kept[key] = await run_in_threadpool(_page, runs)
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            return self._kept[key]


def _page(runs: Sequence[Listed]) -> str:
    from paceline.report.page import render
    from paceline.report.runs import load_run

    for run in runs:
        refuse_links(run.path)
    names = ", ".join(dict.fromkeys(run.algorithm for run in runs))
    return render([load_run(run.path) for run in runs], names)
