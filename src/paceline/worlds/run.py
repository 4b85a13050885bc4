"""One run: an algorithm in a simulated world, its metrics and its directory."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from paceline.algorithms.base import Progress
from paceline.config import to_tree
from paceline.errors import PacelineError, SettingError, SiteError
from paceline.learn.graph import Measure, Model, Promise
from paceline.learn.job import Score
from paceline.ledger import Ledger
from paceline.ledger.directory import RunDirectory
from paceline.system import build_fleet
from paceline.worlds.hostile import parse_hostile
from paceline.worlds.measured import with_measured_server
from paceline.worlds.problem import Problem, build_problem
from paceline.worlds.settings import Settings
from paceline.worlds.simulation import Simulation
from paceline.worlds.until import Until

Row = dict[str, Any]
FLUSH_FLOPS = 5e10
FLUSH_FLOPS_CUDA = 2e12
"""Training FLOPs after which deferred learning is computed: a few seconds of real time between two lines of metrics.
A count, not a clock: what trains together must not depend on how fast the machine is just now."""
FEWEST = 16


@dataclass(eq=False)
class Run:
    """A run that a driver advances: it goes on until it needs a value or has ended."""

    settings: Settings
    until: Until = field(default_factory=Until)
    dry: bool = False
    directory: Path | None = None
    keep_spans: bool = True
    on_row: Callable[[Run, Row], None] | None = None
    rows: list[Row] = field(default_factory=list)
    failure: BaseException | None = None
    reached: Row | None = None
    """The metrics at which the target was first met."""
    personal: bool = False
    """Whether scores are means over clients, each on its own test samples."""

    def __post_init__(self) -> None:
        s = self.settings
        s.algorithm.check(s.clients)
        if self.dry and (way_out := getattr(s.algorithm, "observes", "")):
            raise SettingError(
                f"a dry run learns nothing, but {s.name} must learn something to know its schedule: leave out"
                f" --dry-run, or {way_out}"
            )
        _check_public(s)
        self.problem: Problem = build_problem(
            dataset=s.dataset,
            partition=s.partition,
            clients=s.clients,
            model=s.model,
            seed=s.seed,
            dtype=s.executor.dtype,
            dry=self.dry,
            public=s.public,
        )
        if self.problem.others and not getattr(s.algorithm, "mixes_architectures", False):
            raise SettingError(
                f"model is {s.model!r}, several architectures, but {s.name} averages weights, which must all be of"
                " one architecture; use feddf, or give one model"
            )
        self.settings = s = replace(s, fleet=with_measured_server(s.fleet, self.problem.space, s.executor.device))
        fleet = build_fleet(s.fleet, s.clients, s.seed)
        _check_recipe(s, self.problem)
        ledger = Ledger(keep=self.keep_spans)
        adversary = parse_hostile(s.hostile, s.clients, s.seed)
        self.world = Simulation(fleet, self.problem, s.seed, ledger, learning=not self.dry, adversary=adversary)
        self.writer: RunDirectory | None = None
        self.task: asyncio.Task[None] | None = None
        self.done = False
        self._flush_limit = _flush_limit(s, self.problem)
        self._waiting: list[tuple[Row, dict[str, Measure]]] = []
        self._scores: list[Score] = []
        self._flush: asyncio.Future[Any] | None = None
        self._begun = time.perf_counter()

    def start(self) -> None:
        """Make the directory and the coroutine; all was checked before, so a slip leaves nothing behind."""
        if self.directory is not None:
            self.writer = RunDirectory.create(self.directory, describe(self.settings))
            self.world.ledger.path = self.writer.spans if self.keep_spans else None
        self.task = self.world.loop.start(self._main())
        self._begun = time.perf_counter()

    @property
    def label(self) -> str:
        """Name and seed."""
        return f"{self.settings.name} seed {self.settings.seed}"

    # -- inside virtual time ------------------------------------------------------------------------------------

    async def _main(self) -> None:
        """Follow the algorithm, evaluating as asked, until it ends or the target is met."""
        progress: Progress | None = None
        every = self.settings.every or 1
        if not self.world.fleet.failures.none and not getattr(self.settings.algorithm, "outlives_servers", False):
            self.world.spawn(self._end_with_server())
        stream = self.settings.algorithm.run(self.world)
        async for progress in stream:
            self.world.round += 1
            due = self.world.round % every == 0
            if due and await self._evaluate(progress):
                break
            if self.until.met_at(self.world.now(), self.world.ledger.visits):
                break
            if len(self.world.pending) >= self._flush_limit:
                self._flush = self.world.loop.hold()
                await self._flush
        await stream.aclose()
        if progress is not None and self._last_round() != self.world.round:
            await self._evaluate(progress)

    async def _end_with_server(self) -> None:
        """An algorithm with one server ends when that fails, and says so."""
        await self.world.breakdown(self.world.server)
        name = self.settings.name
        raise SiteError(f"server 1 failed at t={self.world.now():g} s, and {name} cannot go on without it")

    def _last_round(self) -> int:
        if self._waiting:
            return int(self._waiting[-1][0]["round"])
        return int(self.rows[-1]["round"]) if self.rows else -1

    async def _evaluate(self, progress: Progress) -> bool:
        """Promise (or, if the schedule depends on it, await) a row of metrics; True if the target is met."""
        row = self._costs() | dict(progress.info)
        if self.dry:
            self._write(row)
            return False
        scored = self._scored(progress.model)
        self.personal = not isinstance(scored, Model)
        measures = {"": self.problem.measure(scored)}
        measures |= {f"_{name}": self.problem.measure_others(model) for name, model in progress.others.items()}
        self._waiting.append((row, measures))
        self.world.promises += [(measure, None) for measure in measures.values()]
        if not self.until.learned:
            return False
        await self.world.observe(measures[""])  # by now its row is written
        return self.reached is not None

    def _scored(self, model: Model | Sequence[Model]) -> Model | Sequence[Model]:
        """What is scored: one model on all test samples, or every client's on its own."""
        if self.settings.personal and isinstance(model, Model):
            return [model] * self.settings.clients
        return model

    def _costs(self) -> Row:
        ledger = self.world.ledger
        engaged = ledger.busy_seconds + ledger.wait_seconds
        return {
            "round": self.world.round,
            "time": self.world.now(),
            "visits": ledger.visits,
            "bytes": ledger.bytes,
            "idle_share": ledger.wait_seconds / engaged if engaged else 0.0,
        }

    # -- outside, with the driver ---------------------------------------------------------------------------

    def advance(self) -> None:
        """Go on until a value is needed or the run has ended; a failure is kept, not raised."""
        if self.task is None:
            self.start()
        try:
            if self.world.loop.advance():
                self.done = True
                self.world.loop.result()
        except PacelineError as problem:
            self._fail(problem)
        except Exception as problem:
            where = "".join(f", {note}" for note in getattr(problem, "__notes__", ()))
            wrapped = SiteError(f"failed at t={self.world.now():g} s{where}: {type(problem).__name__}: {problem}")
            wrapped.__cause__ = problem
            self._fail(wrapped)

    def wanted(self) -> tuple[list[Model], list[Promise[Any]]]:
        """What must be computed before this run can go on."""
        world = self.world
        models: list[Model] = []
        if self._flush is not None:
            alive = (reference() for reference in world.pending)
            models = [model for model in alive if model is not None and model.value is None]
        return models, [promise for promise, _ in world.promises if promise.result is None]

    def settle(self, diverged: PacelineError | None) -> None:
        """Values are there: write the rows that waited for them and let the coroutine go on."""
        world = self.world
        if diverged is not None and self.failure is None:
            self._fail(diverged)
        self._write_ready()
        if self.failure is not None:
            return
        promises, world.promises = world.promises, []
        for promise, hold in promises:
            if hold is not None:
                world.loop.settle(hold, promise.result)
        world.pending = [r for r in world.pending if (m := r()) is not None and m.value is None]
        if self._flush is not None:
            flush, self._flush = self._flush, None
            world.loop.settle(flush, None)

    def _write_ready(self) -> None:
        while self._waiting and all(measure.result is not None for measure in self._waiting[0][1].values()):
            row, measures = self._waiting.pop(0)
            scores = {name: measure.result for name, measure in measures.items() if measure.result is not None}
            score = scores[""]
            if self.failure is not None and score.loss != score.loss:
                continue  # scores of a diverged model are no result
            for name, one in scores.items():
                row |= {f"accuracy{name}": one.accuracy, f"loss{name}": one.loss}
            self._write(row)
            self._scores = [*self._scores, score][-self.until.over :]
            if self.reached is None and self.until.met_by(self._scores):
                self.reached = self.rows[-1]

    def _write(self, row: Row) -> None:
        self.rows.append(row)
        if self.writer is not None:
            self.writer.metric(row)
        if self.on_row is not None:
            self.on_row(self, row)

    def _fail(self, problem: BaseException) -> None:
        self.failure = problem
        self.done = True

    def close(self) -> None:
        """End the run's tasks, complete its files."""
        try:
            self.world.loop.close()
        finally:
            self.world.ledger.close()
            if self.writer is not None:
                self.writer.finish(self.summary())
            # What was under way holds models, on a GPU perhaps gigabytes; the run itself may be kept for its rows.
            self.task, self._flush = None, None
            self._waiting.clear()
            self.world.forget()

    def summary(self) -> dict[str, Any]:
        """The run in one object."""
        totals = self.world.ledger.totals()
        last = self.rows[-1] if self.rows else {}
        status = "done" if self.failure is None else f"failed: {type(self.failure).__name__}"
        if isinstance(self.failure, KeyboardInterrupt):
            status = "interrupted"
        return {
            "algorithm": self.settings.name,
            "seed": self.settings.seed,
            "status": status,
            "error": None if self.failure is None else str(self.failure),
            "hostile": sorted(self.world.hostile),
            "rounds": self.world.round,
            "time": self.world.now(),
            "visits": totals.visits,
            "bytes": totals.bytes,
            "busiest_bytes": totals.busiest_bytes,
            "busiest_site": totals.busiest_site,
            "flops": totals.flops,
            "joules": totals.joules,
            "idle_share": totals.idle_share,
            "idle_causes": [list(pair) for pair in self.world.ledger.blame()],
            "distributions": {
                name: {str(value): count for value, count in sorted(counts.items())}
                for name, counts in self.world.distributions.items()
            },
            "notes": [{"time": n.time, "text": n.text, "figures": n.figures} for n in self.world.notes],
            "accuracy": last.get("accuracy"),
            "loss": last.get("loss"),
            "personal": self.personal,
            "sparsity": last.get("sparsity"),
            "target": self._target(),
            "until": asdict(self.until),
            "seconds": time.perf_counter() - self._begun,
        }

    def _target(self) -> dict[str, Any] | None:
        if not self.until.learned:
            return None
        asked = {"accuracy": self.until.accuracy, "loss": self.until.loss}
        figures = {key: (self.reached or {}).get(key) for key in ("time", "bytes", "visits", "idle_share")}
        return {
            **{k: v for k, v in asked.items() if v is not None},
            **figures,
            "rounds": (self.reached or {}).get("round"),
        }


