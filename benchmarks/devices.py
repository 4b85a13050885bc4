"""What a visit costs with many devices at work: ``python -m benchmarks.devices`` or ``make bench-growth``.

Every algorithm on six fleets, dry, through the command line and through Python: CPU time per visit with 32,000
devices at work over that with 2,000, about 64,000 visits each, less the time of a run of 40 devices and one round. A
ratio above 1.5 is a finding, and is measured twice more: the median counts. Every point is a process of its own,
forked from one that has imported everything, and counts only the time of the processor.

``--only``, ``--fleets`` and ``--through`` choose cells by their names; ``--devices`` and ``--visits`` give other
sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MOST = 1.5
SERVERS = 16
"""Of P-FedAvg and HierFAVG at every size: what grows are their devices."""
GRAPH = 4_000
"""Devices that are nodes of one graph, at most: graphs have up to 5,000."""
FEW = 40
"""Devices of the run whose time is taken off."""
Words = list[str]


@dataclass(frozen=True)
class Case:
    """How an algorithm has so many devices at work, and what is said about that."""

    words: Callable[[int, int], Words]
    """For so many devices and about so many visits."""
    about: str = "all at work in every round"
    on_graph: bool = False
    """Whether devices are nodes of a graph, of which there may be GRAPH at most: its cells are smaller."""
    goes_on: bool = False
    """Whether all devices are in mid-visit when a run ends: visits are counted as they begin."""


def rounds(devices: int, visits: int, a_round: int = 1) -> str:
    """The setting of rounds for about this many visits, with ``a_round`` of them per device and round."""
    return f"rounds={max(1, visits // (devices * a_round))}"


def plain(*more: str, a_round: int = 1) -> Callable[[int, int], Words]:
    """All devices in every round; ``{n}`` in what is said besides is their number."""

    def words(devices: int, visits: int) -> Words:
        said = [word.format(n=devices) for word in more]
        return [f"clients={devices}", rounds(devices, visits, a_round), *said]

    return words


def tandem(devices: int, visits: int) -> Words:
    """Sequences of two, of which one client is at work."""
    return [f"clients={2 * devices}", rounds(devices, visits, 2), f"psfl.participants={2 * devices}",
            f"psfl.width={devices}", "psfl.length=2"]  # fmt: skip


def tree(devices: int, visits: int, name: str, servers: str, a_round: int = 1) -> Words:
    """As many devices at each of some servers."""
    each = max(1, devices // SERVERS)
    return [
        f"clients={max(devices, SERVERS)}",
        rounds(devices, visits, a_round),
        servers,
        f"{name}.participants={each}",
    ]


def pool(name: str, buffer: int) -> Callable[[int, int], Words]:
    """As many at work as there are clients."""

    def words(devices: int, visits: int) -> Words:
        more = [f"fedbuff.buffer={buffer}"] if name == "fedbuff" else []
        return [f"clients={devices}", f"{name}.concurrency={devices}", f"rounds={max(1, visits // buffer)}", *more]

    return words


TEN = (
    "all at work, each with ten neighbours (a complete graph would be the square of them);"
    f" on fair links up to {GRAPH}, with fixed ones"
)
CASES = {
    "fedavg": Case(plain("fedavg.participants={n}")),
    "sfl": Case(
        lambda n, visits: [f"clients={n}", f"rounds={max(1, visits // FEW)}", f"sfl.participants={min(n, FEW)}"],
        f"one at work, as it is: {FEW} of all devices a round, one after the other",
    ),
    "psfl": Case(tandem, "all at work: as many sequences of two clients each"),
    "spfl": Case(plain()),
    "apfl": Case(lambda n, visits: [f"clients={n}", f"rounds={visits}"], "all at work, nobody waits", goes_on=True),
    "dga": Case(plain()),
    "mifa": Case(plain()),
    "feddf": Case(plain("feddf.participants={n}")),
    "p-fedavg": Case(
        lambda n, visits: tree(n, visits, "p-fedavg", "p-fedavg.topology=torus:4x4"),
        f"all at work, at {SERVERS} servers with four neighbours each",
    ),
    "hierfavg": Case(
        lambda n, visits: tree(n, visits, "hierfavg", f"hierfavg.servers={SERVERS}", 2),
        f"all at work, at {SERVERS} edge servers",
    ),
    "dpsgd": Case(plain(), f"all at work, each with two neighbours on a ring of up to {GRAPH}", on_graph=True),
    "da-dpfl": Case(plain(), TEN),
    "dispfl": Case(plain(), TEN),
    "ditto": Case(plain("ditto.participants={n}", a_round=2), "all at work, each with two trainings a round"),
    "feddst": Case(plain("feddst.participants={n}")),
    "gossipfl": Case(plain(), "all at work, in pairs"),
    "dfedavgm": Case(plain(), TEN),
    "dfedsam": Case(plain(), TEN),
    "beer": Case(plain(), f"all at work, each with ten neighbours on a circle of up to {GRAPH}", on_graph=True),
    "fedasync": Case(pool("fedasync", 1), "all at work, nobody waits", goes_on=True),
    "fedbuff": Case(pool("fedbuff", 100), "all at work, with a buffer of 100", goes_on=True),
}
RATES = "fleet.links=rate:20,100"
FLEETS = {
    "free": [],
    "rates": [RATES],
    "fair": [RATES, "fleet.sharing=fair"],
    "duty": ["fleet.availability=duty:60,0.7"],
    "server": ["fleet.server=constant:0.7"],
    "failures": ["fleet.failures=server:2@5+links:1e9"],
}
"""By word: links without limits, links of some rate, shared ones, devices that come and go, a slow server, failures.

