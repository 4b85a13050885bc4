"""The trained reproductions of P-FedAvg: shrunk, and their verdicts on curves that are made up."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from paceline.data.registry import parse_name
from paceline.errors import SettingError
from paceline.learn.models import build
from paceline.papers.claims import above, all_of
from paceline.papers.crossings import WAYS
from paceline.papers.pfedavg import capacities as pfedavg_capacities
from paceline.papers.pfedavg import methods as pfedavg_methods
from paceline.papers.pfedavg import scenes as pfedavg_scenes
from paceline.papers.pfedavg import trained as pfedavg_trained
from paceline.papers.pfedavg.capacities import capacity_rows
from paceline.papers.pfedavg.methods import METHODS, TORUS, level, method_rows, time_rows
from paceline.papers.pfedavg.printed import FIGURE_8
from paceline.papers.pfedavg.racing import evenly
from paceline.papers.pfedavg.scenes import PAPER, SEARCH_SEED, SMALL, SORTED, TIMED, network, round_times
from paceline.papers.pfedavg.trained import ORDER, lasting_disagreement, likely_graph, order_rows, topologies
from paceline.papers.result import Request
from paceline.papers.trials import Finished, Laboratory
from paceline.papers.tuning import TUNING
from paceline.statistics import Interval
from paceline.topology import make_mixing, parse_graph

DIGITS = replace(SMALL["digits"], rounds=3, targets=(0.15, 0.12))
REQUEST = Request(scale="small", seeds=2, quiet=True, data="digits")


@pytest.fixture
def shrunk(monkeypatch):
    """Three rounds of digits, two capacities."""
    monkeypatch.setattr(pfedavg_scenes, "SMALL", {"digits": DIGITS})
    monkeypatch.setattr(pfedavg_scenes, "RACED", {})
    monkeypatch.setattr(pfedavg_methods, "SMALL_ROUNDS", 3)
    monkeypatch.setattr(pfedavg_capacities, "SMALL_ROUNDS", 3)
    monkeypatch.setattr(pfedavg_capacities, "CAPACITIES", (1, 100))


# -- all of it, shrunk ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (pfedavg_trained, "fig4"),
        (pfedavg_methods, "fig5"),
        pytest.param(pfedavg_methods, "fig6", marks=pytest.mark.slow),  # looked at below
        pytest.param(pfedavg_capacities, "fig7", marks=pytest.mark.slow),
        pytest.param(pfedavg_trained, "fig8", marks=pytest.mark.slow),
    ],
)
def test_they_run_and_make_rows(shrunk, module, name):
    found = getattr(module, name)(REQUEST)
    assert len(found.rows) >= 8
    assert all(row.ours not in (None, "nan") for row in found.rows), list(found.rows)
    assert "computed: " in found.note
    assert found.figure() is not None


def test_all_runs_of_a_figure_train_together_and_only_once(shrunk, tmp_path):
    request = replace(REQUEST, out=tmp_path, seeds=1)
    found = pfedavg_methods.fig5(request)
    assert found.note.count("computed: ") == 1
    again = pfedavg_methods.fig5(request)
    assert again.note.count("computed: ") == 1
    visits = {
        path.parent.name.partition("-lr")[0]: json.loads(path.read_text())["visits"]
        for path in tmp_path.glob("trials/*/*/summary.json")
    }
    words = [json.loads(path.read_text()) for path in tmp_path.glob("trials/*/*/settings.json")]
    assert {one["personal"] for one in words} == {True}  # nobody has DPSGD's average
    # 36 clients in 3 rounds; HierFAVG's visits are half as long; DPSGD has all 54 clients
    assert visits == {"fedavg": 108, "p-fedavg": 108, "hierfavg": 216, "dpsgd": 162}


def test_times_to_a_target_are_told_at_tuned_rates_both_ways_and_evenly_spaced(shrunk, tmp_path):
    found = pfedavg_methods.fig6(replace(REQUEST, out=tmp_path, seeds=1))
    rows = {row.name: row for row in found.rows}
    assert found.figure() is not None
    for method in METHODS:
        assert f"chosen with seeds {TUNING[0]}, {TUNING[1]}" in rows[f"digits: {method}, tuned rate"].note
        assert all(f"digits, steady links: {method}, to 15 %, {way}" in rows for way in WAYS)
    kept = {tuple(path.name.rpartition("-seed")[::2]) for path in tmp_path.glob("trials/*/*") if path.is_dir()}
    tried = {name for name, seed in kept if int(seed) in TUNING}
    assert {seed for _, seed in kept} == {"0", *map(str, TUNING)}
    assert all(sum(name.startswith(f"{method}-lr") for name in tried) >= 3 for method in METHODS)


def test_a_rate_is_chosen_on_a_seed_that_is_not_reported(tmp_path):
    scene = replace(DIGITS, rates=(0.0001, 0.1), rounds=8)
    with Laboratory(Request(out=tmp_path, quiet=True)) as laboratory:
        assert pfedavg_scenes.tuned(laboratory, [DIGITS]) == ([DIGITS], [])  # nothing to choose
        chosen, rows = pfedavg_scenes.tuned(laboratory, [scene])
    assert [one.rates for one in chosen] == [(0.1,)]
    assert [row.ours for row in rows] == [0.1]
    names = sorted(path.name for path in tmp_path.glob("trials/*/*"))
    assert names == [f"fedavg-lr0.0001-seed{SEARCH_SEED}", f"fedavg-lr0.1-seed{SEARCH_SEED}"]


def test_every_trial_of_the_papers_scale_has_settings_that_are_possible():
    for scene in PAPER.values():
        for method in METHODS:
            here = network(scene, "exodus", method)
            settings = scene.trial("x", method, 0, *TORUS, *here).settings()
            settings.algorithm.check(settings.clients)
            assert settings.algorithm.local.steps == (10 if method == "hierfavg" else 20)
            assert settings.algorithm.local.schedule == "inverse:10"
        for one in topologies():
            settings = scene.trial("x", "p-fedavg", 0, *SORTED, *one.words()).settings()
            settings.algorithm.check(settings.clients)
            assert (settings.clients, settings.algorithm.layout) == (18, "blocks")


def test_a_dataset_it_does_not_have_is_refused():
    with pytest.raises(SettingError, match="--data is 'cifar100'"):
        pfedavg_trained.fig4(Request(scale="paper", data="cifar100"))
    with pytest.raises(SettingError, match="--data is 'femnist'"):  # Figure 4 is of MNIST and CIFAR-10
        pfedavg_trained.fig4(Request(scale="paper", data="femnist"))


# -- time -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backbone", ["edge:1", "node:3", "exodus"])
@pytest.mark.parametrize("method", METHODS)
def test_a_dry_runs_rounds_end_when_those_of_a_run_that_learns_do(method, backbone):
    trial = DIGITS.trial("full", method, 1, *TORUS, *network(DIGITS, backbone))
    with Laboratory(Request(quiet=True)) as laboratory:
        (full,) = laboratory.carry_out([trial])
    plain = replace(full, trial=DIGITS.trial("full", method, 1, *TORUS))
    same = replace(DIGITS, name="digits as they are trained")  # and not timed with the paper's model
    (dry,) = round_times(same, [plain], network(DIGITS, backbone), DIGITS.rounds)
    assert full.time.tolist() == dry.tolist()
    assert 0 < dry[0] < dry[1] < dry[2]


@pytest.mark.parametrize("data", SMALL)
def test_times_are_those_of_the_papers_model(data):
    settings = SMALL[data].trial("x", "p-fedavg", 0, *TIMED[data]).settings()
    spec, _ = parse_name(data)
    weights = sum(one.numel() for one in build(settings.model, spec.shape, spec.classes).parameters())
    assert weights == pytest.approx(407_050, abs=50)  # Table IV's MLP


def test_learning_does_not_depend_on_the_network():
    """What lets Figures 6 and 7 train once: the same accuracies, whatever the links."""
    trials = [
        DIGITS.trial(f"network-{place}", "p-fedavg", 0, *TORUS, *more)
        for place, more in enumerate(((), network(DIGITS, "edge:1"), network(DIGITS, "node:100")))
    ]
    with Laboratory(Request(quiet=True)) as laboratory:
        free, slow, fast = laboratory.carry_out(trials)
    assert free.accuracy.tolist() == slow.accuracy.tolist() == fast.accuracy.tolist()
    assert slow.time[-1] != fast.time[-1]


# -- verdicts -------------------------------------------------------------------------------------------------------


def made_up(name, seed, accuracies, servers=None, method="p-fedavg"):
    values = np.array(accuracies, float)
    own = values if servers is None else np.array(servers, float)
    rounds = np.arange(1.0, len(values) + 1)
    columns = {"round": rounds, "accuracy": values, "accuracy_servers": own}
    trial = DIGITS.trial(name, method, seed)
    return Finished(
        trial=trial, status="done", reached=None, rounds=None, time=rounds, accuracy=values, loss=values,
        columns=columns, notes=(),
    )  # fmt: skip


def ramps(levels, seeds=3, noise=0.001, rounds=10):
    """Curves that rise to a level, each seed a little differently."""
    return {
        name: [made_up(name, k, np.linspace(0.1, top + noise * k * (-1) ** place, rounds)) for k in range(seeds)]
        for place, (name, top) in enumerate(levels.items())
    }


def verdicts(rows):
    return {row.name.partition(": ")[2]: row.ok for row in rows}


def test_an_order_that_is_there_is_found():
    runs = ramps(dict(zip(ORDER, (0.95, 0.9, 0.85, 0.8, 0.75), strict=True)))
    ok = verdicts(order_rows("here", runs, "accuracy", 0.8))
    assert ok["order"] is True
    assert ok["complete - torus"] is ok["tree - barbell"] is ok["complete - barbell"] is True


def test_an_order_that_is_turned_round_is_refuted():
    runs = ramps(dict(zip(ORDER, (0.95, 0.9, 0.8, 0.85, 0.75), strict=True)))
    rows = order_rows("here", runs, "accuracy", 0.8)
    assert verdicts(rows)["order"] is verdicts(rows)["ring - tree"] is False
    assert next(row for row in rows if row.name == "here: order").ours == "complete > torus > tree > ring > barbell"


@pytest.mark.parametrize(("seeds", "noise"), [(1, 0.0), (3, 0.2)])
def test_one_seed_or_much_scatter_leaves_the_order_open(seeds, noise):
    runs = ramps(dict(zip(ORDER, (0.95, 0.94, 0.93, 0.92, 0.91), strict=True)), seeds, noise)
    assert verdicts(order_rows("here", runs, "accuracy", 0.8))["order"] is None


def test_rounds_to_a_target_are_told_and_so_are_seeds_that_never_came():
    runs = {"a": [made_up("a", 0, (0.5, 0.7, 0.9)), made_up("a", 1, (0.5, 0.6, 0.7))], "b": [made_up("b", 0, (0, 0))]}
    notes = {row.name: row.note for row in order_rows("here", runs, "accuracy", 0.7)}
    assert notes["here: a"] == "70 % after 2.5 (-3.85 to 8.85) rounds"
    assert notes["here: b"] == "70 % not reached"
    notes = {row.name: row.note for row in order_rows("here", runs, "accuracy", 0.8)}
    assert notes["here: a"] == "80 % after 3 rounds, 1 of 2 seeds"


@pytest.mark.parametrize(
    ("tops", "near", "far"),
    [
        ((0.9, 0.895, 0.5), True, True),
        ((0.9, 0.8, 0.5), False, True),  # too far behind FedAvg
        ((0.9, 0.895, 0.88), True, False),  # DPSGD is not far behind
    ],
)
def test_methods_are_level_or_far_apart(tops, near, far):
    runs = ramps(dict(zip(("fedavg", "p-fedavg", "dpsgd"), tops, strict=True)))
    ok = verdicts(method_rows("here", runs))
    assert ok["p-fedavg - fedavg, at the end"] is near
    assert ok["p-fedavg - dpsgd, at the end"] is far


def timed(levels, seconds):
    return {
        name: [(run, (1 + 0.01 * k * len(name)) * seconds[name] * run.columns["round"]) for k, run in enumerate(runs)]
        for name, runs in ramps(levels, rounds=40).items()
    }


@pytest.mark.parametrize("way", WAYS)
def test_who_is_first_over_time(way):
    levels = {"fedavg": 0.95, "p-fedavg": 0.9, "hierfavg": 0.9, "dpsgd": 0.5}
    seconds = {"fedavg": 6.0, "p-fedavg": 3.0, "hierfavg": 4.5, "dpsgd": 2.0}
    ok = verdicts(time_rows("here", timed(levels, seconds), 0.6))
    assert ok[f"time of p-fedavg / fedavg, {way}"] is ok[f"time of p-fedavg / hierfavg, {way}"] is True
    assert ok[f"time of p-fedavg / dpsgd, {way}"] is True  # it never arrives
    ok = verdicts(time_rows("here", timed(levels, {**seconds, "fedavg": 1.0}), 0.6))
    assert ok[f"time of p-fedavg / fedavg, {way}"] is False
    ok = verdicts(time_rows("here", timed({**levels, "p-fedavg": 0.5}, seconds), 0.6))
    assert ok[f"time of p-fedavg / fedavg, {way}"] is None


def test_who_is_scored_more_often_has_no_more_chances_than_others():
    """Lucky scores in every other round count only for those whose rounds are short."""
    lucky = np.tile([0.3, 0.9], 20)
    clocked = {
        "p-fedavg": [(made_up("p-fedavg", 0, lucky), np.arange(1.0, 41))],
        "fedavg": [(made_up("fedavg", 0, np.linspace(0.1, 0.5, 10)), 4.0 * np.arange(1, 11))],
    }
    runs, interval = evenly(clocked)
    assert interval == 4.0
    assert runs["p-fedavg"][0].time.tolist() == runs["fedavg"][0].time.tolist() == [4.0 * k for k in range(1, 11)]
    rows = {row.name: row.ours for row in time_rows("here", clocked, 0.8)}
    assert rows["here: p-fedavg, to 80 %, first"] == "4"  # the fourth round, not the second
    assert rows["here: between scores"] == 4.0


def test_who_is_there_before_scores_can_be_averaged_is_not_judged():
    quick = np.linspace(0.7, 0.9, 40)
    clocked = {
        name: [(made_up(name, k, quick), seconds * np.arange(1, 41)) for k in range(3)]
        for name, seconds in (("p-fedavg", 1.0), ("fedavg", 2.0))
    }
    rows = {row.name: row for row in time_rows("here", clocked, 0.6)}
    assert rows["here: time of p-fedavg / fedavg, smoothed"].ok is None
    assert "too long" in rows["here: time of p-fedavg / fedavg, smoothed"].note
    assert "too long" not in rows["here: time of p-fedavg / fedavg, first"].note


def capacities(edge, node):
    """The same times for two capacities of each kind, and six seeds, each 1 % slower than the last."""
    return {
        (kind, mbps): {name: {k: 1.01**k * time for k in range(6)} for name, time in zip(ORDER, times, strict=True)}
        for kind, times in (("edge", edge), ("node", node))
        for mbps in (1, 100)
    }


def test_what_the_paper_says_of_capacities():
    ok = verdicts(capacity_rows("here", capacities((10, 10.2, 12, 15, 20), (30, 12, 13, 15, 40))))
    assert ok["mean rank"] is True
    assert ok["torus within 5 % of the best"] is True
    assert ok["complete within 5 % of the best, links limited"] is True
    assert ok["time of complete / torus, slowest servers"] is True
    assert ok["barbell slowest"] is True
    ok = verdicts(capacity_rows("here", capacities((12, 20, 10, 15, 11), (10, 12, 11, 15, 14))))
    assert not any(value for value in ok.values())
    assert ok["time of complete / torus, slowest servers"] is False


def test_a_topology_that_does_not_arrive_is_the_slowest():
    times = capacities((10, 10.2, 12, 15, 20), (30, 12, 13, 15, 40))
    for arrived in ({}, {1: 10.0}):  # nobody, or not everybody
        times["edge", 1]["barbell"] = arrived
        rows = capacity_rows("here", times)
        assert "barbell inf" in rows[0].ours and verdicts(rows)["barbell slowest"] is True
    times["edge", 1] = {name: {} for name in times["edge", 1]}
    assert all(row.ok is None for row in capacity_rows("here", times))


def test_intervals_and_their_verdicts():
    assert [above(Interval(1, *ends)) for ends in ((0.5, 1.5), (-2, -1), (-1, 3), (math.nan, math.nan))] == [
        True,
        False,
        None,
        None,
    ]
    assert [level(Interval(0, *ends)) for ends in ((-1, 1), (2.5, 3), (-3, -2.5), (-1, 3), (-5, 5))] == [
        True,
        False,
        False,
        None,
        None,
    ]
    assert (all_of([True, None, False]), all_of([True, None]), all_of([True, True])) == (False, None, True)


def test_the_graph_of_figure_8_is_like_the_papers():
    """PF-E4: 18 links, and the three rates in the printed order, each within 0.02 of what is printed."""
    graph = likely_graph()
    assert (graph.nodes, len(graph.edges), graph.connected) == (9, 18, True)
    rates = [make_mixing(graph, rule).p for rule in ("optimal", "metropolis", "random")]
    assert rates == sorted(rates, reverse=True)
    assert np.allclose(rates, [*FIGURE_8.values()], atol=0.02)


@pytest.mark.parametrize("variant", topologies(), ids=lambda one: one.name)
def test_lasting_disagreement_is_what_servers_that_stray_come_to(variant):
    """x <- W(x + noise): the covariance of the distance from the mean, by iteration."""
    matrix, nodes = variant.mixing.matrix, variant.graph.nodes
    apart = np.eye(nodes) - 1 / nodes
    covariance = np.zeros((nodes, nodes))
    for _ in range(2000):
        covariance = matrix @ (covariance + apart) @ matrix
    assert lasting_disagreement(variant.mixing) == pytest.approx(np.trace(covariance) / nodes, abs=1e-9)


def test_places_in_the_graph_differ_by_seed_and_the_graph_does_not(tmp_path):
    tree = next(one for one in topologies() if one.name == "tree")
    words = [tree.sorted(tmp_path, seed)[-2].partition("=")[2] for seed in range(3)]
    graphs = [parse_graph(word) for word in words]
    assert len({graph.edges for graph in graphs}) == 3
    assert all(make_mixing(graph, "metropolis").p == pytest.approx(tree.mixing.p) for graph in graphs)
    assert replace(tree, moves=False).sorted(tmp_path, 1) == (*SORTED, *tree.words())


def test_servers_have_two_classes_of_their_own_where_clients_are_sorted():
    from paceline.runs.making import make_run

    run = make_run(DIGITS.trial("x", "p-fedavg", 0, *SORTED, *TORUS).settings())
    split, labels = run.problem.partition, run.problem.shards().y.numpy()
    shares = []
    for server in range(9):
        rows = np.concatenate([split[2 * server], split[2 * server + 1]])
        counts = np.bincount(labels[rows], minlength=10)
        own = {2 * server % 10, (2 * server + 1) % 10}
        shares.append(counts[sorted(own)].sum() / counts.sum())
    assert min(shares) > 0.8, shares
