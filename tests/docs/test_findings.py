"""The page for the authors of the papers: each command on it exists, and what is quick does run."""

import ast
import re
import shlex
import warnings

import pytest

from paceline.papers.registry import REPRODUCTIONS
from tests.documents import ROOT

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # typer's own; a user never sees them
    from paceline.cli.main import main

PAGE, _, TIMES = (ROOT / "docs/findings.md").read_text().partition("## How long it takes")
TIMES, _, LAST = TIMES.partition("## Last runs")
SPANS = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", PAGE)]
PLACEHOLDERS = {"paceline reproduce", "paceline reproduce ID", "pytest FILE -k WORDS"}
REPRODUCED = [
    words
    for span in SPANS
    if span not in PLACEHOLDERS and (words := shlex.split(span.removeprefix("paceline reproduce ")))
    if span.startswith("paceline reproduce ") or words[0] in REPRODUCTIONS
]
TESTED = [span for span in SPANS if span.startswith("pytest ") and span not in PLACEHOLDERS]
PLANNED = [span for span in SPANS if span.startswith("paceline plan ") and "--design" not in span]
"""Designs, which take seconds, are compared with all overlays in ``tests/plans/test_overlay_design.py``."""


@pytest.mark.parametrize("words", REPRODUCED, ids=" ".join)
def test_what_is_to_be_computed_anew_is_listed_at_that_scale(words):
    entry = REPRODUCTIONS[words[0]]
    options = dict(zip(words[1::2], words[2::2], strict=True))
    assert set(options) <= {"--scale", "--data", "--seeds"}
    assert options.get("--scale", "theory") in (*entry.scales, "theory")
    assert "--scale" in options or not entry.trained, "the page says that it needs no training"


@pytest.mark.parametrize("command", TESTED)
def test_a_test_that_holds_an_argument_is_there(command):
    _, path, *rest = shlex.split(command)
    names = [one.name for one in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(one, ast.FunctionDef)]
    wanted = rest[1].split(" or ") if rest else ["test_"]
    for words in wanted:
        assert [name for name in names if name.startswith("test_") and words in name], words


@pytest.mark.parametrize("command", PLANNED)
def test_a_plan_can_be_made(command, capsys):
    with pytest.raises(SystemExit) as ending:
        main(shlex.split(command)[1:])
    assert not ending.value.code, capsys.readouterr().err


def test_the_table_of_times_has_every_reproduction():
    rows = [line.split("|")[2:4] for line in TIMES.splitlines() if re.match(r"\| .*`\w+-", line)]
    columns = ([], [])
    for cells in rows:
        for column, cell in zip(columns, cells, strict=True):
            names = re.findall(r"`([\w-]+)` \d+", cell)
            prefix = names[0].partition("-")[0]
            column.extend(name if not name.startswith("-") else prefix + name for name in names)
    entries = REPRODUCTIONS.values()
    assert sorted(columns[0]) == sorted(one.id for one in entries if not one.trained)
    assert sorted(columns[1]) == sorted(one.id for one in entries if one.scales)


def test_every_table_of_the_four_papers_has_a_row():
    """Whatever is listed as computed anew is judged on the page."""
    judged = {words[0] for words in REPRODUCED}
    papers = {id for id, entry in REPRODUCTIONS.items() if entry.shows}
    assert papers - judged <= {"psfl-fig2", "psfl-fig7", "pfedavg-fig3"}, "drawn or told by others"


def test_the_page_says_when_the_papers_own_scale_was_last_run():
    told = dict(re.findall(r"^\| `([\w-]+)` \| (\d{4}-\d\d-\d\d [0-9a-f]{7}) \|", LAST, flags=re.MULTILINE))
    assert told == {one.id: one.last for one in REPRODUCTIONS.values() if one.last not in ("", "never")}
    assert all(bool(one.last) == ("paper" in one.scales) for one in REPRODUCTIONS.values())
