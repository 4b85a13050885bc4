"""What is trusted when: SECURITY.md has the table, and every entrance is driven by it."""

import json
import sys

import pytest

import paceline
from paceline import FedBuff
from paceline.errors import PacelineError, WireError
from paceline.learn.aggregation import median
from paceline.references import LENT
from paceline.worlds.local.expressions import function_name, function_named
from tests.entrances import ENTRANCES, Place, table

TABLE = table()
NAMED_BY_USER = ("words of a command", "arguments in Python")
TYPED = ("`--config` with a settings file", "`--config` with a run's directory", "`settings --config`")
"""Where the algorithm is a word of the command, whatever the settings say."""
NO_ALGORITHM = ("`load(…).model(…)`", "a federation's task, at a node")
"""Entrances that need no algorithm."""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return Place(tmp_path)


def drive(place, entrance, tree, trust):
    try:
        return ENTRANCES[entrance](place, tree, trust) or ""
    except PacelineError as problem:
        return str(problem)


def test_the_table_has_every_entrance():
    assert list(TABLE) == list(ENTRANCES)
    assert {code for code, _ in TABLE.values()} == {"imported", "never", "with `--trust`", "with `trust = true`"}


@pytest.mark.parametrize("setting", LENT)
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_code_is_imported_as_the_table_says(place, entrance, setting):
    code, _ = TABLE[entrance]
    made = {"algorithm": "Own", "dataset": "data", "model": "net"}[setting]
    tree = {setting: f"{place.name}:{made}"}
    said = drive(place, entrance, tree, trust=False)
    assert place.marker.exists() == (code == "imported"), said
    if code.startswith("with") and not (setting == "algorithm" and entrance in (*TYPED, *NO_ALGORITHM)):
        assert f"{place.name}:{made}" in said and "--trust" in said
        said = drive(place, entrance, tree, trust=True)
        assert place.marker.exists(), said
    assert "Traceback" not in said


@pytest.mark.parametrize("entrance", [*TYPED[:2], "`resume`", "`replay`", "`load(…).model(…)`"])
def test_a_cluster_that_others_name_is_joined_with_trust_alone(place, entrance):
    tree = {"executor": {"name": "ray", "cluster": "127.0.0.1:1"}}
    joins = entrance not in ("`replay`", "`load(…).model(…)`")
    assert ("'127.0.0.1:1'" in (said := drive(place, entrance, tree, trust=False)) and "--trust" in said) == joins
    assert "--trust" not in drive(place, entrance, tree, trust=True)


@pytest.mark.parametrize("entrance", [name for name, (_, files) in TABLE.items() if files == "never"])
def test_no_file_is_read_where_the_table_says_never(place, entrance):
    if entrance == "a federation's task, at a node":
        pytest.skip("the tests of the federation drive it")
    for tree in ({"dataset": str(place.decoy)}, {"model": str(place.decoy)}, {"fleet": {"file": str(place.decoy)}}):
        drive(place, entrance, tree, trust=False)
    assert place.opened == []


HIDDEN = [
    {"model": "lenet+EVIL:net"},
    {"algorithm": "fedavg@model=EVIL:net"},
    {"algorithm": "fedavg@dataset=EVIL:data"},
    {"model": "EVIL:net@x"},
    {"options": {"model": "EVIL:net"}},
    {"fedbuff": {"model": "EVIL:net"}},
    {"fleet": {"file": "EVIL:net"}},
    {"partition": "EVIL:net"},
    {"faults": "EVIL:net"},
]


@pytest.mark.parametrize("entrance", [name for name in ENTRANCES if name not in NAMED_BY_USER])
@pytest.mark.parametrize("tree", HIDDEN, ids=str)
def test_code_that_hides_is_not_imported(place, entrance, tree):
    said = drive(place, entrance, json.loads(json.dumps(tree).replace("EVIL", place.name)), trust=False)
    assert not place.marker.exists() and "Traceback" not in said


def test_what_was_handed_over_needs_no_trust(place):
    """A run of an algorithm that the program has at hand goes on by it; other code that it names is refused."""
    run = place.run({"algorithm": f"{place.name}:FedBuff", "options": {"rounds": 1}}, "interrupted")
    (run / "metrics.jsonl").unlink()  # FedAvg's
    assert len(paceline.resume(run, algorithms=[FedBuff]).runs) == 1
    assert not place.marker.exists()


@pytest.mark.parametrize(
    "name",
    ["paceline.__main__:main", "paceline.topology.semidefinite:import_module", "os:system", "paceline.reading:a.b"],
)
def test_a_device_computes_by_functions_of_paceline_alone(name):
    """What a module has imported is not its own: import_module is no algebra."""
    assert function_named(function_name(median)) is median
    with pytest.raises(WireError):
        function_named(name)
