"""The whole page, from run directories to HTML."""

import json
import re
from html.parser import HTMLParser

import pytest
from report_samples import overlapped_spans, write_spans

from paceline.errors import DataError
from paceline.report.page import write_report

VOID = {"meta", "br", "link"}


class Balance(HTMLParser):
    """Fails on a tag that is closed out of turn; collects the text."""

    def __init__(self):
        super().__init__()
        self.open, self.words, self.tags = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def parsed(path):
    page = Balance()
    page.feed(path.read_text())
    assert page.open == []
    return page


def row(text, label):
    """The cells of the first table row that begins with this label."""
    found = re.search(rf"<tr><td>{re.escape(label)}</td>(.*?)</tr>", text)
    return re.findall(r"<td[^>]*>(.*?)</td>", found.group(1))


def test_a_comparison_of_seeds_and_algorithms(write_run, tmp_path):
    runs = [write_run(name, seed) for name in ("fedavg", "psfl") for seed in (0, 1, 2)]
    out = write_report(runs, tmp_path / "deep" / "report.html", "Two ways")
    page = parsed(out)
    text = out.read_text()
    assert "6 runs, 2 algorithms, seeds 0, 1, 2; data: digits" in text
    assert text.count('class="chart gantt"') == 2
    assert text.count('class="band c0"') == text.count('class="band c1"') == 3, "over time, traffic and rounds"
    assert "share of zeros" not in text
    assert row(text, "psfl")[0] == "3"
    assert "idle share is 31.0 %" in text
    assert "Two ways" in page.words


def test_the_page_needs_no_network(write_run, tmp_path):
    page = parsed(write_report([write_run()], tmp_path / "report.html"))
    assert not {"link", "img", "iframe"} & {tag for tag, _ in page.tags}
    assert not any({"src", "href"} & attrs.keys() for _, attrs in page.tags)


def test_text_of_users_is_escaped(write_run, tmp_path):
    nasty = "<script>alert('1')</script>"
    out = write_report([write_run(nasty, dataset=nasty)], tmp_path / "report.html", title=nasty)
    page = parsed(out)
    assert [tag for tag, _ in page.tags].count("script") == 1  # our own
    assert "&lt;script&gt;alert" in out.read_text()


def test_without_spans_there_are_curves_but_no_gantt(write_run, tmp_path):
    text = write_report([write_run(spans=False)], tmp_path / "report.html").read_text()
    assert "These runs kept no spans." in text
    assert 'class="chart gantt"' not in text
    assert "line c0" in text


def test_a_target_not_reached_is_said_and_marked(write_run, tmp_path):
    runs = [write_run("fedavg", 0, rounds=2), write_run("psfl", 0, rounds=40, target=0.8)]
    text = write_report(runs, tmp_path / "report.html").read_text()
    assert "not reached" in row(text, "fedavg")
    assert "not reached" not in row(text, "psfl")
    assert text.count('class="target"') == 3
    assert re.search(r'<tr><td>psfl</td>.*?<td class="best">', text)


def test_a_target_that_some_seeds_reach_says_how_many(write_run, tmp_path):
    runs = [write_run("fedavg", seed, rounds=40) for seed in range(3)]
    summary = json.loads((runs[1] / "summary.json").read_text())
    summary["target"] |= {"time": None, "bytes": None, "rounds": None}
    (runs[1] / "summary.json").write_text(json.dumps(summary))
    cells = row(write_report(runs, tmp_path / "report.html").read_text(), "fedavg")
    assert sum("(2 of 3)" in cell for cell in cells) == 3


def test_an_unfinished_run_says_so_and_no_target_leaves_no_columns(write_run, tmp_path):
    path = write_run(target=None)
    summary = json.loads((path / "summary.json").read_text()) | {"status": "stopped"}
    (path / "summary.json").write_text(json.dumps(summary))
    text = write_report([path], tmp_path / "report.html").read_text()
    assert "fedavg [stopped]" in text
    assert "to target" not in text


def test_a_window_can_be_asked_for(write_run, tmp_path):
    text = write_report([write_run()], tmp_path / "report.html", window=(10.0, 20.0)).read_text()
    assert "virtual time 10 to 20 s" in text
    empty = write_report([write_run(seed=1)], tmp_path / "empty.html", window=(1e6, 2e6)).read_text()
    assert "no spans in this time" in empty


def test_overlap_is_seen_in_one_time_and_one_table(write_run, tmp_path):
    paths = [write_run("fedavg", 0), write_run("spfl", 0)]
    for path, overlap in zip(paths, (False, True), strict=True):
        write_spans(path / "spans.parquet", overlapped_spans(overlap))
        summary = json.loads((path / "summary.json").read_text()) | {"time": 28.0 if overlap else 40.0}
        (path / "summary.json").write_text(json.dumps(summary))
    out = write_report(paths, tmp_path / "report.html")
    parsed(out)
    text = out.read_text()
    assert text.count("virtual time 0 to 40 s") == 2
    assert text.count("the run ends at 28 s") == 1
    assert "All charts show the same stretch of virtual time." in text
    assert "<td>fedavg</td><td>40.0 %</td><td>60.0 %</td>" in text
    assert "<td>spfl</td><td>57.1 %</td><td>42.9 %</td>" in text
    assert text.count("2 devices together") == 2


def test_empty_spans_have_no_chart_and_no_shares(write_run, tmp_path):
    path = write_run()
    write_spans(path / "spans.parquet", [])
    out = write_report([path], tmp_path / "report.html")
    parsed(out)
    assert "no spans in this time" in out.read_text()
    assert "Who works" not in out.read_text()


def test_the_same_directory_twice_counts_once_and_none_is_an_error(write_run, tmp_path):
    path = write_run()
    assert "1 run, 1 algorithm, seed 0" in write_report([path, path], tmp_path / "report.html").read_text()
    with pytest.raises(DataError, match="no run to report on"):
        write_report([], tmp_path / "report.html")


def test_a_damaged_spans_file_is_named_and_all_the_rest_is_there(write_run, tmp_path):
    path = write_run()
    (path / "spans.parquet").write_bytes(b"PAR1 but nothing else PAR1")
    page = write_report([path], tmp_path / "report.html").read_text()
    assert "Spans cannot be shown: " in page and "spans.parquet is damaged or no Parquet file" in page
    assert "Accuracy over virtual time" in page and "Settings" in page
