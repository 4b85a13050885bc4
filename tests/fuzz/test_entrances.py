"""Every entrance of settings, with trees that would have code imported or files read: neither happens.

``python -m tests.fuzz.test_entrances SECONDS`` tries for so long; the suite tries a few examples of each entrance.
"""

import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.entrances import ENTRANCES, Place, table
from tests.fuzz.hostile import HARD, SIGNS, explained, few
from tests.fuzz.test_settings import NAMES

TABLE = table()
CLOSED = [name for name, (code, _) in TABLE.items() if code != "imported"]
KEYS = sorted(
    {name.partition(".")[0] for name in NAMES["fedavg"]} | {"algorithm", "options", "name", "variant", "a.b"}
)
CODE = ["EVIL:net", "EVIL:data", "EVIL:nosuch", "EVIL.net:x", "EVIL"]
FILES = ["DECOY", "file:DECOY", "csv:DECOY", "trace:DECOY,same", "windows:DECOY", "../decoy.csv", "DECOY,repeat"]


def changed(word):
    """A word as it is, in quotes, among others, or with signs in it."""
    signs = st.sampled_from([*SIGNS, "+", "@", "model=", "mlp+", "'", '"', "\u200b", "%"])
    return st.one_of(
        st.just(word),
        st.tuples(signs, st.just(word), signs).map("".join),
        st.tuples(st.just(word), signs, st.just(word)).map("".join),
        st.sampled_from(
            [f'"{word}"', f"lenet+{word}", f"fedavg@model={word}", f"{word}@buffer=5", f'model="{word}"']
        ),
    )


WORDS = st.sampled_from([*CODE, *FILES]).flatmap(changed)
VALUES = st.recursive(
    st.one_of(WORDS, WORDS, st.sampled_from([text for text in HARD if len(text) < 100])),
    lambda inside: st.one_of(
        st.lists(inside, max_size=2),
        st.dictionaries(st.sampled_from([*KEYS, "file", "topology"]), inside, max_size=2),
    ),
    max_leaves=4,
)
TREES = st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=3)


def meant(value, place):
    """The same tree with this place's own names."""
    if isinstance(value, dict):
        return {key: meant(one, place) for key, one in value.items()}
    if isinstance(value, list):
        return [meant(one, place) for one in value]
    return value.replace("EVIL", place.name).replace("DECOY", str(place.decoy))


@contextlib.contextmanager
def placed():
    before = Path.cwd(), list(sys.path)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield Place(Path(folder))
        finally:
            os.chdir(before[0])
            sys.path[:] = before[1]


def tried(place, entrance, tree):
    """Nothing is imported, nothing is read that may not be, and what is refused is refused in words."""
    place.opened.clear()
    said = explained(ENTRANCES[entrance], place, tree, False) or ""
    assert "Traceback" not in said, said
    assert not place.marker.exists() and place.name not in sys.modules
    if TABLE[entrance][1] == "never" and "federation" not in entrance:
        assert place.opened == []


@pytest.mark.parametrize("entrance", CLOSED)
def test_nothing_is_imported_and_no_file_read(entrance):
    with placed() as place:
        few(given(TREES)(_going(place, entrance)))()


def main(seconds="60"):
    """Try all entrances in turn until the time is over; whatever is found is printed by Hypothesis."""
    end, rounds = time.monotonic() + float(seconds), 0
    many = settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    with placed() as place:
        while time.monotonic() < end:
            for entrance in CLOSED:
                seed(time.time_ns())(many(given(TREES)(_going(place, entrance))))()
            rounds += 1
            print(f"{rounds * len(CLOSED) * 40:,} trees tried, nothing found", flush=True)


def _going(place, entrance):
    def any_tree(tree):
        tried(place, entrance, meant(tree, place))

    return any_tree


if __name__ == "__main__":
    main(*sys.argv[1:])
