"""No One Idles without training: every printed speed-up, the simulation behind it, and that both are computed."""

import json

import pytest

from paceline.errors import SettingError
from paceline.papers.noidle import times as noidle_times
from paceline.papers.noidle.times import fig3, fig3_pace, table1, table2
from paceline.papers.registry import REPRODUCTIONS, reproduce
from paceline.papers.result import Request
from paceline.plans.overlap import (
    METHODS,
    apfl_bounds,
    closed_forms,
    compare,
    explain,
    simulated_cycle,
    simulated_round,
    spfl_of_table1,
)
from paceline.plans.pace import Pace

CIFAR = {"t_local": 19.0, "t_comm": 6.0, "t_wait": 38.0, "t_aggregate": 19.0}


def rows(found):
    return {row.name: row for row in found.rows}


def visit_of(a, g, **other):
    """T_l + T_c = a and T_g = g, nobody straggles."""
    return Pace(t_local=a - 6.0, t_comm=6.0, t_wait=0.0, t_aggregate=g, **other)


@pytest.fixture(scope="module")
def first():
    return table1(Request())


@pytest.fixture(scope="module")
def second():
    return table2(Request())


@pytest.fixture(scope="module")
def third():
    return fig3(Request())


# -- formulas -----------------------------------------------------------------------------------------------------


def test_times_per_clock_by_hand():
    pace = Pace(t_local=2.0, t_comm=3.0, t_wait=7.0, t_aggregate=11.0)
    assert closed_forms(pace) == {"fedavg": 23.0, "dga": 23.0, "mifa": 16.0, "spfl": 12.0, "apfl": 11.0}
    assert apfl_bounds(pace) == (11.0, 22.0)


def test_the_two_forms_of_spfl_agree_unless_the_server_is_slow():
    """NI-E2: 1.86 against 1.44 at T_g/T_l = 2."""
    assert spfl_of_table1(Pace(**CIFAR)) == closed_forms(Pace(**CIFAR))["spfl"] == 63.0
    slow = fig3_pace("servers", 2.0)
    fedavg, spfl = closed_forms(slow)["fedavg"], closed_forms(slow)["spfl"]
    assert (round(fedavg / spfl, 2), round(fedavg / spfl_of_table1(slow), 2)) == (1.86, 1.44)
    assert simulated_round(slow, "spfl") == pytest.approx(spfl)


@pytest.mark.parametrize("other", [{"dropout": 0.0}, {"dropout": 0.2, "devices": 4}, {"t_wait": 0.0}])
def test_where_nobody_straggles_nobody_waits(other):
    """The whole part of 0.2 * 4 is 0."""
    pace = Pace(**(CIFAR | other))
    assert closed_forms(pace)["fedavg"] == 44.0
    assert simulated_round(pace, "fedavg") == pytest.approx(44.0)
    assert compare(pace).with_absences == compare(pace).methods["apfl"].simulated


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"t_local": 0.0}, "t_local is 0; give the seconds of local training, above 0"),
        ({"t_local": float("nan")}, "t_local is nan"),
        ({"t_comm": -1.0}, "t_comm is -1; give a number of seconds, 0 or more"),
        ({"t_wait": float("inf")}, "t_wait is inf; give a number"),
        ({"t_aggregate": -2.0}, "t_aggregate is -2; give a number"),
        ({"devices": 0}, "devices is 0; give a number from 1 to 300"),
        ({"devices": 301}, "devices is 301; give a number from 1 to 300"),
        ({"dropout": 1.1}, "dropout is 1.1; give the share of devices that straggle, from 0 to 1"),
        ({"jitter": -0.1}, "jitter is -0.1; give a share"),
    ],
)
def test_what_cannot_be_is_refused(wrong, message):
    with pytest.raises(SettingError, match=message):
        Pace(**(CIFAR | wrong))


# -- simulation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("devices", [5, 10, 30])
@pytest.mark.parametrize("method", ["fedavg", "dga", "mifa", "spfl"])
def test_simulated_rounds_are_the_formulas(method, devices):
    pace = Pace(t_local=7.3, t_comm=3.1, t_wait=40.0, t_aggregate=11.7, devices=devices)
    assert simulated_round(pace, method) == pytest.approx(closed_forms(pace)[method], rel=1e-6)


