"""``paceline reproduce`` as a user types it, and the shape of what it prints."""

import json
import subprocess
import sys
import warnings

import pytest

from paceline.errors import SettingError
from paceline.papers.entries import DADPFL, MISSING, NOIDLE, PFEDAVG, PSFL
from paceline.papers.registry import REPRODUCTIONS, Entry, reproduce
from paceline.papers.result import Reproduction, Request, Row, claimed, compared

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # typer's own; a user never sees them
    from paceline.cli.main import main

ROW = ["name", "paper", "ours", "unit", "ok", "note", "reference", "slip"]


@pytest.fixture
def said(capsys, monkeypatch, tmp_path):
    """Type words after ``paceline reproduce`` in an empty directory; gives status, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")

    def say(*words):
        try:
            main(["reproduce", *map(str, words)])
            status = 0
        except SystemExit as ending:
            status = ending.code or 0
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return say


def from_test(request: Request) -> Reproduction:
    """A reproduction that says how it was asked."""
    rows = [
        Row("scale", None, request.scale),
        Row("seeds", None, float(request.seeds)),
        Row("nan", 1.0, float("nan")),
    ]
    return Reproduction(rows=rows, note=f"quiet: {request.quiet}")


@pytest.fixture
def toy(monkeypatch):
    entry = Entry("toy-fig1", "a toy", "nobody", f"{__name__}:from_test", ("small", "paper"))
    monkeypatch.setitem(REPRODUCTIONS, entry.id, entry)


# -- rows -----------------------------------------------------------------------------------------------------------


def test_tolerance():
    assert compared("a", 0.30, 0.31, within=0.01).ok is True
    assert compared("a", 0.30, 0.32, within=0.01).ok is False
    assert compared("a", 0.30, float("nan"), within=10).ok is False
    assert compared("a", 4, 4, within=0) == Row("a", 4.0, 4.0, "", True, "")
    assert claimed("b", "lower", "higher", False, "why") == Row("b", "lower", "higher", "", False, "why")


def test_every_entry_has_its_function():
    for id, entry in REPRODUCTIONS.items():
        assert id == entry.id
        assert callable(entry.load())


FIGURES = {PSFL: range(1, 10), NOIDLE: range(1, 6), PFEDAVG: range(1, 9), DADPFL: range(1, 10)}
TABLES = {PSFL: ["I"], NOIDLE: ["1", "2"], PFEDAVG: ["I", "II", "III", "IV", "V"], DADPFL: ["I", "II", "III"]}
"""Of the papers, by hand."""


@pytest.mark.parametrize("paper", FIGURES)
def test_every_table_and_figure_is_computed_anew_or_said_to_be_missing(paper):
    wanted = {f"Figure {n}" for n in FIGURES[paper]} | {f"Table {n}" for n in TABLES[paper]}
    shown = {one for entry in REPRODUCTIONS.values() if entry.paper == paper for one in entry.shows}
    missing = {one.what for one in MISSING if one.paper == paper}
    assert wanted <= shown | missing
    assert not shown & missing
    assert {one for one in shown if one.split()[0] in ("Figure", "Table")} <= wanted


UNTRAINED = [entry.id for entry in REPRODUCTIONS.values() if not entry.trained]


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("id", UNTRAINED)
def test_what_needs_no_training_is_there_in_three_minutes(id):
    found = reproduce(id, quiet=True)
    assert len(found.rows) >= 3
    assert len({row.name for row in found.rows}) == len(found.rows)
    assert any(row.ours is not None for row in found.rows)
    assert found.figure is None or found.figure() is not None


# -- the command ----------------------------------------------------------------------------------------------------


def test_without_an_id_all_are_listed(said):
    status, out, _ = said()
    assert status == 0
    entries, _, missing = out.partition("\n\n")
    assert [line.split()[0] for line in entries.splitlines()] == ["id", *REPRODUCTIONS]
    assert len(missing.splitlines()) == 1 + len(MISSING)
    assert all(one.what in missing and one.why in missing for one in MISSING)
    names = [entry["id"] for entry in json.loads(said("--json")[1])]
    assert names == list(REPRODUCTIONS)


def test_json_is_one_object(said):
    status, out, err = said("psfl-table1", "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert set(found) == {"id", "rows", "seconds", "title", "scale", "hardware", "note"}
    assert found["id"] == "psfl-table1"
    assert len(found["rows"]) == 17
    assert all(list(row) == ROW for row in found["rows"])
    assert {row["ok"] for row in found["rows"]} == {True, False, None}
    assert found["scale"] == "theory"
    assert found["seconds"] >= 0
    assert "core" in found["hardware"]


def test_the_table_for_people_has_every_row_and_note(said):
    """Some rows of Table I do not agree: that is a finding, not an error."""
    status, out, _ = said("psfl-table1")
    assert status == 0
    lines = out.splitlines()
    assert lines[1].split() == ["name", "paper", "ours", "unit", "ok"]
    slip = next(line for line in lines if line.startswith("N0=200: S"))
    assert slip.split()[3:] == ["16.95", "17.05", "slip", "[1]"]
    assert "(2, 5)        no [2]" in out
    assert "\n[1] PS-E2" in out
    assert out.index("The paper states neither") < out.index("\n[1] PS-E2"), "the whole comes before its footnotes"
    assert "fitted" in out


def test_out_holds_the_result_and_the_figure(said, tmp_path):
    out = tmp_path / "deep" / "fig7"
    status, shown, err = said("psfl-fig7", "--out", out, "--json")
    assert (status, err) == (0, "")
    assert json.loads((out / "result.json").read_text()) == json.loads(shown)
    svg = (out / "figure.svg").read_bytes()
    assert svg.startswith(b"<?xml")
    assert (out / "figure.png").read_bytes().startswith(b"\x89PNG")
    said("psfl-fig7", "--out", out)
    assert (out / "figure.svg").read_bytes() == svg, "the same figure has other bytes"


def test_without_a_figure_only_the_result_is_written(said, tmp_path):
    status, _, err = said("psfl-table1", "--out", tmp_path / "here")
    assert status == 0
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["result.json"]
    assert err == f"written: {tmp_path / 'here' / 'result.json'}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["psfl-tabel1"], "no reproduction is called 'psfl-tabel1'; did you mean 'psfl-table1'?"),
        (["zzz"], "no reproduction is called 'zzz'; known: dadpfl-"),
        (["psfl-fig6", "--scale", "paper"], "psfl-fig6 has only one size; leave out --scale"),
        (["toy-fig1", "--scale", "huge"], "scale is 'huge'; toy-fig1 has: small, paper"),
        (["psfl-fig6", "--data", "digits"], "psfl-fig6 has no choice of datasets; leave out --data"),
        (["psfl-fig1", "--seeds", "0"], "seeds is 0; it must be 1 to 10,000"),
    ],
)
def test_what_cannot_be_is_an_error(said, toy, words, message):
    status, out, err = said(*words)
    assert (status, out) == (1, "")
    assert message in err


def test_out_that_is_a_file_is_an_error_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    monkeypatch.setattr(Entry, "load", lambda entry: pytest.fail("the work was begun"))
    with pytest.raises(SettingError, match="cannot be made a directory"):
        reproduce("psfl-fig6", out=tmp_path / "file")


def test_the_first_scale_is_the_default_and_json_is_quiet(said, toy):
    found = json.loads(said("toy-fig1", "--json")[1])
    assert found["scale"] == "small"
    assert [row["ours"] for row in found["rows"]] == ["small", 5.0, None]
    assert found["note"] == "quiet: True"
    assert found["title"] == "nobody: a toy"
    found = json.loads(said("toy-fig1", "--scale", "paper", "--seeds", 2, "--json")[1])
    assert [row["ours"] for row in found["rows"]] == ["paper", 2.0, None]


@pytest.mark.parametrize("words", ["psfl-table1", "psfl-fig7", ""])
def test_the_closed_forms_do_not_wait_for_torch(words):
    code = (
        "import sys\nfrom paceline.cli.main import main\n"
        f"try:\n    main(['reproduce', *{words.split()!r}])\n"
        "except SystemExit as ending:\n    assert not ending.code\n"
        "assert 'torch' not in sys.modules, 'torch was imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
