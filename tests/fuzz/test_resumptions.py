"""Directories of cut-off runs that were damaged, or that somebody else wrote: they go on, or say what is wrong."""

import contextlib
import hashlib
import json
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

from paceline.errors import PacelineError
from paceline.runs.performing import read_resumption, resume
from tests.contract.test_resume import cut_off, experiment, kept_files, perform
from tests.fuzz.hostile import HARD, damaged, few
from tests.ledger.test_checkpoints import signed_anew, within

WORDS = ["clients=6", "rounds=6", "partition=iid", "fedavg.participants=3", "model=logistic", "flush=3", "every=1"]
FILES = ("paceline.json", "settings.json", "metrics.jsonl", "summary.json", "checkpoints/learned.jsonl", "CHECKPOINT",
         "spans/part-000000000000.parquet")  # fmt: skip


@pytest.fixture(scope="module")
def cut(tmp_path_factory):
    """A directory that a killed process left, and one of a run that was not killed."""
    folder, patch = tmp_path_factory.mktemp("cut"), pytest.MonkeyPatch()
    perform(experiment(["fedavg"], folder / "whole", WORDS))
    return cut_off(patch, ["fedavg"], folder, 3, 4, WORDS), folder / "whole"


def file_of(directory, name):
    return next((directory / "checkpoints").glob("stop-*")) if name == "CHECKPOINT" else directory / name


def goes_on_or_explains(directory, whole):
    """What was damaged may be found out, or be made again; never is it taken for what it is not."""
    try:
        outcome = resume(read_resumption(directory, accept=["all"]))
    except PacelineError:
        return
    if outcome.failures == []:
        assert kept_files(directory)[1:3] == kept_files(whole)[1:3]


@pytest.mark.parametrize("name", FILES)
def test_damaged_files(cut, tmp_path, name):
    directory, whole = cut
    content = file_of(directory, name).read_bytes()

    @few
    @given(damaged(content))
    def go(changed):
        again = tmp_path / "again"
        shutil.rmtree(again, ignore_errors=True)
        shutil.copytree(directory, again)
        file_of(again, name).write_bytes(changed)
        goes_on_or_explains(again, whole)

    go()


def paths(tree, before=()):
    """Every place in a tree of JSON."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*before, key)
        yield from paths(value, (*before, key))


def test_other_values_in_the_manifest(cut, tmp_path):
    directory, _ = cut
    manifest = json.loads((directory / "paceline.json").read_text())

    @few
    @given(st.sampled_from(list(paths(manifest))), st.sampled_from([None, True, -1, 1e400, [], {}, "", *HARD]))
    def go(path, value):
        again = tmp_path / "again"
        shutil.rmtree(again, ignore_errors=True)
        shutil.copytree(directory, again)
        changed = json.loads(json.dumps(manifest))
        inside = changed
        for key in path[:-1]:
            inside = inside[key]
        inside[path[-1]] = value
        (again / "paceline.json").write_text(json.dumps(changed))
        with contextlib.suppress(PacelineError):
            resume(read_resumption(again, accept=["all"]))

    go()


ODD = [None, True, -1, 10**30, 1e400, [], {}, [[[]]], "", "x", *HARD]


def test_other_values_in_a_checkpoint_that_is_signed_anew(cut, tmp_path):
    """Whoever writes a digest beside what they have changed is told what is wrong all the same."""
    directory, whole = cut
    with safe_open(file_of(directory, "CHECKPOINT"), framework="pt") as file:
        places = list(paths(json.loads(file.metadata()["paceline"])))

    @few
    @given(st.sampled_from(places), st.sampled_from(ODD))
    def go(path, value):
        again = tmp_path / "again"
        shutil.rmtree(again, ignore_errors=True)
        shutil.copytree(directory, again)
        signed_anew(file_of(again, "CHECKPOINT"), lambda header: within(header, *path, value=value))
        goes_on_or_explains(again, whole)

    go()


def test_other_values_in_what_was_learned_that_is_signed_anew(cut, tmp_path):
    directory, _ = cut
    lines = (directory / "checkpoints" / "learned.jsonl").read_text().splitlines()
    places = [(number, *path) for number, line in enumerate(lines[:3]) for path in paths(json.loads(line))]

    @few
    @given(st.sampled_from(places), st.sampled_from(ODD))
    def go(path, value):
        again = tmp_path / "again"
        shutil.rmtree(again, ignore_errors=True)
        shutil.copytree(directory, again)
        number, *inside = path
        changed = json.dumps(within(json.loads(lines[number]), *inside, value=value))
        data = ("\n".join([*lines[:number], changed, *lines[number + 1 : 3]]) + "\n").encode()
        (again / "checkpoints" / "learned.jsonl").write_bytes(data)
        state = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        signed_anew(file_of(again, "CHECKPOINT"), lambda header: header | {"state": header["state"] | state})
        with contextlib.suppress(PacelineError):
            resume(read_resumption(again, accept=["all"]))

    go()


@pytest.mark.parametrize("group", ["until", "options", "keeping"])
def test_what_else_a_manifest_says_is_checked(cut, tmp_path, group):
    """Each word with values of all kinds: it goes on, or an error names what is wrong."""
    directory, _ = cut
    shutil.copytree(directory, tmp_path / "again")
    manifest = json.loads((directory / "paceline.json").read_text())
    for name in [*manifest[group], "another"]:
        for value in (None, True, -1, 0.5, [], {}, "", "x", 1e400):
            changed = manifest | {group: manifest[group] | {name: value}}
            (tmp_path / "again" / "paceline.json").write_text(json.dumps(changed))
            with contextlib.suppress(PacelineError):
                read_resumption(tmp_path / "again", accept=["all"])


@pytest.mark.parametrize(
    "words",
    [
        *({"folders": [folder]} for folder in ("..", "/tmp/elsewhere", "a/../../b")),
        *({"variants": said} for said in (["a\x1b[2J"], ["a\nfedavg seed 0"], [3], ["a", "b"], "a", None, {"a": 1})),
    ],
)
def test_a_manifest_leads_nowhere_else_and_writes_on_no_terminal(cut, tmp_path, words):
    directory, _ = cut
    shutil.copytree(directory, tmp_path / "again")
    manifest = json.loads((directory / "paceline.json").read_text())
    (tmp_path / "again" / "paceline.json").write_text(json.dumps(manifest | words))
    with pytest.raises(PacelineError, match="is not of the form"):
        read_resumption(tmp_path / "again")
