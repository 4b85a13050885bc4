"""``paceline choose``: what it prints of a table that was computed before, and what it refuses."""

import json

import pytest

TABLE = {
    "seeds": 3,
    "minutes": 1.5,
    "hardware": "a machine",
    "outcomes": [
        {
            "cell": {"spread": "equal", "server": "free", "links": "free", "split": "IID"},
            "entries": [
                {"method": "fedavg", "rate": 0.1, "seconds": {"0": 10, "1": 11, "2": 12}, "tried": 3, "visits": 9},
                {"method": "apfl", "rate": 0.1, "seconds": {"0": 5.0, "1": 5.4, "2": 6.1}, "tried": 3, "visits": 9},
            ],
        }
    ],
}  # fmt: skip


@pytest.fixture
def file(tmp_path):
    (tmp_path / "table.json").write_text(json.dumps(TABLE))
    return "table.json"


def test_a_table_is_printed_in_three_ways(paceline, file):
    shown = paceline("choose", "--read", file)
    assert (shown.status, shown.err) == (0, "")
    assert "apfl ×0.50" in shown.out and "3 seeds, 1.5 minutes of computing on a machine" in shown.out
    told = json.loads(paceline("choose", "--read", file, "--json").out)
    assert told["outcomes"][0]["entries"][1]["seconds"] == {"0": 5.0, "1": 5.4, "2": 6.1}
    assert paceline("choose", "--read", file, "--markdown").out.startswith("# Which method when")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--seeds", "0"), "--seeds is 0"),
        (("--only", "busy"), "no federation is called 'busy'"),
        (("--out", "table.json"), "cannot be made a directory"),
        (("--read", "other.json"), "this is no table of `paceline choose --json`"),
    ],
)
def test_what_cannot_be_is_refused(paceline, file, tmp_path, words, complaint):
    (tmp_path / "other.json").write_text("{}")
    done = paceline("choose", *words)
    assert (done.status, done.out) == (1, "")
    assert complaint in done.err
