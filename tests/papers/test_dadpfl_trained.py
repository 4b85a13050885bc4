"""The trained reproductions of DA-DPFL: shrunk, and their verdicts on curves that are made up."""

import json
from dataclasses import replace

import numpy as np
import pytest

from paceline.data import parse_partition
from paceline.errors import SettingError
from paceline.papers.claims import best, by_seed, first_round, shown
from paceline.papers.dadpfl import ablations as dadpfl_ablations
from paceline.papers.dadpfl import trained as dadpfl_trained
from paceline.papers.dadpfl.ablations import FIXED, _fig5_rows, _fig6_rows, _fig7_rows, arrivals_row, time_rows
from paceline.papers.dadpfl.printed import METHODS, TABLE1
from paceline.papers.dadpfl.scores import pruning_rows
from paceline.papers.dadpfl.setups import MIDDLE, PAPER, SMALL, setups
from paceline.papers.dadpfl.trained import _ahead_rows, _issue_rows, busiest, per_round, zeros
from paceline.papers.registry import REPRODUCTIONS
from paceline.papers.result import Request
from paceline.papers.trials import Finished, Laboratory
from paceline.runs.settings import make_settings

TINY = replace(
    SMALL["digits"], clients=8, served=3, degree=3, rounds=2, epochs=1, words=("model=mlp:8",), targets=(0.1,)
)
WHERE = {"table1": dadpfl_trained, "table3": dadpfl_trained, "fig5": dadpfl_ablations, "fig6": dadpfl_ablations,
         "fig7": dadpfl_ablations}  # fmt: skip
LONG = ("fig5", "fig6", "table1", "table3")
"""On request: they are ablations as Figure 7 is, and the table is looked at below."""
REQUEST = Request(scale="small", seeds=2, quiet=True)


@pytest.fixture
def shrunk(monkeypatch):
    """Two rounds of eight clients."""
    monkeypatch.setitem(SMALL, "digits", TINY)
    monkeypatch.setattr(dadpfl_ablations, "NEIGHBOURS", (2, 3, 6))
    monkeypatch.setattr(dadpfl_ablations, "MORE", (3, 6))
    monkeypatch.setattr(dadpfl_ablations, "WAITS", (0, 3))
    monkeypatch.setattr(dadpfl_trained, "SMALL_GRAPH", 6)


# -- all of it, shrunk ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in WHERE])
def test_they_run_and_make_rows(shrunk, name):
    found = getattr(WHERE[name], name)(REQUEST)
    assert len(found.rows) >= 6
    assert all(row.ours not in (None, "nan", "diverged") for row in found.rows), list(found.rows)
    assert len({row.name for row in found.rows}) == len(found.rows)
    assert "computed: " in found.note
    assert found.figure() is not None


def test_table_1_is_one_comparison_of_all_methods(shrunk):
    rows = dadpfl_trained.table1(replace(REQUEST, seeds=1)).rows
    for what in ("accuracy", "sparsity", "busiest traffic", "operations of a client", "energy of all", "time"):
        for split in ("Dir", "Pat"):
            found = [
                row for row in rows if row.name.startswith(f"digits, {split}") and row.name.endswith(f", {what}")
            ]
            assert len(found) == len(METHODS) == 9, what
            assert all(float(row.ours.replace(",", "")) >= 0 for row in found)
    by_name = {row.name: row for row in rows}
    traffic = {m: float(by_name[f"digits, Pat: {m}, busiest traffic"].ours) for m in METHODS}
    model = 4 * (64 * 8 + 8 + 8 * 10 + 10) / 2**20
    assert traffic["fedavg"] == traffic["ditto"] == pytest.approx(3 * model, rel=0.01)
    assert traffic["feddst"] == pytest.approx(traffic["fedavg"] / 2, rel=0.01)
    assert traffic["beer"] == pytest.approx(2 * model / 2, rel=0.05)  # two links of a circulant
    assert float(by_name["digits, Pat: dispfl, sparsity"].ours) == pytest.approx(0.5, abs=0.005)


def test_runs_are_shared_and_never_repeated(shrunk, tmp_path):
    request = replace(REQUEST, out=tmp_path, seeds=1)
    dadpfl_trained.table1(request)
    dadpfl_ablations.fig7(request)  # N = M and DisPFL are Table I's
    names = {str(path.parent.relative_to(tmp_path / "trials")) for path in tmp_path.glob("trials/*/*/summary.json")}
    assert len([name for name in names if name.startswith("digits-pat/")]) == 9
    assert {name.partition("/")[0] for name in names} == {"digits-pat", "digits-dir", "digits-pat-N0"}
    assert dadpfl_trained.table1(request).note.count("computed: ") == 2


