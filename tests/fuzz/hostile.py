"""What hostile input looks like, and what may come of it: an answer, or an error that Paceline can explain."""

from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st

from paceline.errors import PacelineError

few = settings(max_examples=max(settings().max_examples // 5, 5))
"""For what takes a tenth of a second each: the suite is to spend a few seconds on all of it."""
CORPUS = Path(__file__).parent / "corpus"
NUMBERS = ["-1", "0", "-0.0", "1", "2", "0.5", "1.5", "1e-9", "-1e-9", "1e-320", "1e9", "1e17", "1e308", "-1e308"]
NUMBERS += [
    "nan",
    "inf",
    "-inf",
    "9223372036854775808",
    "99999999999999999999",
    "1_0",
    "٣",
    "²",
    "0x10",
    "+5",
    ".5",
    "5.",
]
LONG = ["9" * 5000, "0x" + "f" * 5000, "[" * 400]
HARD = [*NUMBERS, *LONG, "", " ", "none", "true", "[1,2]", "{a=1}", "ü∞☃", "\udc80", "\0"]
"""Numbers and what is none, as words."""
SIGNS = list(":,/@+-=. \n\t'\"#[]{}<>&;\\\0")

numbers = st.one_of(st.sampled_from(NUMBERS), st.floats().map(repr), st.integers().map(str))
texts = st.one_of(st.sampled_from(HARD), numbers, st.text(max_size=20))


def words(names, examples):
    """Words such as ``rate:UP,DOWN``: right ones with something changed, or anything after a name that is known."""
    tail = st.lists(st.one_of(texts, st.sampled_from(SIGNS)), max_size=5).map("".join)
    changed = st.tuples(st.sampled_from(list(examples)), st.integers(0, 40), tail).map(
        lambda parts: parts[0][: parts[1]] + parts[2] + parts[0][parts[1] + 1 :]
    )
    return st.one_of(
        st.tuples(st.sampled_from(list(names)), tail).map(lambda parts: f"{parts[0]}:{parts[1]}"), changed
    )


def damaged(seed):
    """A file's bytes with a few of them changed, left out, or repeated; often inside of one number."""
    piece = st.one_of(texts.map(lambda text: text.encode("utf-8", "surrogatepass")), st.binary(max_size=4))
    change = st.tuples(st.integers(0, max(len(seed), 1)), st.integers(0, 8), piece)

    def changed(changes):
        found = seed
        for place, length, new in changes:
            found = found[:place] + new + found[place + length :]
        return found

    return st.lists(change, max_size=4).map(changed)


def explained(call, *arguments, **named):
    """What a call returns; None where it refuses in words. Anything else that it raises is a bug, and goes on."""
    try:
        return call(*arguments, **named)
    except PacelineError as problem:
        said = str(problem)
    assert 0 < len(said) < 5000, "an error that nobody reads"
    return None
