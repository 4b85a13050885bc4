"""Plans: what may be asked, and that a process of its own answers within its limits."""

import asyncio
import json
import subprocess
import sys

import pytest

from paceline.errors import SettingError
from paceline.ui.asking import MOST_FLEET, Asked, read_asked
from paceline.ui.planning import Planner

USUAL = {"algorithm": ["fedavg"]}


def test_fields_become_settings():
    form = {"algorithm": ["fedavg", "psfl"], "clients": [" 20 "], "times": ["uniform"], "rounds": [""],
            "more": ["fleet.jitter=0.1\r\n\r\nseed=3"]}  # fmt: skip
    asked = read_asked(form)
    assert asked.algorithms == ("fedavg", "psfl")
    assert asked.settings == ("clients=20", "fleet.times=uniform", "fleet.jitter=0.1", "seed=3")


REFUSED = {
    "an algorithm by reference": {"algorithm": ["os.path:join"]},
    "no algorithm": {"algorithm": []},
    "many algorithms": {"algorithm": ["fedavg", "sfl", "psfl", "spfl", "apfl", "dga", "mifa"]},
    "a variant": {"algorithm": ["fedavg@model=os:getcwd"]},
    "a model by reference": {"model": ["os.path:join"]},
    "one of several models": {"more": ["model=lenet+os:getcwd"]},
    "data by reference": {"dataset": ["os.path:join"]},
    "data in a file": {"more": ["dataset=/etc/passwd.csv"]},
    "a fleet's file": {"more": ["fleet.file=/etc/passwd"]},
    "measured times": {"times": ["csv:/etc/passwd"]},
    "traces": {"links": ["trace:/etc/passwd,same"]},
    "windows": {"availability": ["duty:10,0.5+windows:/etc/passwd"]},
    "a fleet that names a file": {"fleet": ["device,availability\na,windows:/etc/passwd"]},
    "many clients": {"clients": ["100000000"]},
    "clients in words": {"clients": ["many"]},
    "clients of NaN": {"clients": ["nan"]},
    "many rounds": {"more": ["psfl.rounds=1e9"]},
    "no setting": {"more": ["hello"]},
    "a strange name": {"more": ["__class__=1"]},
    "a long one": {"more": [f"seed={'1' * 400}"]},
    "many settings": {"more": ["\n".join(["seed=1"] * 60)]},
    "a large fleet": {"fleet": ["x" * (MOST_FLEET + 1)]},
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_plan_must_not_do_is_refused_before_a_process_starts(what):
    with pytest.raises(SettingError):
        read_asked(USUAL | REFUSED[what])


def test_rates_drawn_from_laws_are_no_files():
    asked = read_asked(USUAL | {"links": ["rate:lognormal,10,0.5/lognormal,50,0.5"]})
    assert asked.settings == ("fleet.links=rate:lognormal,10,0.5/lognormal,50,0.5",)


def made(asked, **options):
    return asyncio.run(Planner(**options).plan(asked)).page


def test_a_process_of_its_own_answers_with_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fleet = "device,seconds\na,1\nb,2\nc,4\n"
    page = made(Asked(algorithms=("fedavg", "fedbuff"), settings=("rounds=3", "dataset=digits"), fleet=fleet))
    assert page.startswith("<!doctype html>") and "Plan: fedavg, fedbuff on 3 devices" in page
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


GUARDED = """
import json, os, subprocess, sys
from pathlib import Path
from paceline.ui.worker import guard
sys.addaudithook(guard([Path.cwd()]))
def tried(act):
    try:
        act()
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return "done"
acts = {
    "read": lambda: open("/etc/passwd"),
    "read low": lambda: os.open("/etc/passwd", os.O_RDONLY),
    "read up": lambda: open("../secret.txt"),
    "link": lambda: open("link.txt"),
    "write": lambda: open("../new.txt", "w"),
    "start": lambda: subprocess.run(["true"]),
    "shell": lambda: os.system("true"),
    "own": lambda: open("own.txt"),
    "program": lambda: open(json.__file__),
}
print(json.dumps({name: tried(act) for name, act in acts.items()}))
"""


def test_whatever_a_setting_says_the_process_opens_no_other_file(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "own.txt").touch()
    (tmp_path / "secret.txt").touch()
    (own / "link.txt").symlink_to(tmp_path / "secret.txt")
    done = subprocess.run([sys.executable, "-c", GUARDED], cwd=own, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert {name for name, said in found.items() if said == "done"} == {"own", "program"}
    assert all("SettingError" in said for name, said in found.items() if said != "done")
    assert not (tmp_path / "new.txt").exists()
