"""Reading what a command prints and what a run leaves behind."""

import json

import pyarrow.parquet as pq
import pytest


def answer(done):
    """The JSON object that a command has printed, after its success."""
    assert done.status == 0, done.err
    return json.loads(done.out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


def metrics(directory):
    """Every row of a run's metrics; a line that is cut short is an error."""
    return [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]


def summary(directory):
    return json.loads((directory / "summary.json").read_text())


def settings(directory):
    return json.loads((directory / "settings.json").read_text())


def spans(directory):
    """The spans as a list of dictionaries."""
    return pq.read_table(directory / "spans").to_pylist()


def column(rows, name):
    return [row[name] for row in rows]


def complaint(err):
    """What a command says after the lines that tell what it was about to do."""
    lines = err.splitlines(keepends=True)
    while lines and lines[0].startswith(("starting ", "loading ", "preparing ")):
        lines.pop(0)
    return "".join(lines)