def test_costs_are_those_of_the_run(shrunk, tmp_path):
    request = replace(REQUEST, out=tmp_path, seeds=1)
    with Laboratory(request) as laboratory:
        (run,) = laboratory.carry_out([trial(TINY, "pat", "fedavg", 0)])
    summary = json.loads((tmp_path / "trials" / run.trial.name / "summary.json").read_text())
    assert busiest(run) * 2 * 2**20 * 2 == pytest.approx(summary["busiest_bytes"])
    for total in ("flops", "joules", "time"):
        assert per_round(total)(run) * 2 == pytest.approx(summary[total])
    moved = summary["bytes"] / 2  # downloads cost no client's energy, uploads 1 W
    own = summary["flops"] - 2 * 3 * 2 * (64 * 8 + 8 + 8 * 10 + 10)  # the server adds three models in each round
    assert summary["joules"] == pytest.approx(450 * own / 1.6e13 + moved * 8 / 1e9, rel=1e-6)


# -- setups ---------------------------------------------------------------------------------------------------------


def trial(setup, split, method, seed, *more):
    variant = setup.variant(split, split=split)
    return setup.scene.trial(variant.case, method, seed, *variant.settings(seed), *more)


@pytest.mark.parametrize("scene", [*PAPER.values(), *MIDDLE.values(), *SMALL.values()], ids=lambda s: s.data)
def test_every_method_can_be_set_up(scene):
    for method in METHODS:
        for graph, links in (("random", 10), ("ring", 2), ("complete", scene.clients - 1)):
            one = trial(scene, "dir", method, 0, *scene.linked(graph, links))
            settings = one.settings()
            settings.algorithm.check(scene.clients)
            epochs = settings.algorithm.local.epochs
            if method == "ditto":
                epochs += settings.algorithm.personal.epochs
            assert epochs == max(scene.epochs, 2 if method == "ditto" else 1)
            assert (settings.algorithm.local.lr, settings.personal) == (one.rate, True)


def test_on_the_ring_of_table_3_gossipfl_meets_neighbours_only():
    assert {"gossipfl.group=2", "gossipfl.graph=ring"} <= set(SMALL["digits"].linked("ring", 2))
    settings = make_settings(
        "gossipfl", ["clients=10", *(w for w in SMALL["digits"].linked("ring", 2) if "gossip" in w)]
    )
    assert settings.algorithm.graph == "ring"


def test_the_papers_scene_is_the_papers():
    settings = trial(PAPER["cifar10"], "pat", "da-dpfl", 0).settings()
    algorithm = settings.algorithm
    assert (settings.clients, algorithm.rounds, algorithm.wait, algorithm.neighbours.degree) == (100, 500, 10, 10)
    assert (algorithm.local.lr, algorithm.local.batch, algorithm.local.epochs) == (0.1, 128, 5)
    assert (algorithm.sparsity, algorithm.pruning.target, algorithm.pruning.threshold) == (0.5, 0.8, 0.02)
    assert settings.partition == "pathological:2,equal"
    assert [TABLE1["cifar10", split]["da-dpfl"] for split in ("Dir", "Pat")] == [89.08, 91.87]
    assert make_settings("beer").algorithm.local.lr == trial(PAPER["cifar10"], "pat", "beer", 0).rate == 0.05


def test_ham10000_is_oversampled_as_in_the_reference_code():
    """DA-E8: 81,272 of 10,015 images, of which four fifths, 65,018, are for training: 650 a client."""
    counts = {"akiec": 327, "bcc": 514, "bkl": 1099, "df": 115, "mel": 1113, "nv": 6705, "vasc": 142}
    scheme = parse_partition(PAPER["ham10000"].splits["pat"])
    assert sum(n * f for n, f in zip(counts.values(), scheme.factors, strict=True)) == 81_272
    assert pytest.approx(65_018, abs=1) == 0.8 * 81_272
    labels = np.repeat(np.arange(7), [*counts.values()])
    split = scheme.split(labels, 100, np.random.default_rng(0))
    assert all(abs(len(split[k]) - 812.7) < 1 for k in range(100))
    assert parse_partition(PAPER["ham10000"].splits["dir"]).factors == scheme.factors


def test_a_dataset_that_is_not_there_is_refused():
    with pytest.raises(SettingError, match="--data is 'cifar100'"):
        dadpfl_trained.table1(Request(scale="small", data="cifar100"))
    with pytest.raises(SettingError, match="--data is 'ham10000'"):
        setups(Request(scale="middle", data="ham10000"))


def test_they_are_registered_in_three_scales():
    for name, module in WHERE.items():
        entry = REPRODUCTIONS[f"dadpfl-{name}"]
        assert entry.load() is getattr(module, name) and entry.scales == ("small", "middle", "paper")


# -- verdicts -------------------------------------------------------------------------------------------------------