The server's own rate is not limited: where it is, all its transfers share it, and every one of them has another rate
whenever one begins or ends (``paceline.worlds.network.crowd``), so that a visit costs as much as there are transfers.
"""
LEFT_OUT = {("dfedavgm", "fair"), ("dfedsam", "fair")}
"""Cells that grow, for the same reason: with more devices, more transfers of a round are connected by the devices
that they share, and all that are connected are divided anew whenever one of them begins or ends."""
THROUGH = ("cli", "python")


def words_of(name: str, fleet: str, devices: int, visits: int) -> Words:
    """All settings of a point."""
    from paceline.algorithms.registry import algorithm_named

    words = [*CASES[name].words(devices, visits), "partition=iid", *FLEETS[fleet]]
    if name == "sfl" and fleet == "duty":  # a sequence from which nobody can be left out
        words.append("absence=wait")
    if CASES[name].about == TEN and fleet == "fair":  # random ones connect all transfers of a round with each other
        words.append(f"{name}.neighbours.graph=regular:{devices},10")
    if name == "apfl" and fleet == "server":  # in 0.7 s half of the devices finish a visit
        words[1] = rounds(devices, 2 * visits)
    traits = algorithm_named(name).make().traits(devices)
    if fleet == "failures" and traits.servers < 2:  # one that must not fail, though it could; or none
        words[-1] = "fleet.failures=" + ("servers:1e9+links:1e9" if traits.servers else "links:1e9")
    return words


def perform(name: str, words: Words, through: str, folder: Path) -> int:
    """Run it as a user does; returns the visits."""
    if through == "python":
        import paceline

        pairs = [word.split("=", 1) for word in words]
        settings = {key: int(value) if value.isdigit() else value for key, value in pairs}
        result = paceline.run(name, dry=True, settings=settings)
        (label,) = result.labels
        return int(result.rows(label)[-1]["visits"])
    from paceline.cli.main import main

    said = [word for each in words for word in ("--set", each)]
    sys.argv = ["paceline", "run", name, "--dry-run", "--out", str(folder / "run"), *said]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"{' '.join(sys.argv)} ended with {end.code}") from None
    return int(json.loads((folder / "run" / "summary.json").read_text())["visits"])


def measure(name: str, fleet: str, through: str, devices: int, visits: int) -> dict[str, float]:
    """One point in a process of its own: seconds of the processor, visits, and peak memory."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        _work(name, words_of(name, fleet, devices, visits), through, theirs)
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    found: dict[str, float] = json.loads(said) if said.startswith("{") else {}
    if not found:
        raise SystemExit(f"{name} on {fleet} through {through} with {devices} devices: {said or 'killed'}")
    return found


