"""Run directories that somebody else wrote, or that were damaged: a page, or words about what is wrong."""

import json
import os
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.config import read_settings
from paceline.errors import DataError
from paceline.ledger.directory import EXPERIMENT
from paceline.report.page import write_report
from paceline.report.runs import load_run
from paceline.runs.experiment import make_experiment
from paceline.runs.performing import perform
from paceline.runs.settings import make_settings
from tests.fuzz.hostile import HARD, damaged, explained, few

FILES = ("settings.json", "metrics.jsonl", "summary.json")
SPANS = "spans/part-000000000000.parquet"
SMALL = ["clients=6", "rounds=2", "partition=iid", "fedavg.participants=3", "executor.threads=1"]
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from([10**400, 1e308, -1e308, 5e-324, 10**18, "\ud800", "<script>", *HARD]),
    ),
    lambda inside: st.one_of(
        st.lists(inside, max_size=3), st.dictionaries(st.sampled_from(["0", "x", "time", "text"]), inside, max_size=3)
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A run's directory, whose files may be changed."""
    out = tmp_path_factory.mktemp("kept") / "run"
    perform(make_experiment(["fedavg"], overrides=SMALL, out=out, dry=True))
    return out


@pytest.fixture
def files(kept):
    """What its files hold; they hold it again afterwards."""
    held = {name: (kept / name).read_bytes() for name in (*FILES, SPANS)}
    yield held
    for name, content in held.items():
        (kept / name).write_bytes(content)


def pages(kept):
    explained(write_report, [kept], kept / "report.html", "A page")
    tree = explained(read_settings, kept, ["fedavg"])
    if tree is not None:
        explained(make_settings, "fedavg", (), tree)


@pytest.mark.parametrize("name", FILES)
def test_damaged_files(kept, files, name):
    @few
    @given(damaged(files[name]))
    def any_damage(content):
        (kept / name).write_bytes(content)
        pages(kept)

    any_damage()


@pytest.mark.parametrize("name", FILES)
def test_any_value_in_any_place(kept, files, name):
    tree = json.loads(files[name].splitlines()[0] if name == "metrics.jsonl" else files[name])
    keys = sorted({*tree, "notes", "distributions", "target", "personal", "ended", "accuracy", "sparsity"})

    @few
    @given(st.dictionaries(st.sampled_from(keys), VALUES, min_size=1, max_size=2))
    def any_value(changes):
        (kept / name).write_text(json.dumps(tree | changes) + "\n", encoding="utf-8")
        pages(kept)

    any_value()


def test_damaged_spans(kept, files):
    @few
    @given(damaged(files[SPANS]))
    def any_damage(content):
        (kept / SPANS).write_bytes(content)
        explained(write_report, [kept], kept / "report.html", "A page")

    any_damage()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("what", ["a pipe", "a device", "a directory"])
def test_what_is_no_file(kept, files, name, what):
    path = kept / name
    path.unlink()
    try:
        {"a pipe": os.mkfifo, "a device": lambda p: p.symlink_to("/dev/zero"), "a directory": os.mkdir}[what](path)
        with pytest.raises(DataError, match="give the path of a regular file"):
            load_run(kept)
    finally:
        path.rmdir() if path.is_dir() else path.unlink()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"algorithm": "fedavg", "seed": ' + "9" * 5000 + "}", "thousands of digits"),
        ('{"algorithm": "fedavg", "seed": true}', "a whole seed"),
        ('{"algorithm": "fedavg", "seed": 1' + "0" * 400 + "}", "a whole seed"),
        ('{"algorithm": "fedavg", "seed": 0, "dataset": "\\ud800"}', "half a character"),
        ('{"a": ' * 3000 + "1" + "}" * 3000, "too deep|nested more"),
        ("[" * 200_000, "too deep"),
    ],
)
def test_what_was_found_once(kept, files, text, said, tmp_path):
    alone = shutil.copytree(kept, tmp_path / "alone", ignore=shutil.ignore_patterns(EXPERIMENT))
    (alone / "settings.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=said):
        load_run(alone)
