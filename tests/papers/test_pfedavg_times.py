"""P-FedAvg's Tables II and V: the ledger against the formulas, and times per iteration in stated networks."""

import json
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.algorithms.pfedavg import PFedAvg
from paceline.papers.pfedavg import iterations as pfedavg_iterations
from paceline.papers.pfedavg import times as pfedavg_times
from paceline.papers.pfedavg.iterations import (
    ACTIVE,
    DECENTRAL,
    FAIR,
    FEDAVG,
    HIERARCHY,
    LIKE_RECORDINGS,
    METHODS,
    OFDMA,
    PARALLEL,
    PF10,
    RECORDED,
    TASKS,
    UPLOADS,
    Form,
    client_rates,
    fit,
    iteration,
    iterations,
)
from paceline.papers.pfedavg.printed import TABLE5
from paceline.papers.pfedavg.times import TRAFFIC_ROUNDS, counted, formula, table2, table5
from paceline.papers.registry import REPRODUCTIONS, reproduce
from paceline.papers.result import Request
from paceline.system.laws import Constant, Discrete
from paceline.topology import parse_graph

MNIST = replace(TASKS[0], rounds=4)


def rows(found):
    return {row.name: row for row in found.rows}


def record(path, means):
    """Recordings of a few seconds, none of them silent."""
    path.parent.mkdir(parents=True)
    lines = [f"{name},{second},{mean * (0.8 if second % 2 else 1.2)}" for name, mean in enumerate(means)
             for second in range(10)]  # fmt: skip
    path.write_text("\n".join(["trace,t_s,mbps", *lines]) + "\n")


@pytest.fixture
def no_recordings(monkeypatch, tmp_path):
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path))


@pytest.fixture
def some_recordings(monkeypatch, tmp_path):
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path))
    record(tmp_path / pfedavg_iterations.RECORDINGS, [18, 24, 27, 31, 34, 40, 46])


@pytest.fixture
def real_recordings():
    path = Path(os.environ.get("PACELINE_DATA", "")) / pfedavg_iterations.RECORDINGS
    if not os.environ.get("PACELINE_DATA") or not path.exists():
        pytest.skip("the 4G/LTE logs of Ghent are not under PACELINE_DATA")


@pytest.fixture
def steady(monkeypatch):
    """All clients alike: 20 Mbit/s, and so fast that training takes no time."""
    monkeypatch.setattr(pfedavg_iterations, "client_rates", lambda: Constant(20.0))
    monkeypatch.setattr(pfedavg_iterations, "recordings", lambda: None)
    return replace(MNIST, milliseconds=1e-6)


@pytest.fixture
def short(monkeypatch):
    for module in (pfedavg_iterations, pfedavg_times):
        monkeypatch.setattr(module, "TASKS", tuple(replace(task, rounds=3) for task in TASKS))


# -- Table II -------------------------------------------------------------------------------------------------------


def test_the_ledger_has_the_traffic_of_the_formulas():
    found = table2(Request()).rows
    assert len(found) == 2 * (1 + 5 + 3)
    assert all(row.ok for row in found)
    assert rows(table2(Request()))["FedAvg, 36 clients: peak traffic"].ours == 72


def test_the_busiest_server_counts():
    """PF-9 by hand: a ring of 3 servers with 2, 1 and 1 clients, and a star whose middle has as many as others."""
    assert formula(parse_graph("ring:3"), [2, 1, 1]) == (8 + 6, 2 * (2 + 2))
    assert formula(parse_graph("star:4"), [1, 1, 1, 1]) == (8 + 6, 2 * (1 + 3))


def test_wrong_traffic_is_seen(monkeypatch):
    monkeypatch.setattr(pfedavg_times, "formula", lambda graph, load: (2 * sum(load), 2 * max(load)))
    found = rows(table2(Request()))
    assert found["FedAvg, 36 clients: total traffic"].ok
    assert not any(row.ok for name, row in found.items() if name.startswith("P-FedAvg"))


