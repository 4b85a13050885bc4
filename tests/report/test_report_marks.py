"""What failed and when, and several servers: lines, labels, names and rows."""

import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from report_samples import span, write_spans

from paceline.ledger.events import Event, Told
from paceline.report import marks
from paceline.report.charts import Series, line_chart
from paceline.report.gantt import describe, gantt
from paceline.report.marks import Mark, failures, of_groups, place
from paceline.report.overlap import details
from paceline.report.page import write_report
from paceline.report.parties import read_parties
from paceline.report.runs import group_runs, load_run
from paceline.report.spans import COLUMNS, Waiting, Window, read_window, read_windows
from paceline.report.tables import causes


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


def mark(time, label="server 5 fails"):
    return Mark(time=time, label=label, text=f"{label} at {time}")


def lines(svg):
    """Where the lines of failures are, and their labels."""
    groups = [node for node in ET.fromstring(svg).iter("g") if node.get("class") == "mark"]
    xs = [float(node.find("line[@class='fail']").get("x1")) for node in groups]
    return xs, [node.findtext("text") for node in groups]


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


def test_labels_that_would_meet_take_further_rows_and_then_none():
    wide = marks._CHARACTER * len("server 5 fails")
    placed = place([mark(t) for t in (0.0, 1.0, 2.0, 3.0, wide + 10)], lambda t: t, 1000.0)
    assert [one.row for one in placed] == [0, 1, 2, None, 0]
    (last,) = place([mark(990.0)], lambda t: t, 1000.0)
    assert last.before


# -- charts ---------------------------------------------------------------------------------------------------


def test_a_chart_has_a_line_at_the_moment_of_a_failure():
    one = Series(name="a", x=np.array([0.0, 100.0]), y=np.array([0.0, 1.0]))
    xs, labels = lines(line_chart([one], x_label="x", y_label="y", marks=[mark(50.0), mark(200.0)]))
    assert labels == ["server 5 fails"]  # the other lies outside
    path = next(node for node in ET.fromstring(line_chart([one], x_label="x", y_label="y")).iter("path"))
    left, right = (float(point.split()[0]) for point in path.get("d")[1:].split("L"))
    assert xs == [pytest.approx((left + right) / 2, abs=0.1)]


def window_of(rows, sites, begin=0.0, end=10.0):
    columns = {name: np.array(column) for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=True)}
    return Window(begin=begin, end=end, columns=columns, sites=sites, active=len(sites))


def test_a_gantt_chart_has_the_line_and_room_for_the_label_above_its_rows():
    window = window_of([span(0, "train", 0.0, 4.0)], (0,))
    failed, plain = gantt(window, failed=[mark(4.0), mark(11.0)]), gantt(window)
    (x,), labels = lines(failed)
    assert labels == ["server 5 fails"]

    def bar(svg):
        return next(node for node in ET.fromstring(svg).iter("rect") if node.get("class") == "bar train")

    assert x == pytest.approx(float(bar(failed).get("x")) + float(bar(failed).get("width")), abs=0.02)
    assert float(bar(failed).get("y")) == float(bar(plain).get("y")) + marks.ROW
    assert lines(plain) == ([], [])


def test_a_wait_is_as_high_as_its_row_and_lies_under_what_moves_meanwhile():
    rows = [span(-1, "receive", 1.0, 2.0, peer=k, lane=k) for k in range(3)] + [span(-1, "wait", 1.5, 9.0, peer=2)]
    root = ET.fromstring(gantt(window_of(rows, (-1,))))
    kinds = [node.get("class") for node in root.iter("rect") if (node.get("class") or "").startswith("bar")]
    assert kinds == ["bar wait", *["bar receive"] * 3]
    heights = {node.get("class"): float(node.get("height")) for node in root.iter("rect")}
    assert heights["bar wait"] == heights["lane"] > 2.5 * heights["bar receive"]


# -- the page -------------------------------------------------------------------------------------------------


