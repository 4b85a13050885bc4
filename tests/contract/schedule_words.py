"""The words of random small runs: a function of a seed, and of nothing else."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
import random
import re
import shlex
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from paceline.algorithms.base import Traits
from paceline.algorithms.registry import ALGORITHMS, algorithm_named

TIME = 100_000.0
"""Virtual seconds after which a run may stop."""
FILES = Path(tempfile.gettempdir()) / f"paceline-schedules-{os.getuid()}"
"""What cases read. It stays, so that a command that failed can be repeated."""


def case(seed: int) -> tuple[str, list[str]]:
    """An algorithm and what is typed after --set: a function of the seed, which also writes the files they name."""
    rng = random.Random(seed)
    name = list(ALGORITHMS)[seed % len(ALGORITHMS)]
    fields, traits = known(name)
    clients = rng.choice([k for k in (1, 2, 3, 5, 8, 12, 20) if k >= (2 if "group" in fields else 1)])
    words = [f"clients={clients}", f"seed={rng.randrange(10)}", f"rounds={rng.choice([1, 2, 4, 8])}"]
    words += ["every=1", "partition=iid", *_own_words(rng, name, clients)]
    if rng.random() < 0.08:  # nobody is ever there for as long as a visit takes
        words += ["fleet.availability=duty:7,0.1", "fleet.times=constant:5", "fleet.jitter=0"]
    else:
        words += [f"fleet.availability={_availability(rng)}", f"fleet.times={_times(rng)}"]
        words.append(f"fleet.jitter={rng.choice([0, 0, 0.2, 1])}")
    words += _links(rng)
    if rng.random() < 0.3:
        words.append(f"fleet.server={rng.choice(['constant:0.7', 'constant:6', 'flops:1e6'])}")
    if rng.random() < (0.6 if traits.servers > 1 else 0.3 if traits.servers else 0.0):
        words.append(f"fleet.failures={_failures(rng, fields, words)}")
    words.append(f"absence={rng.choice(['own', 'own', 'skip', 'wait', 'deadline:1', 'deadline:20'])}")
    if rng.random() < 0.4:
        words.append(f"faults={_faults(rng)}")
    return name, words


def horizon(words: Sequence[str]) -> float:
    """The virtual time at which a run ends in any case.

    Where every upload is refused, an asynchronous method asks anew until then: millions of steps, which are no fault.
    """
    hopeless = any(re.search(r"^faults=.*(oversized|nan):1(\+|$)", word) for word in words)
    return TIME / 100 if hopeless else TIME


@cache
def known(name: str) -> tuple[frozenset[str], Traits]:
    """What settings an algorithm of the registry has, and its traits."""
    algorithm = algorithm_named(name).make()
    return frozenset(each.name for each in dataclasses.fields(algorithm)), algorithm.traits(100)  # type: ignore[arg-type]


def _own_words(rng: random.Random, name: str, n: int) -> list[str]:
    """An algorithm's own settings, by the names of those that it has, such as so many clients allow."""
    fields, traits = known(name)
    own: dict[str, Any] = {}
    if {"width", "length"} <= fields:
        own["width"] = rng.randint(1, n)
        own["length"] = rng.randint(1, n // own["width"])
        own["sampler"] = rng.choice(["uniform", "partition", "weighted"])
    elif "concurrency" in fields:
        own["concurrency"] = rng.randint(1, n)
        own |= {"buffer": rng.randint(1, n)} if "buffer" in fields else {}
    elif traits.servers > 1:
        own |= _servers(rng, fields, n)
    elif "participants" in fields:
        own["participants"] = rng.randint(1, n)
        own |= {"interval": rng.choice([1, 2, 10]), "before": rng.choice([1, "none"])} if "interval" in fields else {}
    elif "neighbours" in fields:
        own["neighbours.graph"] = rng.choice(["ring", "complete", "star", "tree", *["random"] * (3 if n > 1 else 0)])
        own["neighbours.degree"] = rng.randint(1, max(1, n - 1))
    elif "group" in fields:
        own["group"] = rng.randint(2, n)
    elif "topology" in fields:
        own["topology"] = rng.choice(["ring", "complete", "star", "tree"])
    elif "graph" in fields:
        own |= {"graph": rng.choice(["circulant", "ring", "complete"]), "degree": rng.randint(2, max(2, n - 1))}
        own["gradients"] = rng.choice(["batch", "full"])
    elif "extra" in fields:
        own["extra"] = rng.choice(["true", "false"])
    if traits.assumption is not None and "pruning" in fields:  # which a dry run cannot learn
        own |= {"wait": rng.randint(0, n), "rule": rng.choice(["fastest", "lowest"]), "pruning.target": 0}
        own |= {"decay": rng.choice(["true", "false"]), "growth": rng.choice(["gradient", "random"])}
    words = [f"{name}.{key}={value}" for key, value in own.items()]
    if "aggregation" in fields and rng.random() < 0.3:
        words += [f"{name}.aggregation.rule={rng.choice(['median', 'krum', 'screen', 'distil'])}", "public=0.1"]
    return words


def _servers(rng: random.Random, fields: frozenset[str], n: int) -> dict[str, Any]:
    servers = rng.randint(1, min(n, 6))
    own: dict[str, Any] = {"participants": rng.choice([rng.randint(1, n // servers), "none"])}
    own["layout"] = rng.choice(["spread", "blocks"])
    if "topology" in fields:
        own["topology"] = f"{rng.choice(['ring', 'complete', 'star', 'tree'])}:{servers}"
    else:
        own |= {"servers": servers, "partial": rng.choice([1, 2]), "redraw": rng.choice(["true", "false"])}
    return own


def _availability(rng: random.Random) -> str:
    kinds: list[Callable[[], str]] = [
        lambda: f"dropout:{rng.choice([0.1, 0.5, 0.9, 1])}",
        lambda: f"dropout:{rng.choice([0.02, 0.2, 0.9])},forever",
        lambda: f"duty:{rng.choice([1, 7, 50])},{rng.choice([0.1, 0.5, 0.9])}",
        lambda: f"windows:{_windows(rng)[0]}",
        lambda: "windows:{},{}".format(*_windows(rng)),
        lambda: f"vanish:{rng.choice([0.1, 0.6])},{rng.choice(['3', 'exponential:5', '50'])}",
        lambda: f"stragglers:{rng.choice([0.1, 0.5])},{rng.choice(['2', 'exponential:9'])}",
    ]
    return "+".join(kind() for kind in rng.sample(kinds, rng.choice([0, 1, 1, 1, 2]))) or "always"


def _windows(rng: random.Random) -> tuple[Path, int]:
    """A file of windows, and a period that all of them fit into."""
    lines, last = ["device,start,end"], 0.0
    for device in range(rng.randint(1, 12)):
        end = 0.0
        for _ in range(rng.randint(1, 4)):
            start = end + rng.choice([0, 0.5, 3, 10]) * rng.random()
            end = start + rng.choice([0.01, 1, 5, 20])
            lines.append(f"{device},{start:.6f},{end:.6f}")
        last = max(last, end)
    return _written("windows", lines), math.ceil(last) + rng.choice([0, 10, 200])


def _times(rng: random.Random) -> str:
    laws = ["discrete", "uniform", "exponential", "constant:1", "constant:5", "lognormal:1,2", "gaussian"]
    word = rng.choice([*laws, "flops:1e9", "flops:lognormal,2e6,1", "csv"])
    if word != "csv":
        return word
    rows = [f"{rng.randrange(4)},{rng.choice([0.01, 0.5, 2, 9]) * (0.5 + rng.random()):.6f}" for _ in range(12)]
    return f"csv:{_written('times', ['device,seconds', *rows])}"


def _links(rng: random.Random) -> list[str]:
    """Links and what transfers share; one model takes 0.15 s at 1 Mbit/s."""
    rates = ["rate:1,10", "rate:0.05,0.1", "rate:lognormal,1,1/lognormal,5,1"]
    links = rng.choice(["free", *rates, "seconds:1,1", "seconds:0,3", "trace"])
    words = [f"fleet.links={_trace(rng) if links == 'trace' else links}"]
    if rng.random() < 0.4:
        words.append(f"fleet.latency={rng.choice([0.01, 1])}")
    if links[:4] in ("rate", "trac"):
        words.append(f"fleet.sharing={rng.choice(['none', 'fair', 'ofdma:1200', 'ofdma:3'])}")
        words += [f"fleet.server_mbps={rng.choice([0.2, 20])}"] if rng.random() < 0.5 else []
    if rng.random() < 0.3:
        backbone = rng.choice(["rate:10,5", "rate:lognormal,1,1/0.2", "node:0.3", "edge:0.2", "geant", "exodus"])
        words.append(f"fleet.backbone={backbone}")
    return words


def _trace(rng: random.Random) -> str:
    """Recorded both ways, one way for both, or one way beside a constant one."""
    kind = rng.choice(["", ",same", ",0.4"])
    lines = ["trace,direction,t_s,mbps"]
    for place in "abc":
        for direction in ("down",) if kind else ("up", "down"):
            time = 0.0
            for rate in (rng.choice([0.3, 3]), *(rng.choice([0, 0.05, 0.5, 5]) for _ in range(rng.randint(0, 6)))):
                lines.append(f"{place},{direction},{time:.6f},{rate}")
                time += rng.choice([0.2, 2, 20]) * (0.5 + rng.random())
    return f"trace:{_written('trace', lines)}{kind}"


def _failures(rng: random.Random, fields: frozenset[str], words: Sequence[str]) -> str:
    """Of servers and links that the algorithm has."""
    time = rng.choice([0, 2, 5, 30])
    kinds = ["servers:30", "links:20", "servers:20+links:20", "servers:500"]
    kinds.append(f"server:1@{time}")
    for word in words:
        key, _, value = word.partition("=")
        counted = key.endswith((".topology", ".servers")) and value.rpartition(":")[2].isdecimal()
        servers = int(value.rpartition(":")[2]) if counted else 0
        if servers > 1:
            peers = "topology" in fields  # of each other; else there is a cloud beyond the last
            link = "1-2" if peers else f"{rng.randint(1, servers)}-{servers + 1}"
            last = servers if peers else servers + 1
            kinds += [f"server:2@{time}", f"link:{link}@{time}", f"server:{last}@{time}+link:{link}@{time + 1}"]
    return rng.choice(kinds)


def _faults(rng: random.Random) -> str:
    share, seconds = rng.choice([0.02, 0.2, 0.7, 1]), rng.choice([0.01, 3, 60])
    plain = [f"{kind}:{share}" for kind in ("lost", "duplicated", "corrupted", "oversized", "nan")]
    kinds = [*plain, f"delayed:{share},{seconds}", f"reordered:{share},{seconds}"]
    return "+".join(rng.sample(kinds, rng.choice([1, 1, 2, 3])))


def _written(kind: str, lines: Sequence[str]) -> Path:
    """A file with these lines, named by what is in it: whoever writes it again writes the same."""
    text = "".join(f"{line}\n" for line in lines)
    path = FILES / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.csv"
    if not path.exists():
        FILES.mkdir(exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(text)
        draft.replace(path)
    return path


def command(name: str, words: Sequence[str]) -> str:
    """What a user types to repeat a case."""
    settings = [part for word in words for part in ("--set", word)]
    return shlex.join(["paceline", "run", name, "--dry-run", "--until", f"time={horizon(settings):g}", *settings])
