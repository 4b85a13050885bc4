"""Words such as ``duty:3600,0.5``: how tables of forms read them, explain what is wrong, and write the help."""

import re
from pathlib import Path

import pytest

import paceline
from paceline.data.partition import PARTITIONS
from paceline.errors import PacelineError, SettingError
from paceline.forms import ABOVE_ZERO, COUNT, FILE, Form, Forms
from paceline.runs.settings import Settings
from paceline.system.availability import AVAILABILITIES
from paceline.system.compute import TIMES
from paceline.system.failures import FAILURES
from paceline.system.fleet import FleetSettings
from paceline.system.laws import LAWS
from paceline.system.links import LINKS
from paceline.system.network import BACKBONES, SHARINGS
from paceline.system.server import SERVERS
from paceline.topology.families import GRAPHS
from paceline.worlds.absence import ABSENCES
from paceline.worlds.faults import FAULTS
from paceline.worlds.hostile import ATTACKS

TABLES = [LAWS, TIMES, LINKS, SHARINGS, BACKBONES, AVAILABILITIES, SERVERS, FAILURES, GRAPHS, PARTITIONS]
TABLES += [ABSENCES, ATTACKS, FAULTS]
KNOWN = {"seed": 1, "size": 10, "clients": 10, "jitter": 0.0, "watts": None, "latency": 0.0, "server_mbps": None}

FRUIT = Forms(
    "basket",
    Form("empty", dict, "nothing is in it", "empty"),
    Form(
        "apples:COUNT[,WEIGHT][,red]", dict, "so many apples", "apples:3,0.2", {"COUNT": COUNT, "WEIGHT": ABOVE_ZERO}
    ),
    Form("list:FILE[,COUNT]", dict, "what a file lists", "list:fruit.csv", {"FILE": FILE, "COUNT": COUNT}),
    Form("pair:ONE-OTHER@WEIGHT", dict, "two that hang together", "pair:1-2@3", needs=("seed",)),
)


@pytest.mark.parametrize(
    ("word", "made"),
    [
        ("empty", {}),
        ("apples:3", {"count": 3}),
        ("apples:3,0.2", {"count": 3, "weight": 0.2}),
        ("apples:3,0.2,red", {"count": 3, "weight": 0.2, "red": True}),
        ("list:a,b,7", {"file": "a,b", "count": 7}),
        ("list:a,b,c", {"file": "a,b,c"}),
        ("pair:1-2@3", {"one": 1.0, "other": 2.0, "weight": 3.0, "seed": 5}),
    ],
)
def test_a_word_becomes_a_call_with_names(word, made):
    assert FRUIT.parse(word, seed=5) == made


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("aples:3", "basket is 'aples:3'; did you mean 'apples'?"),
        ("xyz", "basket is 'xyz'; known: apples, empty, list, pair"),
        ("empty:1", "basket is 'empty:1'; 'empty' takes nothing after it"),
        ("apples", "basket is 'apples'; wanted apples:COUNT[,WEIGHT][,red], as in apples:3,0.2"),
        ("apples:0", "; COUNT is '0', which is not a whole number of at least 1"),
        ("apples:1,heavy", "; WEIGHT is 'heavy', which is not a finite number above 0"),
    ],
)
def test_an_error_says_what_came_what_was_wanted_and_what_is_near(word, said):
    with pytest.raises(SettingError, match=re.escape(said)):
        FRUIT.parse(word, seed=5)


def test_the_table_writes_the_help():
    assert FRUIT.help()[:2] == [
        "empty: nothing is in it",
        "apples:COUNT[,WEIGHT][,red]: so many apples (apples:3,0.2)",
    ]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.setting)
def test_every_example_is_of_its_own_form_and_can_be_read(table):
    for form in table:
        assert form.pattern.fullmatch(form.example), form.written
        assert form.help and not form.help.endswith(".")
        if ".csv" in form.example or form.name == "measured":
            continue
        try:
            table.parse(form.example, **KNOWN, power=None)
        except PacelineError as problem:
            pytest.fail(f"{form.example}: {problem}")


def test_every_setting_that_is_written_in_forms_has_a_default_that_is_one():
    for kind in (Settings, FleetSettings):
        tables = [
            (each.default, each.metadata["forms"])
            for each in kind.__dataclass_fields__.values()
            if "forms" in each.metadata
        ]
        assert len(tables) >= 3
        for default, table in tables:
            if default != "own":  # each algorithm's own rule, which is looked up before
                table.parse(default, **KNOWN, power=None)


PAGE = Path(paceline.__file__).resolve().parents[2] / "docs/settings.md"


@pytest.mark.skipif(not PAGE.exists(), reason="not run from a source tree")
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.setting)
def test_the_page_of_settings_has_every_form_as_its_table_says_it(table):
    laws = {form.written for form in LAWS} if table is TIMES else set()  # which have a list of their own
    said = " ".join(PAGE.read_text(encoding="utf-8").split())
    for form in table:
        assert (
            form.written in laws
            or f"- `{form.written}`: {form.help}, as in `{form.example}`" in said
            or (form.written == form.example and f"- `{form.written}`: {form.help}" in said)
        ), f"docs/settings.md lacks or misstates {form.written} of {table.setting}"
