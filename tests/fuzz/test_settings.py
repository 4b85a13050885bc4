"""Settings, hostile ones: what is accepted can be computed with, and what is not is refused in words."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.algorithms.registry import ALGORITHMS
from paceline.config import to_tree
from paceline.data.partition import PARTITIONS, parse_partition
from paceline.errors import PacelineError
from paceline.learn.recipe import LocalSGD
from paceline.runs.settings import make_settings
from paceline.runs.until import WORDS, Until
from paceline.system.availability import AVAILABILITIES
from paceline.system.compute import TIMES
from paceline.system.failures import FAILURES
from paceline.system.fleet import FleetSettings, build_fleet
from paceline.system.links import LINKS
from paceline.system.network import BACKBONES, SHARINGS
from paceline.system.server import SERVERS
from paceline.topology import parse_graph
from paceline.topology.families import GRAPHS
from tests.fuzz.hostile import CORPUS, HARD, explained, texts, words

CASES = [line.split() for line in (CORPUS / "settings.txt").read_text(encoding="utf-8").splitlines()]
TABLES = {
    "times": TIMES, "links": LINKS, "availability": AVAILABILITIES, "server": SERVERS, "sharing": SHARINGS,
    "backbone": BACKBONES, "failures": FAILURES,
}  # fmt: skip


def flat(tree, prefix=""):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def names(algorithm):
    tree = to_tree(make_settings(algorithm))
    options = tree.pop("algorithm")
    own = [f"{algorithm}.{name}" for name, _ in flat(options)]
    return [*(name for name, _ in flat(tree) if name not in ("name", "variant")), *own, "rounds", "local.lr", "local"]


NAMES = {algorithm: names(algorithm) for algorithm in ALGORITHMS}


def prepared(algorithm, settings):
    """All that is checked of settings before a run starts, and that costs nothing."""
    made = make_settings(algorithm, settings)
    made.algorithm.check(made.clients)
    made.algorithm.traits(made.clients)
    parse_partition(made.partition)
    return made, build_fleet(made.fleet, made.clients, made.seed)


def check_fleet(fleet):
    """Every cost is a number that a clock can go on by."""
    for site in range(min(fleet.size, 4)):
        for cost in (
            fleet.compute.cost(site, 3, 1e9),
            fleet.links.cost(site, -1, 1e6, 12.5),
            fleet.links.cost(-1, site, 1e6, 12.5),
            fleet.links.cost(site, (site + 1) % fleet.size, 1e6, 12.5),
        ):
            assert 0 <= cost.seconds < math.inf
            assert not math.isinf(cost.joules)
        assert fleet.availability.next_online(site, 12.5) >= 12.5
    assert not math.isnan(fleet.failures.server(-1))


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_what_was_found_once(case):
    verdict, algorithm, *settings = case
    if verdict == "accepted":
        prepared(algorithm, settings)
        return
    with pytest.raises(PacelineError):
        prepared(algorithm, settings)


@given(st.data())
def test_any_value_of_any_setting(data):
    algorithm = data.draw(st.sampled_from(list(ALGORITHMS)))
    chosen = data.draw(st.lists(st.tuples(st.sampled_from(NAMES[algorithm]), texts), min_size=1, max_size=3))
    found = explained(prepared, algorithm, [f"{name}={value}" for name, value in chosen])
    if found is not None:
        tree = to_tree(found[0])
        infinite = [name for name, value in flat(tree) if isinstance(value, float) and not math.isfinite(value)]
        assert all(name.endswith(("deviations", "longest")) for name in infinite), infinite
        check_fleet(found[1])


@given(st.data())
def test_any_word_of_a_fleet(data):
    group = data.draw(st.sampled_from(list(TABLES)))
    forms = TABLES[group]
    word = data.draw(words(forms.names, [form.example for form in forms if ".csv" not in form.example]))
    fleet = explained(build_fleet, FleetSettings(**{group: word}), 10, 0)
    if fleet is not None:
        explained(check_fleet, fleet)


@given(words(PARTITIONS.names, [form.example for form in PARTITIONS]))
def test_any_partition(word):
    explained(parse_partition, word)


@given(words(GRAPHS.names, [form.example.replace("100", "9") for form in GRAPHS]))
def test_any_graph(word):
    if not any(len(run) > 2 for run in "".join(c if c.isdigit() else " " for c in word).split()):  # small ones: quick
        explained(parse_graph, word)


@given(st.lists(st.tuples(st.sampled_from(WORDS), texts).map("=".join), max_size=3))
def test_any_end(said):
    until = explained(Until.parse, said)
    if until is not None:
        assert all(value is None or 0 < value < math.inf for value in (until.accuracy, until.time, until.visits))


@given(
    words(["constant", "exponential", "inverse", "step"], ["exponential:0.998", "step:0.1,50"]), st.integers(0, 10**6)
)
def test_any_schedule(word, round):
    recipe = explained(lambda: LocalSGD(schedule=word))
    if recipe is not None:
        assert recipe.lr_at(round) >= 0


@pytest.mark.parametrize("value", HARD, ids=lambda value: repr(value)[:20])
def test_every_hard_value_of_a_number_and_of_a_word(value):
    for name in ("clients", "fleet.latency", "dataset", "fleet.times", "local", "executor.device"):
        explained(prepared, "fedavg", [f"{name}={value}"])