def _work(name: str, words: Words, through: str, pipe: int) -> None:
    """The child's part; it never returns."""
    said = "nothing"
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        with tempfile.TemporaryDirectory() as folder:
            begin = time.process_time()
            visits = perform(name, words, through, Path(folder))
            cpu = time.process_time() - begin
        said = json.dumps(
            {"cpu": cpu, "visits": visits, "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10}
        )
    except BaseException as problem:
        said = f"{type(problem).__name__}: {problem}"
    finally:
        os.write(pipe, said.encode())
        os._exit(0)


def cell(name: str, fleet: str, through: str, sizes: tuple[int, int], visits: int) -> dict[str, float]:
    """Microseconds a visit with few and with many devices at work, and their ratio."""
    if CASES[name].on_graph or (CASES[name].about == TEN and fleet == "fair"):
        sizes = (sizes[0] * min(GRAPH, sizes[1]) // sizes[1], min(GRAPH, sizes[1]))
    base = measure(name, fleet, through, FEW, FEW)
    found = {}
    for word, devices in zip(("few", "many"), sizes, strict=True):
        point = measure(name, fleet, through, devices, visits)
        begun = point["visits"] + devices * CASES[name].goes_on
        found[word] = 1e6 * max(point["cpu"] - base["cpu"], 0.0) / begun
        found[f"{word} visits"], found["mib"] = begun, point["mib"]
    return {**found, "ratio": found["many"] / found["few"]}


def main() -> None:
    """Print all cells; the exit status says whether all hold."""
    words = argparse.ArgumentParser(description="What a visit costs with many devices at work.")
    words.add_argument("--devices", type=int, nargs=2, default=(2_000, 32_000))
    words.add_argument("--visits", type=int, default=64_000)
    words.add_argument("--only", nargs="+", default=[*CASES], help="algorithms")
    words.add_argument("--fleets", nargs="+", default=[*FLEETS])
    words.add_argument("--through", nargs="+", default=[*THROUGH])
    words.add_argument("--json", type=Path)
    asked = words.parse_args()
    import paceline.cli.main
    import paceline.cli.performing
    import paceline.report.page
    import paceline.runs.performing  # noqa: F401  # so that no child has to

    rows = []
    print(
        f"{'algorithm':<10}{'fleet':<10}{'through':<8}{'µs few':>8}{'µs many':>9}{'ratio':>7}{'MiB':>7}", flush=True
    )
    for name in asked.only:
        for fleet in asked.fleets:
            if (name, fleet) in LEFT_OUT:
                print(f"{name:<10}{fleet:<10}left out: its transfers are all connected", flush=True)
                continue
            for through in asked.through:
                tried = [cell(name, fleet, through, tuple(asked.devices), asked.visits)]
                if tried[0]["ratio"] > MOST:
                    tried += [cell(name, fleet, through, tuple(asked.devices), asked.visits) for _ in range(2)]
                row = sorted(tried, key=lambda one: one["ratio"])[len(tried) // 2]
                rows.append({"algorithm": name, "fleet": fleet, "through": through, **row})
                late = "  <-" if row["ratio"] > MOST else ""
                print(f"{name:<10}{fleet:<10}{through:<8}{row['few']:>8.1f}{row['many']:>9.1f}{row['ratio']:>7.2f}"
                      f"{row['mib']:>7,.0f}{late}", flush=True)  # fmt: skip
    for name in asked.only:
        print(f"{name}: {CASES[name].about}")
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(any(row["ratio"] > MOST for row in rows))


if __name__ == "__main__":
    main()