def _flush_limit(settings: Settings, problem: Problem) -> int:
    """Visits after which learning is computed: few for costly ones, never more than the settings allow."""
    local = getattr(settings.algorithm, "local", None)
    flops = problem.flops(0, local) if local is not None else math.nan
    if not flops > 0:
        return min(FEWEST, settings.flush)
    cuda = settings.executor.device.startswith("cuda") or (
        settings.executor.device == "auto" and torch.cuda.is_available()
    )
    return int(min(max((FLUSH_FLOPS_CUDA if cuda else FLUSH_FLOPS) / flops, FEWEST), settings.flush))


def _check_public(settings: Settings) -> None:
    """A server that screens or distils needs samples of its own."""
    aggregation = getattr(settings.algorithm, "aggregation", settings.algorithm)
    if getattr(aggregation, "needs_public", False) and not settings.public:
        raise SettingError(
            f"{settings.name} is to screen or distil at the server, which needs samples there; give it some, as in"
            " --set public=0.05, or choose another aggregation.rule"
        )


def _check_recipe(settings: Settings, problem: Problem) -> None:
    """Recipes that this data cannot be trained with."""
    local = getattr(settings.algorithm, "local", None)
    if local is None:
        return
    if local.augment == "crop-flip" and len(problem.space.shape) != 3:
        shape = problem.space.shape
        raise SettingError(f"local.augment=crop-flip needs images; a sample of {settings.dataset} has shape {shape}")
    if local.loss == "squared" and problem.test is not None and not problem.test[1].is_floating_point():
        raise SettingError(
            f"local.loss=squared needs numeric targets; {settings.dataset} has classes: use cross_entropy"
        )


def describe(settings: Settings) -> dict[str, Any]:
    """All settings as plain values, the algorithm's own under ``options``."""
    tree = to_tree(settings)
    name, options = tree.pop("name"), tree.pop("algorithm")
    return {"algorithm": name, "options": {k: _plain(v) for k, v in options.items()}, **tree}


def _plain(value: Any) -> Any:
    simple = isinstance(value, str | int | float | bool | dict | type(None))
    return value if simple else type(value).__name__