def test_dga_is_faster_than_its_formula_where_an_extra_visit_does_not_fit():
    """NI-E10: nobody straggles; the visit under way when the average comes is the next round's: T_l instead of 30."""
    pace = Pace(t_local=19.0, t_comm=6.0, t_wait=0.0, t_aggregate=5.0)
    assert closed_forms(pace)["dga"] == 30.0
    assert simulated_round(pace, "dga") == pytest.approx(19.0)
    assert "shorter than the formula's" in explain(compare(pace))[1]


@pytest.mark.parametrize(
    ("a", "g", "independent"), [(25.0, 10.0, 25.1), (25.0, 19.0, 28.6), (25.0, 40.0, 40.1), (191.0, 185.0, 277.0)]
)
def test_cycles_of_devices_out_of_step(a, g, independent):
    """NI-E7: the values of an independent event simulation of ten devices, to half a per cent."""
    assert simulated_cycle(visit_of(a, g)) == pytest.approx(independent, rel=0.005)


def test_an_upload_that_meets_an_aggregation_waits_for_the_next():
    """By hand: put at a publication, then at a > g; aggregated from 2g to 3g, held so long: two cycles take 3g."""
    assert simulated_cycle(visit_of(25.0, 19.0)) == pytest.approx(1.5 * 19.0)
    assert simulated_cycle(visit_of(25.0, 19.0), in_step=True) == pytest.approx(25.0)


@pytest.mark.parametrize("a", [10.0, 25.0, 191.0])
@pytest.mark.parametrize("ratio", [0.0, 0.3, 0.55, 0.66, 0.7, 0.99, 1.0, 1.01, 2.5])
def test_the_cycle_lies_between_its_bounds(a, ratio):
    pace = visit_of(a, ratio * a, devices=7)
    least, most = apfl_bounds(pace)
    assert least * (1 - 1e-9) <= simulated_cycle(pace) <= most * (1 + 1e-9)


def test_absences_make_the_cycle_longer_by_the_stragglers_share():
    """MNIST's times leave the server idle: two visits in ten are preceded by T_w and half of T_c."""
    pace = Pace(t_local=4.0, t_comm=6.0, t_wait=8.0, t_aggregate=4.0)
    # 1200 visits, of which a fifth straggles, to within a few at both ends of the window.
    assert compare(pace).with_absences == pytest.approx(10.0 + 0.2 * (8.0 + 3.0), abs=0.05)


def test_jitter_lengthens_rounds_that_wait_for_the_slowest():
    calm, shaky = Pace(**CIFAR), Pace(**CIFAR, jitter=0.1)
    assert closed_forms(calm) == closed_forms(shaky)
    # The slowest of two stragglers: more than one of them alone by a spread of 1.9 s times 0.56.
    assert simulated_round(shaky, "spfl") > simulated_round(calm, "spfl") + 0.5


def test_the_words_name_what_limits():
    fast, slow = explain(compare(Pace(**CIFAR))), explain(compare(Pace(**(CIFAR | {"t_aggregate": 100.0}))))
    assert "waiting for stragglers, 46% of a round" in fast[0]
    assert "server waits for them for 44 s" in fast[3] and "server sets the pace" in slow[3]
    assert "between 25 and 38 s: 28.5 s with devices out of step, 25 s with all in step" in fast[4]
    assert "the server sets the pace" in slow[4]
    assert len(fast) == len(METHODS)


# -- Table 1 ------------------------------------------------------------------------------------------------------

SPEEDUPS = {
    "MNIST": {"DGA": "1.00", "MIFA": "1.57", "SPFL": "1.22", "APFL": "2.20"},
    "CIFAR-10": {"DGA": "1.00", "MIFA": "1.86", "SPFL": "1.30", "APFL": "3.28"},
    "Tiny-ImageNet": {"DGA": "1.00", "MIFA": "1.98", "SPFL": "1.33", "APFL": "3.91"},
}


@pytest.mark.parametrize("dataset", SPEEDUPS)
def test_table_1_to_the_printed_digit(first, dataset):
    found = rows(first)
    for method, printed in SPEEDUPS[dataset].items():
        row = found[f"{dataset}: {method}, speed-up"]
        assert f"{row.ours:.2f}" == printed
        assert row.paper == float(printed)
        assert row.ok