@settings(max_examples=20)
@given(st.sampled_from(["ring:5", "complete:4", "tree:6", "barbell:3,3", "star:5"]), st.integers(6, 40))
def test_traffic_of_any_number_of_clients(word, clients):
    """Of any that leaves no server without one."""
    graph = parse_graph(word)
    clients = max(clients, graph.nodes)
    load = [len(range(server, clients, graph.nodes)) for server in range(graph.nodes)]
    algorithm = PFedAvg(rounds=TRAFFIC_ROUNDS, topology=word, participants=None)
    assert counted(algorithm, clients) == formula(graph, load)


# -- times of an iteration ------------------------------------------------------------------------------------------


def test_sizes_are_those_of_the_paper():
    assert [round(task.mbit) for task in TASKS] == [13, 211, 69]


@pytest.mark.parametrize(
    ("kind", "method", "models"),
    [
        (PF10, FEDAVG, 2 * (36 / 100 + 1 / 20)),
        (UPLOADS, FEDAVG, 36 / 100 + 1 / 20),
        (FAIR, FEDAVG, 2 * 36 / 100),
        (OFDMA, FEDAVG, 2 * 36 / 20 * (1200 / 36) / (1200 // 36)),
        (PF10, DECENTRAL, 2 / 20),
        (FAIR, DECENTRAL, 2 / 20),
        (PF10, PARALLEL["exodus"], 2 * (4 / 100 + 1 / 20) + 4 / 100),
        (FAIR, PARALLEL["exodus"], 2 * max(4 / 100, 1 / 20) + 4 / 100),
        (PF10, HIERARCHY["exodus"], 4 * (4 / 100 + 1 / 20) + 2 * 9 / 100),
        (UPLOADS, HIERARCHY["exodus"], 2 * (4 / 100 + 1 / 20) + 2 * 9 / 100),
    ],
)
def test_iterations_by_hand(steady, kind, method, models):
    """All clients at 20 Mbit/s, b = 100 (PF-10, Eq. 18): seconds per Mbit of the model."""
    form = Form(kind, math.inf if kind == OFDMA else 100.0)
    assert iteration(steady, method, form, 0) == pytest.approx(1000 * models * steady.mbit, rel=1e-6)


def test_clients_take_their_time_to_compute(steady):
    """20 local iterations in every method, with a spread: the slowest of 36 takes longer than the median."""
    slow = replace(steady, milliseconds=1000.0)
    form = Form(PF10, 1e9)
    for method in METHODS:
        more = iteration(slow, method, form, 0) - iteration(steady, method, form, 0)
        assert 20_000 < more < 200_000


@pytest.mark.parametrize("kind", [PF10, UPLOADS, FAIR])
def test_the_fit_meets_its_cell(kind, no_recordings, monkeypatch):
    monkeypatch.setattr(pfedavg_iterations, "TASKS", (MNIST, *TASKS[1:]))
    form = fit(kind, 6190.0, 2)
    taken = iterations(MNIST, FEDAVG, form, 2)
    assert sum(taken) / 2 == pytest.approx(6190, rel=1e-3)
    assert fit(kind, 9000.0, 2).mbps < form.mbps


def test_rates_without_recordings_are_like_them(no_recordings):
    assert client_rates() is LIKE_RECORDINGS
    assert (LIKE_RECORDINGS.mean, math.sqrt(LIKE_RECORDINGS.variance)) == (
        pytest.approx(31.4),
        pytest.approx(8.7, abs=0.1),
    )


def test_the_law_is_like_the_real_recordings(real_recordings):
    law = client_rates()
    assert law is not LIKE_RECORDINGS
    assert law.mean == pytest.approx(LIKE_RECORDINGS.mean, abs=0.1)
    assert math.sqrt(law.variance) == pytest.approx(math.sqrt(LIKE_RECORDINGS.variance), abs=0.1)


def test_recordings_are_used_where_they_are(some_recordings):
    assert client_rates().mean == pytest.approx(220 / 7)
    as_recorded = iteration(MNIST, FEDAVG, Form(RECORDED), 0)
    assert as_recorded != iteration(MNIST, FEDAVG, Form(FAIR), 0)


# -- Table V --------------------------------------------------------------------------------------------------------


def check(found, forms=2):
    """The paper's order in both forms, and the fitted cell."""
    orders = {name: row for name, row in found.items() if name.endswith("order") and row.ok is not None}
    assert len(orders) == 6 * forms
    assert all(row.ok for row in orders.values()), [name for name, row in orders.items() if not row.ok]
    assert found["server's share, then client's link: MNIST, FedAvg"].ours == pytest.approx(6190, rel=1e-6)


def test_order_without_recordings(no_recordings, short):
    found = table5(Request(seeds=1))
    check(rows(found))
    assert not any(row.name.startswith("as recorded") for row in found.rows)
    assert "lognormal law with the recordings" in found.note and "silences of single" not in found.note


@pytest.mark.slow
def test_order_with_recordings(some_recordings, short):
    found = table5(Request(seeds=1))
    check(rows(found))
    beside = [row for row in found.rows if row.name.startswith(("as recorded", "the same, uploads"))]
    assert len(beside) == 24 and all(row.ok is None for row in beside)
    assert "means of the recordings" in found.note


def test_the_order_is_not_a_matter_of_course(monkeypatch, short):
    """With many slow clients, HierFAVG's two exchanges with them outweigh FedAvg's crowded server."""
    monkeypatch.setattr(pfedavg_iterations, "recordings", lambda: None)
    monkeypatch.setattr(pfedavg_iterations, "client_rates", lambda: Discrete((12.0, 30.0, 50.0)))
    found = pfedavg_times._form_rows(fit(PF10, 6190.0, 1), 1)
    orders = [row.ok for row in found if row.name.endswith("order")]
    assert len(orders) == 6 and not all(orders)


def test_order_and_quotients_with_the_real_recordings(real_recordings, short):
    """FedAvg over P-FedAvg: PF-10's form 2.2 to 2.8, fair sharing more, a cell of a client's rate 6 to 7."""
    found = rows(table5(Request(seeds=2)))
    check(found)
    quotients = {name: row.ours for name, row in found.items() if name.endswith("over P-FedAvg")}
    added = [value for name, value in quotients.items() if name.startswith("server's share")]
    fair = [value for name, value in quotients.items() if name.startswith("shared fairly")]
    assert min(added) > 2.1 and max(added) < 2.9
    assert all(more > less for more, less in zip(fair, added, strict=True))
    assert 6 < quotients["each server a cell of a client's rate: MNIST, Geant: FedAvg over P-FedAvg"] < 8


def test_the_papers_numbers_flow_nowhere_but_into_their_column(no_recordings, short, monkeypatch):
    """But for the one cell that is fitted."""
    before = rows(table5(Request(seeds=1)))
    other = {name: (cells[0], *(7.0 * cell for cell in cells[1:])) for name, cells in TABLE5.items()}
    other["CIFAR-10"] = (1.0, *other["CIFAR-10"][1:])
    monkeypatch.setattr(pfedavg_times, "TABLE5", other)
    after = rows(table5(Request(seeds=1)))
    assert [row.ours for row in before.values()] == [row.ours for row in after.values()]
    assert before["shared fairly side by side: MNIST, DPSGD"].paper == 2137


def test_all_methods_have_as_many_active_clients():
    """PF-E8."""
    assert FEDAVG.at_server == 9 * PARALLEL["geant"].at_server == 9 * HIERARCHY["geant"].at_server == ACTIVE == 36
    assert DECENTRAL.clients(MNIST) == 36
    assert {method.steps * (2 if method.kind == "hierfavg" else 1) for method in METHODS} == {20}


@pytest.mark.parametrize("id", ["pfedavg-table2", "pfedavg-table5"])
def test_they_are_registered_and_their_rows_are_valid_json(id, no_recordings, short, tmp_path):
    assert REPRODUCTIONS[id].training == "no"
    found = reproduce(id, seeds=1, out=tmp_path, quiet=True)
    kept = json.loads((tmp_path / "result.json").read_text())
    assert len({row["name"] for row in kept["rows"]}) == len(kept["rows"]) == len(found.rows)
