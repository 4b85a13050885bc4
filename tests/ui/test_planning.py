"""Plans: what may be asked, and that a process of its own answers within its limits."""

import asyncio

import pytest

from paceline.errors import SettingError
from paceline.ui.asking import FIELDS, Asked, read_asked
from paceline.ui.planning import Planner

USUAL = {"algorithm": ["fedavg"]}


def test_fields_become_settings():
    form = {"algorithm": ["fedavg", "psfl"], "clients": ["20"], "times": ["exponential:2.5"], "secret": ["x"]}
    asked = read_asked(form)
    assert asked.algorithms == ("fedavg", "psfl")
    assert asked.settings[:3] == ("clients=20", "rounds=20", "fleet.times=exponential:2.5")


REFUSED = {
    "an algorithm by reference": {"algorithm": ["os.path:join"]},
    "no algorithm": {"algorithm": []},
    "many algorithms": {"algorithm": ["fedavg", "sfl", "psfl", "spfl", "apfl", "dga", "mifa"]},
    "a variant": {"algorithm": ["fedavg@model=os:getcwd"]},
    "code in quotes": {"more": ['model="os:system"']},
    "a file in a table": {"more": ['fleet={file="/etc/passwd"}']},
    "a bare path": {"more": ["psfl.topology=/sys/kernel/notes"]},
    "a number in a table": {"structure": ["local={epochs=1000000000}"]},
    "a fleet": {"fleet": ["device,seconds\na,1"]},
    "a setting of this name": {"model": ["mlp:200"]},
    "data by reference": {"dataset": ["os.path:join"]},
    "measured times": {"times": ["csv:measured.csv"]},
    "traces": {"links": ["trace:lte.csv,same"]},
    "windows": {"availability": ["windows:hours.csv,86400"]},
    "another law": {"times": ["constant:2.6"]},
    "two laws": {"times": ["constant:2.5", "constant:2.5"]},
    "many clients": {"clients": ["100000000"]},
    "no clients": {"clients": ["0"]},
    "clients of NaN": {"clients": ["nan"]},
    "clients in other digits": {"clients": ["\u0662"]},
    "many rounds": {"rounds": ["2001"]},
    "an end of a line": {"rounds": ["20\nmodel=os:getcwd"]},
}


@pytest.mark.parametrize("what", REFUSED)
def test_nothing_but_choices_and_bounded_numbers_is_taken(what):
    with pytest.raises(SettingError):
        read_asked(USUAL | REFUSED[what])


def test_no_choice_is_a_file():
    words = [word for field in FIELDS.values() for word in getattr(field, "words", ())]
    assert "rate:5,20" in words and not [word for word in words if ".csv" in word]


def made(asked, **options):
    return asyncio.run(Planner(**options).plan(asked)).page


def test_a_process_of_its_own_answers_with_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = made(read_asked({"algorithm": ["fedavg", "fedbuff"], "rounds": ["3"], "absence": ["skip"]}))
    assert page.startswith("<!doctype html>") and "fedavg" in page and "fedbuff" in page
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_cannot_says_why():
    with pytest.raises(SettingError, match="unknown setting 'nosuch'"):
        made(Asked(algorithms=("fedavg",), settings=("nosuch=1",)))


def test_a_process_that_takes_too_long_is_ended():
    with pytest.raises(SettingError, match=r"took more than 0\.2 s and was stopped"):
        made(Asked(algorithms=("fedavg",), settings=()), seconds=0.2)


def test_plans_stand_in_line_and_the_line_has_an_end(monkeypatch):
    begun, most = [], []

    class Slow(Planner):
        async def _made(self, asked):
            begun.append(asked)
            most.append(len(begun))
            await asyncio.sleep(0)
            begun.remove(asked)
            return "page"

    async def many():
        planner = Slow()
        asked = Asked(algorithms=("fedavg",), settings=())
        found = await asyncio.gather(*(planner.plan(asked) for _ in range(8)), return_exceptions=True)
        return found, planner

    found, planner = asyncio.run(many())
    refused = [one for one in found if isinstance(one, SettingError)]
    assert len(refused) == 3 and max(most) == 1
    assert asyncio.run(planner.plan(Asked(algorithms=("fedavg",), settings=()))).page == "page"
