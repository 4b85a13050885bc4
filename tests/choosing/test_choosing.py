"""Which method when: the federations, the comparison, the page and the command."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.choosing import contest
from paceline.choosing.cells import MEGABITS, METHODS, Cell, cells, chosen
from paceline.choosing.contest import Entry, Outcome, Table, compete, from_plain, pace
from paceline.choosing.page import leaders, page, told
from paceline.errors import DataError, SettingError
from paceline.papers.result import Request
from paceline.papers.trials import Laboratory
from paceline.runs.problem import make_space
from paceline.runs.settings import make_settings

PLAIN = Cell("equal", "free", "free", "IID")
ROOT = Path(__file__).parents[2]


def test_there_are_36_federations_with_settings_that_are_possible():
    found = list(cells())
    assert len(found) == len({cell.name for cell in found}) == 36
    for cell in found:
        for method in cell.methods:
            make_settings(method.name, [*cell.words, *method.words])
    slow = next(cell for cell in found if cell.server == "slow")
    assert [one.name for one in slow.methods] == ["fedavg", "psfl", "spfl", "apfl"]


def test_models_take_as_long_as_the_page_says():
    assert make_space("mlp:32", (8, 8), 10, "float32").nbytes * 8 / 1e6 == pytest.approx(MEGABITS)
    base = METHODS["fedavg"]
    free = pace(PLAIN, base)
    assert pace(replace(PLAIN, links="slow clients"), base) == pytest.approx(free + 1.0, abs=0.15)
    assert pace(replace(PLAIN, links="busy server"), base) == pytest.approx(free + 4.0, rel=0.15)
    assert pace(replace(PLAIN, server="slow"), base) == pytest.approx(free + 1.0, abs=0.01)


def test_federations_are_chosen_by_what_is_said_of_them():
    assert len(chosen(["two classes", "slow server"])) == 9
    assert [cell.name for cell in chosen(["IID", "equal", "free server", "free links"])] == [PLAIN.name]
    with pytest.raises(SettingError, match="did you mean 'heavy tail'"):
        chosen(["heavy tails"])


def test_a_comparison_is_tuned_run_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("paceline.choosing.cells.METHODS", {name: METHODS[name] for name in ("fedavg", "fedbuff")})
    monkeypatch.setattr(contest, "TARGET", 0.5)
    monkeypatch.setattr(contest, "TUNING", (100,))
    monkeypatch.setattr(contest, "HALVES", (-1, 0))
    monkeypatch.setattr(contest, "LIMITS", (-1, 0))
    monkeypatch.setattr(contest, "_crossing", lambda one: contest.smooth_crossing(one, 0.5, 3))

    def carried_out():
        with Laboratory(Request(out=tmp_path, quiet=True)) as laboratory:
            return compete(laboratory, 1, [PLAIN]), len(laboratory.calls())

    first, calls = carried_out()
    again, same = carried_out()
    assert again == first and same == calls == 2, "what is kept is not run again"
    (outcome,) = first.outcomes
    assert {one.method for one in outcome.entries} == {"fedavg", "fedbuff"}
    assert all(one.complete and one.rate in (0.316, 1.0) for one in outcome.entries)
    assert from_plain(json.loads(json.dumps(first.plain()))) == first
    assert told(outcome).startswith("**")


def entry(method, *seconds, tried=None):
    return Entry(method=method, rate=0.1, seconds=dict(enumerate(seconds)), tried=tried or len(seconds), visits=100.0)


def outcome(*entries, cell=PLAIN):
    return Outcome(cell=cell, entries=entries)


FEDAVG = entry("fedavg", 10.0, 11.0, 12.0, 10.0)


def test_the_fastest_is_told_beside_fedavg_and_the_second():
    one = outcome(FEDAVG, entry("apfl", 5.0, 5.6, 6.0, 5.0), entry("spfl", 20.0, 22.0, 23.0, 20.1))
    assert told(one).startswith("**apfl** ×0.50 (") and told(one).endswith("), then fedavg")
    assert [found.method for found in leaders(one)] == ["apfl"]


def test_what_seeds_cannot_tell_apart_is_not_ranked():
    one = outcome(FEDAVG, entry("apfl", 9.0, 12.0, 11.0, 10.5))
    assert " = " in told(one)
    assert len(leaders(one)) == 2


def test_who_does_not_arrive_is_not_ranked():
    assert told(outcome(entry("fedavg", 1.0, tried=2))) == "none arrives"
    assert told(outcome(entry("fedavg", 1.0, tried=2), entry("apfl", 1.0, 2.0))) == (
        "**apfl** (not every seed of fedavg arrives)"
    )
    assert told(outcome(FEDAVG)) == "**fedavg**"


def test_the_page_has_every_federation():
    table = Table(
        seeds=4, minutes=1.0, hardware="a machine", outcomes=tuple(outcome(FEDAVG, cell=cell) for cell in cells())
    )
    text = page(table)
    assert text.count("**fedavg**;") == 1 and "| all | 36 | 36 |" in text
    assert all(len(line) <= 120 or line.startswith("|") for line in text.splitlines())
    assert text.count("\n| IID, ") == text.count("\n| two classes, ") == 18


def test_the_documentations_page_is_that_of_its_file():
    table = from_plain(json.loads((ROOT / "docs/results/choice.json").read_text(encoding="utf-8")))
    assert (ROOT / "docs/choosing.md").read_text(encoding="utf-8") == page(table)


def test_what_is_no_table_is_refused():
    with pytest.raises(DataError, match="no table of `paceline choose --json`"):
        from_plain({"seeds": 1})