def made_up(top, seed, *, method="da-dpfl", sparsity=0.5, rounds=10, first=None):
    """A run that rises to a level."""
    values = np.linspace(0.1, top, rounds)
    columns = {"round": np.arange(1.0, rounds + 1), "accuracy": values, "sparsity": np.full(rounds, sparsity)}
    notes = () if first is None else ({"figures": {"first": first}},)
    return Finished(
        trial=trial(SMALL["digits"], "pat", method, seed), status="done", reached=None, rounds=None,
        time=columns["round"], accuracy=values, loss=values, columns=columns, notes=notes,
    )  # fmt: skip


def seeds(top, noise=0.001, count=3, **more):
    return [made_up(top + noise * (-1) ** seed, seed, **more) for seed in range(count)]


def verdicts(rows):
    return {row.name.partition(": ")[2]: row.ok for row in rows}


def test_who_is_ahead():
    runs = {"da-dpfl": seeds(0.9), "dispfl": seeds(0.8, 0.002), "beer": seeds(0.95, 0.002), "ditto": seeds(0.9, 0.1)}
    ok = verdicts(_ahead_rows("here", runs, {}))
    assert ok == {"da-dpfl - dispfl": True, "da-dpfl - beer": False, "da-dpfl - ditto": None}
    printed = {"da-dpfl": 88.36, "dispfl": 80.09, "beer": 88.75, "ditto": 80.17}  # HAM10000, Pat
    assert verdicts(_ahead_rows("here", runs, printed))["da-dpfl - beer"] is True


@pytest.mark.parametrize(
    ("ours", "theirs", "wanted"),
    [
        ((0.9, 0.7), (0.9, 0.5), (True, True)),
        ((0.8, 0.7), (0.9, 0.5), (True, False)),
        ((0.95, 0.4), (0.9, 0.5), (False, True)),
    ],
)
def test_sparser_and_no_worse(ours, theirs, wanted):
    runs = {
        "da-dpfl": [made_up(ours[0] + 0.001 * s, s, sparsity=ours[1] + 0.001 * s) for s in range(3)],
        "dispfl": [made_up(theirs[0], s, sparsity=theirs[1]) for s in range(3)],
    }
    assert tuple(row.ok for row in _issue_rows("here", runs)) == wanted


def test_rounds_to_a_target():
    quick, slow = seeds(0.95, 0.01, 6), seeds(0.8, 0.01, 6)
    assert first_round(quick[0], 0.5) < first_round(slow[0], 0.5) < first_round(slow[0], 0.9) == np.inf
    assert arrivals_row("x", quick, slow, 0.7).ok is True
    assert arrivals_row("x", slow, quick, 0.7).ok is False
    assert arrivals_row("x", quick, quick, 0.7).ok is None
    few = arrivals_row("x", quick[:3], slow[:3], 0.7)  # three seeds that tie decide nothing
    assert few.ok is None and few.ours == "-1 (in all 3 seeds)"
    assert arrivals_row("x", quick, slow, 0.9).ours == "no seed has both"
    late = [made_up(0.95, 0), made_up(0.95, 1), made_up(0.6, 2)]  # one never arrives: not judged
    row = arrivals_row("x", late, slow[:3], 0.7)
    assert row.ok is None and "2 of 3 seeds arrived, and 3 of 3" in row.note


def test_more_neighbours_and_their_time():
    found = {"M = 5": seeds(0.88), "M = 10": seeds(0.9), "M = 20": seeds(0.905, 0.002)}
    times = {
        "M = 5": dict.fromkeys(range(3), 1.0),
        "M = 10": {0: 2.0, 1: 2.1, 2: 2.0},
        "M = 20": {0: 4.0, 1: 4.1, 2: 4.2},
    }
    ok = verdicts(_fig5_rows("digits", found, times))
    assert ok["M = 20 - M = 10"] is ok["time of M = 20 / M = 10"] is True
    times["M = 20"] = dict.fromkeys(range(3), 2.2)
    assert verdicts(_fig5_rows("digits", found, times))["time of M = 20 / M = 10"] is False


LONG = replace(SMALL["digits"], rounds=60)


def test_thresholds_and_the_first_pruning():
    runs = {
        "threshold 0.01": seeds(0.85, first=18),
        "threshold 0.02": seeds(0.9, 0.002, first=20),
        FIXED: seeds(0.899, 0.004),
        "dispfl": seeds(0.8, 0.003),
    }
    rows = _fig6_rows(LONG, "pat", runs)
    assert verdicts(rows)[f"threshold 0.02 - {FIXED}"] is True
    ok = verdicts(rows)
    assert ok["threshold 0.02 - dispfl"] is ok["threshold 0.02 - the least threshold"] is True
    firsts = [float(row.ours.split()[0]) for row in rows if row.name.endswith("first pruning")]
    assert np.allclose(firsts, [18 / 60, 20 / 60], atol=1e-3)
    runs["threshold 0.01"] = seeds(0.95, 0.002)
    assert verdicts(_fig6_rows(LONG, "dir", runs))["threshold 0.02 - the least threshold"] is False
    runs["threshold 0.01"] = runs["threshold 0.02"]
    assert verdicts(_fig6_rows(LONG, "dir", runs))["threshold 0.02 - the least threshold"] is None