def test_table_1_also_sets_stragglers_against_stragglers(first):
    """With absences on both sides: a round of FedAvg over a cycle of APFL whose devices are away at times."""
    found = [row for row in first.rows if row.name.endswith("absences on both sides")]
    assert [round(row.ours, 2) for row in found] == [1.80, 2.28, 2.19]


@pytest.mark.parametrize(
    ("dataset", "seconds"),
    [("MNIST", (22, 22, 14, 18)), ("CIFAR-10", (82, 82, 44, 63)), ("Tiny-ImageNet", (746, 746, 376, 561))],
)
def test_table_1_simulated(first, dataset, seconds):
    found = rows(first)
    for method, wanted in zip(("FedAvg", "DGA", "MIFA", "SPFL"), seconds, strict=True):
        row = found[f"{dataset}: {method}, round simulated"]
        assert row.ours == pytest.approx(wanted, rel=1e-6)
        assert row.ok
    assert found[f"{dataset}: APFL, speed-up simulated in step"].ok
    assert found[f"{dataset}: APFL, cycle simulated out of step"].ok


def test_out_of_step_apfl_does_not_reach_two_of_three_printed_speedups(first):
    """NI-E7: 82/28.5 and 746/277.5."""
    found = [row for row in first.rows if row.name.endswith("speed-up simulated out of step")]
    assert [round(row.ours, 2) for row in found] == [2.20, 2.88, 2.69]
    assert [row.ok for row in found] == [True, False, False]
    assert all("NI-E7" in row.note for row in found)


def test_table_1_depends_on_its_times(first):
    """NI-E1: at the stated T_w/T_l = 3, CIFAR-10 has 2.30/1.23/4.04; at T_c = 7 s no row of the three holds."""
    three = rows(table1(Request(), wait_ratio=3.0))
    got = [three[f"CIFAR-10: {method}, speed-up"] for method in ("MIFA", "SPFL", "APFL")]
    assert [round(row.ours, 2) for row in got] == [2.30, 1.23, 4.04]
    assert not any(row.ok for row in got)
    slower = rows(table1(Request(), comm=7.0))
    assert not any(slower[f"CIFAR-10: {method}, speed-up"].ok for method in ("MIFA", "APFL"))
    assert slower["CIFAR-10: SPFL, round simulated"].ours == pytest.approx(64.0)
    assert rows(first)["CIFAR-10: SPFL, round simulated"].ours == pytest.approx(63.0)


@pytest.mark.parametrize("label", ["NI-E1", "NI-E2", "NI-E4", "NI-E5", "NI-E7", "2.30/1.23/4.04"])
def test_table_1_names_what_is_odd(first, label):
    assert label in first.note


# -- Table 2 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "fedavg", "pfl", "speedup"),
    [
        ("MNIST, 5 epochs", 9, 5, "1.80"),
        ("MNIST, 10 epochs", 12, 7, "1.71"),
        ("MNIST, 15 epochs", 16, 11, "1.45"),
        ("CIFAR-10, 5 epochs", 39, 20, "1.95"),
        ("CIFAR-10, 10 epochs", 58, 38, "1.53"),
        ("CIFAR-10, 15 epochs", 80, 60, "1.33"),
        ("Tiny-ImageNet, 5 epochs", 365, 185, "1.97"),
        ("Tiny-ImageNet, 10 epochs", 555, 375, "1.48"),
        ("Tiny-ImageNet, 15 epochs", 743, 563, "1.32"),
    ],
)
def test_table_2_to_the_printed_digit(second, name, fedavg, pfl, speedup):
    found = rows(second)
    assert (found[f"{name}: FedAvg, round"].ours, found[f"{name}: PFL, round"].ours) == (fedavg, pfl)
    for title in ("PFL, speed-up", "SPFL, speed-up simulated", "APFL, speed-up simulated in step"):
        row = found[f"{name}: {title}"]
        # 1.45 is printed for 16/11 = 1.4545...
        assert f"{row.ours:.2f}" == speedup
        assert row.paper == float(speedup)
    together = found[f"{name}: FedAvg, SPFL, APFL in step, simulated"]
    assert together.ours == f"{fedavg}, {pfl}, {pfl} s"
    elsewhere = [
        row for title, row in found.items() if title.startswith(name) and "speed-up simulated out" not in title
    ]
    assert len(elsewhere) == 7
    assert all(row.ok for row in elsewhere)


