"""What failed and when, and several servers: lines, labels, names and rows."""

import json

import pytest
from report_samples import span, write_spans

from paceline.ledger.events import Event, Told
from paceline.report.marks import failures, of_groups
from paceline.report.overlap import details
from paceline.report.parties import read_parties
from paceline.report.runs import group_runs, load_run
from paceline.report.spans import Waiting
from paceline.report.timelines import causes


def failed(time, name, *sites):
    """As the summary has it."""
    text = f"{name} has failed; new weights from round 10"
    return Told(time, Event(kind="failure", text=text, name=name, sites=sites)).plain()


NOTES = [
    failed(60.0, "server 5", -5),
    failed(30.0, "link 1–12", -1, -12),
    Told(5.0, Event(text="4 sequences abreast, since server 3 has failed")).plain(),
    Told(70.0, Event(kind="end", text="every client has left for good")).plain(),
    failed(None, "server 9", -9),
]
LABELS = ["link 1–12 fails", "server 5 fails"]


@pytest.fixture
def noted(write_run):
    """A function that writes a run with these notes."""

    def write(notes, *words, **settings):
        path = write_run(*words, **settings)
        summary = json.loads((path / "summary.json").read_text()) | {"notes": notes}
        (path / "summary.json").write_text(json.dumps(summary))
        return path

    return write


# -- which and where ------------------------------------------------------------------------------------------


def test_only_notes_of_failures_are_marked_in_the_order_of_time(noted):
    found = failures(load_run(noted(NOTES)))
    assert [(one.time, one.label) for one in found] == list(zip((30.0, 60.0), LABELS, strict=True))
    assert found[1].text == "server 5 has failed at 60 s"


def test_of_several_seeds_the_first_speaks_and_equals_count_once(noted):
    other = [failed(40.0, "server 2", -2)]
    paths = [noted(NOTES, "p-fedavg", 0), noted(other, "p-fedavg", 1), noted(NOTES + other, "hierfavg", 0)]
    found = of_groups(group_runs([load_run(path) for path in paths]))
    assert [one.time for one in found] == [30.0, 40.0, 60.0]


# -- several servers ------------------------------------------------------------------------------------------


def several(servers=9, clients=2):
    """Servers that each send to their clients, the one before last twice as long; the last waits for the first."""
    rows = [span(k, "train", 1.0, 9.0) for k in range(clients)]
    rows += [span(-k, "send", 0.0, 2.0 if k == servers - 1 else 1.0, peer=k % clients) for k in range(1, servers + 1)]
    return [*rows, span(-servers, "wait", 1.0, 9.0, peer=-1)]


def test_tables_name_several_servers(tmp_path):
    path = tmp_path / "spans.parquet"
    write_spans(path, several())
    parties = read_parties(path)
    assert parties.several
    text = details(parties)
    assert "9 servers: transfers" in text
    assert "9 servers: work" not in text  # none did any
    assert "busiest server: server 8" in text
    waiting = Waiting(total=8.0, causes=((-1, 8.0),))
    assert "<td>server 1</td>" in causes(waiting, several=True)
    assert "<td>server</td>" in causes(waiting)
    write_spans(path, [span(-1, "work", 0.0, 1.0), span(0, "train", 1.0, 2.0)])
    assert "busiest server" not in details(read_parties(path))