def test_scores_until_the_vote_and_zeros_after_it():
    """Figure 5, top: made up, a score that falls and prunings that shrink."""

    def traced(seed):
        run = made_up(0.9, seed, rounds=8)
        change = [np.nan, 0.9 + 0.01 * seed, 0.4, 0.05, np.nan, np.nan, np.nan, np.nan]
        zeros = [0.5, 0.5, 0.5, 0.5, 0.6 + 0.001 * seed, 0.6 + 0.001 * seed, 0.65, 0.68]
        return replace(run, columns={**run.columns, "change": np.array(change), "sparsity": np.array(zeros)})

    rows = {row.name: row for row in pruning_rows("here", [traced(seed) for seed in range(3)], 0.06)}
    assert rows["here: zeros that each pruning adds"].ours == "0.101, 0.049, 0.030"
    assert rows["here: the score is high at first and falls"].ok is True
    assert rows["here: each pruning takes less than the one before"].ok is True
    assert rows["here: score, last before pruning"].ours == "0.05 (in all 3 seeds)"
    never = pruning_rows("here", [made_up(0.9, 0)], 0.06)
    assert [row.ours for row in never] == ["none", "none", "none"]


def test_a_run_keeps_its_score_up_to_the_vote(tmp_path):
    with Laboratory(replace(REQUEST, out=tmp_path)) as laboratory:
        setup = replace(TINY, rounds=4, threshold=10.0)  # everybody votes as soon as it may
        (run,) = laboratory.carry_out([trial(setup, "pat", "da-dpfl", 0)])
    assert [note["figures"]["first"] for note in run.notes if "first" in note["figures"]] == [2]
    assert np.isfinite(run.columns["score"]).tolist() == [True, True, False, False]
    assert np.isfinite(run.columns["change"]).tolist() == [False, True, False, False]
    first, second = run.columns["score"][:2]
    assert 0 < run.columns["change"][1] < 5 and second > first * 0.5


def test_waiting_helps_or_not():
    names = {f"N = {N}": seeds(0.9, 0.001 * (N + 1), 6) for N in dadpfl_ablations.WAITS}
    runs = {**names, "N = 0": seeds(0.85, 0.002, 6), "N = 10": seeds(0.95, count=6), "dispfl": seeds(0.8, 0.003, 6)}
    times = {name: {seed: 2.0 if name == "N = 10" else 1 + 0.01 * seed for seed in range(6)} for name in runs}
    rows = _fig7_rows(replace(SMALL["digits"], targets=(0.62,)), runs, times)
    assert {row.name: row.ours for row in rows}["digits: time of N = 10 / N = 0"].startswith("1.95")
    ok = verdicts(rows)
    assert ok["N = 10 - N = 0"] is ok["N = 10 - N = 0, rounds to 62 %, first"] is ok["N = 0 - dispfl"] is True
    assert ok["N = 10 - N = 0, rounds to 62 %, smoothed"] is True
    named = {row.name: row for row in rows}
    assert named["digits: time of N = 10 / N = 0 to 62 %, first"].ours.startswith("0.8")
    assert "scored every 1 s" in named["digits: time of N = 10 / N = 0 to 62 %, smoothed"].note
    assert "too long" not in named["digits: time of N = 10 / N = 0 to 62 %, smoothed"].note
    (smoothed, first) = time_rows("x", {name: runs[name] for name in ("N = 10", "N = 0")}, 0.01)
    assert "their smoothed times are too long" in smoothed.note and "too long" not in first.note
    runs["N = 0"], runs["N = 10"] = runs["N = 10"], runs["N = 0"]
    ok = verdicts(_fig7_rows(replace(SMALL["digits"], targets=(0.7,)), runs, times))
    assert ok["N = 10 - N = 0"] is ok["N = 10 - N = 0, rounds to 70 %, first"] is False


def test_figures_of_a_run():
    run = made_up(0.9, 0, sparsity=0.6)
    assert (best(run), zeros(run)) == pytest.approx((90.0, 0.6))
    dense = replace(run, columns={name: values for name, values in run.columns.items() if name != "sparsity"})
    assert zeros(dense) == 0.0
    assert shown(by_seed([replace(run, status="failed: Diverged")], best)) == "diverged"
