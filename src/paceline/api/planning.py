"""Advice without training, from Python: what `paceline plan` prints, as objects with numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from paceline.algorithms.structure import Structure, choose_structure
from paceline.api.plan_page import write_plan
from paceline.api.words import settings_tree
from paceline.errors import SettingError
from paceline.kinds import made
from paceline.plans import fleet as measured
from paceline.plans import methods, overlap, peers
from paceline.plans import servers as overlays
from paceline.plans import servers_families as families
from paceline.plans.capacities import read_capacities
from paceline.plans.demand import Demand
from paceline.plans.demand_devices import from_devices, read_devices
from paceline.plans.fleet_file import as_toml
from paceline.plans.neighbours import Peers
from paceline.plans.pace import Pace
from paceline.topology import Mixing, make_mixing, parse_graph


def plan_structure(
    participants: int, *, time_mean: float, time_std: float, ratio: float, clients: int | None = None
) -> Structure:
    """How many sequences of how many clients PSFL should have (PS-7), by the paper's bounds.

    ``time_mean`` and ``time_std`` are of one client's visits, ``ratio`` is α/β of the bound (PS-4).

    >>> found = plan_structure(20, time_mean=2.5, time_std=1.0, ratio=0.3)
    >>> found.W * found.S <= 20
    True
    """
    return choose_structure(
        participants=participants, time_mean=time_mean, time_std=time_std, ratio=ratio, population=clients
    )


def plan_overlap(*, t_local: float, t_comm: float, t_wait: float, t_aggregate: float, **more: Any) -> overlap.Overlap:
    """What it gains that devices and server work at the same time: speed-ups over FedAvg, method by method.

    The four times of No One Idles in seconds: local training, communication, a straggler's absence, aggregation;
    ``more`` is ``devices``, ``dropout``, ``jitter``.

    >>> found = plan_overlap(t_local=10, t_comm=2, t_wait=0, t_aggregate=10)
    >>> sorted(found.methods)[0]
    'apfl'
    """
    times = {"t_local": t_local, "t_comm": t_comm, "t_wait": t_wait, "t_aggregate": t_aggregate}
    return overlap.compare(made(Pace, {**times, **more}))


def plan_peers(
    caps: Sequence[int | None] = (0, 2, None), *, draws: int = 2000, seed: int = 0, **more: Any
) -> dict[int | None, peers.Rounds]:
    """How long rounds of DA-DPFL take with each wait cap N (None is no cap), and how many clients start at once.

    ``more`` is ``clients``, ``neighbours``, ``topology``, ``time``, ``spread``, ``fetch``.

    >>> found = plan_peers([0, 2], clients=20, neighbours=5, draws=50)
    >>> float(found[0].seconds.mean())
    1.0
    """
    return dict(zip(caps, peers.simulate(made(Peers, more), caps, draws=draws, seed=seed), strict=True))


def plan_mixing(graph: str, weights: str = "optimal", *, seed: int = 0) -> Mixing:
    """With which weights servers or peers on a graph should average, and how fast they agree.

    >>> round(plan_mixing("ring:9", "metropolis").p, 4)
    0.2876
    """
    return make_mixing(parse_graph(graph, seed=seed), weights, seed=seed)


def plan_servers(
    topologies: Sequence[str] = families.TOPOLOGIES,
    numbers: Sequence[int] = families.SERVERS,
    *,
    simulate: bool = True,
    design: bool = False,
    fleet: str | PathLike[str] | None = None,
    network: str | PathLike[str] | None = None,
    **more: Any,
) -> overlays.Plan:
    """How many parameter servers, and linked how: candidates by time, traffic and consensus, the best one first.

    ``more`` says what is asked of them: ``clients``, ``participants``, ``megabits``, ``client_up``, ``server``, …;
    the file of a ``fleet`` says who the clients are, one by one, that of a ``network`` what servers and links carry.
    With ``design``, further overlays are designed for it. Without ``simulate``, only the formula
    is used.

    >>> plan_servers(["ring"], [4], clients=100, participants=20).best.servers in (1, 4)
    True
    """
    if fleet is not None:
        more |= from_devices(read_devices(fspath(fleet)), more)
    if network is not None:
        more["network"] = read_capacities(fspath(network))
    return overlays.plan_servers(made(Demand, more), topologies, numbers, simulate=simulate, design=design)


def plan_fleet(
    fleet: str | PathLike[str],
    out: str | PathLike[str] | None = None,
    *,
    model: Any = None,
    data: Any = None,
    algorithms: Sequence[str] = (),
    participants: int | None = None,
    servers: Sequence[int] = (),
    settings: Mapping[str, Any] | None = None,
    **words: Any,
) -> methods.MethodPlan | measured.Measured:
    """Which method for the fleet in a file; or, of the directory of a run on real machines, its fleet.

    A fleet's file (CSV or TOML) gives a ``MethodPlan``: dry runs of all sensible methods (or of some ``algorithms``),
    with ``participants`` clients at a time, and with several ``servers`` where their numbers are given. ``model``,
    ``data`` and further settings are as in ``paceline.compare``. ``out`` is a new HTML file for its page.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = Path(folder.name, "fleet.csv")
    >>> _ = file.write_text(chr(10).join(["device,seconds", *(f"d{k},{1 + k}" for k in range(6))]))
    >>> plan = plan_fleet(file, model="mlp", algorithms=["fedbuff"], participants=3)
    >>> plan.best.method.algorithm, plan.best.break_even > 1
    ('fedbuff', True)

    The directory of a run gives what its journal says, ``Measured``; ``out`` is then a new TOML file, which is what
    ``fleet`` of ``paceline.run`` takes: a simulation on it predicts the next run.

    >>> visit = '{"what": "visit", "site": 0, "start": 1.0, "end": 3.5}'
    >>> with folder as run:  # as little of a run as is needed
    ...     _ = Path(run, "settings.json").write_text('{"clients": 1}')
    ...     _ = Path(run, "journal.jsonl").write_text(visit + chr(10))
    ...     plan_fleet(run).devices[0].seconds
    (2.5,)
    """
    if Path(fleet).is_dir():
        if model or data or algorithms or participants or servers or settings or words:
            raise SettingError(f"{fleet} is the directory of a run; models, methods and settings are for fleet files")
        return _measured(Path(fleet), out)
    tree = settings_tree(settings, words, data=data, model=model, fleet=None)
    plan = methods.plan_methods(
        fspath(fleet),
        model=tree.pop("model", "auto"),
        dataset=tree.pop("dataset", methods.DATASET),
        algorithms=algorithms,
        participants=participants,
        servers=servers,
        settings=tree,
    )
    if out is not None:
        write_plan(plan, Path(out))
    return plan


def _measured(run: Path, out: str | PathLike[str] | None) -> measured.Measured:
    found = measured.measure(run)
    if out is not None:
        with Path(out).open("x", encoding="utf-8") as file:
            file.write(as_toml(found, run.absolute().name))
    return found
