"""The measure of the suite, measured: a toy package with mistakes that its tests find, overlook, and cannot find."""

import pytest

from tests.mutation.__main__ import Suite, judge, key, listed, sources_in, table
from tests.mutation.sites import Source, draw

TOY = '''"""A docstring == 1."""

LIMIT: int = 3


def few(n: int) -> bool:
    """Whether n < 1."""
    return n < LIMIT


def size(n):
    if n < 0:
        n = -n
    return n
'''
TESTS = """
from toy.room.few import few, size


def test_few():
    assert few(2) and not few(4)


def test_size():
    assert size(-2) == 2 and size(3) == 3
"""


@pytest.fixture
def toy(tmp_path):
    room = tmp_path / "toy" / "room"
    room.mkdir(parents=True)
    for file in (room / "__init__.py", room.parent / "__init__.py"):
        file.touch()
    (room / "few.py").write_text(TOY)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_few.py").write_text(TESTS)
    return tmp_path


def test_mistakes_are_found_overlooked_or_without_effect(toy, monkeypatch):
    known = ("room/few.py", "if n < 0:", "if n <= 0:")
    with Suite(toy / "toy", toy / "tests", toy / "build") as suite:
        suite.measure()
        suite.load()
        assert {name.partition("::")[2]: len(test["lines"]["room/few.py"]) for name, test in suite.runs.items()} == {
            "test_few": 2,
            "test_size": 4,
        }
        drawn = draw(sources_in(toy / "toy", ["room"]), 100, "seed")
        rows = list(judge(suite, drawn, {known: {"fate": "equivalent", "reason": "0 is -0"}}))
        monkeypatch.setattr("tests.mutation.__main__.PATIENCE", 1)
        site = next(site for _, site, _ in drawn if site.lines[0] == 12)
        assert suite.try_out(site, TOY.replace("if n", "while n - 9"))["fate"] == "killed"  # by its time limit
    fates = {key(row)[1:]: row["fate"] for row in rows}
    assert fates["return n < LIMIT", "return None"] == "killed"
    assert fates["return n < LIMIT", "return n <= LIMIT"] == "survived"
    assert fates[known[1:]] == "equivalent"
    assert "- return n < LIMIT\n+ return n <= LIMIT\n" in table(rows)
    killed = sum(fate == "killed" for fate in fates.values())
    assert f"{killed} of {len(fates) - 1} killed ({killed / (len(fates) - 1):.0%}), 1 equivalent" in table(rows)
    assert (toy / "toy" / "room" / "few.py").read_text() == TOY


def changes(text):
    source = Source("a.py", text)
    return {source.change(site) for site in source.sites if source.mutated(site)}


def test_what_is_changed_and_what_is_not():
    assert changes('def f(x: int = 1) -> "a":\n    """x < 1"""\n    g(f"{x + 1}", "two words")\n') == {
        ('def f(x: int = 1) -> "a":', 'def f(x: int = 2) -> "a":'),
        ('g(f"{x + 1}", "two words")', "pass"),
        ('g(f"{x + 1}", "two words")', 'g("two words", f"{x + 1}")'),
    }
    assert changes("if TYPE_CHECKING:\n    a = 1\nif x.is_cuda:\n    a = 2\nelse:\n    σ = b.c - 3") == {
        ("if TYPE_CHECKING:", "if not (TYPE_CHECKING):"),
        ("if x.is_cuda:", "if not (x.is_cuda):"),
        ("σ = b.c - 3", "σ = b.c + 3"),
        ("σ = b.c - 3", "σ = b.c - 4"),
    }
    assert changes("__all__ = ['a']\n@d(frozen=True)\nclass A:\n    b: int = not c") == {
        ("b: int = not c", "b: int = (c)")
    }


def test_a_draw_follows_from_its_seed_and_a_changed_line_leaves_the_others():
    lines = [f"a{k} = {k} + b" for k in range(40)]

    def drawn(lines, seed, count=10):
        source = Source("a.py", "\n".join(lines))
        return [source.change(site) for _, site, _ in draw([source], count, seed)]

    first = drawn(lines, "9f12e6b")
    assert len(first) == 10 and first == drawn(lines, "9f12e6b") != drawn(lines, "other")
    others = [line for line in lines if line != first[0][0]]
    left = [change for change in first if change in set(drawn(others, "9f12e6b"))]
    assert left == [change for change in first if change[0] != first[0][0]]


def test_every_mistake_that_is_listed_as_without_effect_has_a_reason():
    assert all(row["reason"].strip() and was != now for (_, was, now), row in listed().items())