def test_table_2_depends_on_the_server(second):
    slower = table2(Request(), slower=1.5)
    for before, after in zip(second.rows, slower.rows, strict=True):
        if before.name.endswith("PFL, speed-up"):
            assert before.ours != after.ours and not after.ok


# -- Figure 3 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axis", "method", "ratios", "speedups"),
    [
        ("T_w/T_l", "APFL", (1, 2, 3, 4, 5), ("2.52", "3.28", "4.04", "4.80", "5.56")),
        ("T_w/T_l", "MIFA", (1, 2, 3, 4, 5), ("1.43", "1.86", "2.30", "2.73", "3.16")),
        ("T_w/T_l", "SPFL", (1, 2, 3, 4, 5), ("1.43", "1.30", "1.23", "1.19", "1.16")),
        ("T_g/T_l", "APFL", (0.25, 0.5, 1, 2, 4), ("1.95", "2.14", "2.52", "2.16", "1.58")),
    ],
)
def test_figure_3_over_both_sweeps(third, axis, method, ratios, speedups):
    found = rows(third)
    ours = [found[f"{axis} = {ratio:g}: {method}, speed-up"].ours for ratio in ratios]
    assert [f"{value:.2f}" for value in ours] == list(speedups)


def test_figure_3_prints_three_numbers(third):
    printed = {row.name: row for row in third.rows if isinstance(row.paper, float)}
    assert {name: row.paper for name, row in printed.items()} == {
        "T_w/T_l = 5: APFL, speed-up": 5.56,
        "T_w/T_l = 5: MIFA, speed-up": 3.16,
        "T_g/T_l = 1: APFL, speed-up": 2.52,
    }
    assert all(row.ok for row in printed.values())
    assert all(row.ok for row in third.rows if row.ok is not None)
    assert rows(third)["T_g = T_l + T_c: APFL, speed-up"].ours == pytest.approx(2.76, abs=0.005)


@pytest.mark.slow
def test_figure_3_depends_on_the_transfers(third):
    other = rows(fig3(Request(), comm=9.0))
    assert not other["T_w/T_l = 5: APFL, speed-up"].ok
    assert other["T_w/T_l = 5: MIFA, speed-up"].ours != rows(third)["T_w/T_l = 5: MIFA, speed-up"].ours


@pytest.mark.parametrize("label", ["NI-E1", "NI-E2", "NI-E3", "NI-E4", "NI-E5"])
def test_figure_3_names_what_is_odd(third, label):
    assert label in third.note


def test_the_figure_has_two_panels_with_all_printed_points(third):
    left, right = third.figure().axes
    marks = [
        (float(x), float(y))
        for axes in (left, right)
        for line in axes.lines
        if line.get_marker() == "x"
        for x, y in zip(*line.get_data(), strict=True)
    ]
    assert marks == [(5.0, 5.56), (5.0, 3.16), (1.0, 2.52)]


# -- all of them --------------------------------------------------------------------------------------------------


def test_ours_come_from_formula_and_simulation(monkeypatch):
    """With other formulas and another simulation, nothing of the paper's is left under ours."""
    monkeypatch.setattr(noidle_times, "closed_forms", lambda pace: dict.fromkeys(METHODS, 1.0) | {"fedavg": 7.0})
    monkeypatch.setattr(noidle_times, "simulated_round", lambda pace, method: 3.0 if method == "fedavg" else 2.0)
    monkeypatch.setattr(noidle_times, "simulated_cycle", lambda pace, in_step=False: 0.5)
    assert not any(row.ok for row in table2(Request()).rows)


@pytest.mark.parametrize("id", ["noidle-table1", "noidle-table2", "noidle-fig3"])
def test_they_are_registered_and_their_rows_are_valid_json(id, tmp_path):
    assert REPRODUCTIONS[id].training == "no"
    found = reproduce(id, out=tmp_path, quiet=True)
    assert found.title.startswith("No One Idles, ICML 2023: ")
    kept = json.loads((tmp_path / "result.json").read_text())
    assert len({row["name"] for row in kept["rows"]}) == len(kept["rows"]) == len(found.rows)
    assert (tmp_path / "figure.svg").exists() == (id == "noidle-fig3")