def test_the_page_marks_the_chart_over_time_and_the_gantt_chart(noted, tmp_path):
    soon = [failed(5.0, "server 5", -5)]
    text = write_report([noted(soon)], tmp_path / "report.html").read_text()
    assert "Vertical lines: when a server or a link failed" in text
    # Once over time, not over traffic, and once in the Gantt chart, which begins at 0.
    assert text.count('class="mark"') == 2
    assert text.count('class="chart gantt"') == 1
    text = write_report([noted([], seed=1)], tmp_path / "other.html").read_text()
    assert "Vertical lines" not in text and 'class="mark"' not in text


def test_a_failure_later_than_the_first_rounds_has_a_chart_of_its_own(noted, tmp_path):
    path = noted([failed(50.0, "server 5", -5), failed(51.0, "server 6", -6)])
    text = write_report([path], tmp_path / "report.html").read_text()
    assert text.count('class="chart gantt"') == 2
    assert text.count("Seed 0, around the first failure, virtual time ") == 1
    assert text.count('class="mark"') == 4
    asked = write_report([path], tmp_path / "window.html", window=(0.0, 10.0)).read_text()
    assert asked.count('class="chart gantt"') == 1


# -- several servers ------------------------------------------------------------------------------------------


def several(servers=9, clients=2):
    """Servers that each send to their clients, the one before last twice as long; the last waits for the first."""
    rows = [span(k, "train", 1.0, 9.0) for k in range(clients)]
    rows += [span(-k, "send", 0.0, 2.0 if k == servers - 1 else 1.0, peer=k % clients) for k in range(1, servers + 1)]
    return [*rows, span(-servers, "wait", 1.0, 9.0, peer=-1)]


def test_servers_are_told_apart_by_their_numbers_also_the_first():
    rows = several()
    sites = (*(-k for k in range(1, 10)), 0, 1)
    svg = gantt(window_of(rows, sites))
    texts = [node.text for node in ET.fromstring(svg).iter("text")]
    assert [text for text in texts if text.startswith("server")] == [f"server {k}" for k in range(1, 10)]
    titles = [node.text for node in ET.fromstring(svg).iter("title")]
    assert any(title.startswith("server 9: wait for server 1\n") for title in titles)
    alone = dict(zip(COLUMNS, span(0, "send", 0.0, 1.0, peer=-1), strict=True))
    assert describe(alone).startswith("client 0: send to server\n")
    assert describe(alone, several=True).startswith("client 0: send to server 1\n")


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


def test_the_servers_of_one_run_are_no_rows_of_another(tmp_path):
    paths = [tmp_path / name for name in ("many.parquet", "one.parquet")]
    write_spans(paths[0], several())
    write_spans(paths[1], several(servers=1))
    many, one = read_windows(paths)
    assert many.sites == (*(-k for k in range(1, 10)), 0, 1)
    assert one.sites == (-1, 0, 1)
    assert many.several and not one.several


def test_servers_leave_half_of_the_rows_to_devices(tmp_path):
    path = tmp_path / "spans.parquet"
    write_spans(path, several(servers=50, clients=60))
    window = read_window(path, most=20)
    assert sum(site < 0 for site in window.sites) == 10
    assert -49 in window.sites  # the busiest
    write_spans(path, several(servers=50, clients=4))
    assert sum(site < 0 for site in read_window(path, most=20).sites) == 16


def test_many_servers_have_lower_rows_than_two():
    rows = [span(-s, "send", 0.0, 1.0, lane=lane) for s in range(1, 10) for lane in range(8)]

    def height(sites):
        kept = [row for row in rows if row[0] in sites]
        lanes = [n for n in ET.fromstring(gantt(window_of(kept, sites))).iter("rect") if n.get("class") == "lane"]
        return float(lanes[0].get("height"))

    assert height((-1, -2)) > 1.5 * height(tuple(-k for k in range(1, 10)))
