"""The trained reproductions of No One Idles, shrunk."""

from dataclasses import replace

import pytest

from paceline.errors import SettingError
from paceline.papers.noidle import trained as noidle_trained
from paceline.papers.noidle.trained import SMALL, _screening_rows
from paceline.papers.result import Request


@pytest.fixture
def shrunk(monkeypatch):
    monkeypatch.setitem(SMALL, "digits", replace(SMALL["digits"], rounds=3))


REQUEST = Request(scale="small", seeds=2, quiet=True)


@pytest.mark.parametrize(
    "name", ["table1", "fig4", *(pytest.param(name, marks=pytest.mark.slow) for name in ("table2", "architectures"))]
)
def test_they_run_and_make_rows(shrunk, name):
    found = getattr(noidle_trained, name)(REQUEST)
    assert len(found.rows) >= 4
    assert all(row.ours not in (None, "nan") for row in found.rows)
    assert "computed: " in found.note
    assert found.figure() is not None


def test_methods_make_as_many_visits(shrunk, tmp_path):
    found = noidle_trained.table1(replace(REQUEST, out=tmp_path, seeds=1))
    import json

    visits = {
        path.parent.name: json.loads(path.read_text())["visits"]
        for path in tmp_path.glob("trials/digits-iid/*/summary.json")
    }
    assert len(visits) == 5
    assert all(30 <= count < 50 for count in visits.values()), visits  # at most one more round, DGA's has twenty
    assert found.hardware


def test_rows_judge_screening_and_plain_averaging():
    finals = {
        ("none", "mean"): {0: 95.0, 1: 96.0},
        ("sign-flip:0.2", "mean"): {0: 10.0, 1: 11.1},
        ("sign-flip:0.2", "screen"): {0: 94.0, 1: 95.1},
        ("random:0.2", "mean"): {0: 94.5, 1: 95.6},
        ("random:0.2", "screen"): {0: 90.0, 1: 91.1},
        ("scaled:0.2,-10", "mean"): {},
        ("label-flip:0.2", "screen"): {0: 85.5, 1: 102.5},
    }
    ok = {row.name: row.ok for row in _screening_rows("digits", finals)}
    assert ok["digits: sign-flip:0.2, mean - clean"] is True
    assert ok["digits: sign-flip:0.2, screen - clean"] is True
    assert ok["digits: random:0.2, mean - clean"] is False
    assert ok["digits: random:0.2, screen - clean"] is False
    assert ok["digits: scaled:0.2,-10, mean - clean"] is True  # it diverged
    assert ok["digits: label-flip:0.2, screen - clean"] is None, "-1.5, but from -110 to 107"


def test_a_dataset_it_does_not_have_is_refused():
    with pytest.raises(SettingError, match="--data is 'cifar100'"):
        noidle_trained.table1(Request(scale="small", data="cifar100"))
