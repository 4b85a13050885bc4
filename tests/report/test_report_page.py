"""The whole page, from run directories to HTML."""

import json
import re
from html.parser import HTMLParser

import pytest
from report_samples import overlapped_spans, write_spans

from paceline.errors import DataError
from paceline.report.decided import links, participants
from paceline.report.looks import look
from paceline.report.page import write_report
from paceline.report.runs import load_run
from paceline.report.text import number, percent, seconds, size, spread

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


def data_of(path):
    """The data that the page's script draws."""
    return json.loads(
        re.search(r'<script type="application/json" id="page-data">(.*?)</script>', path.read_text())[1]
    )


def plain_look(name):
    return json.loads(json.dumps(look(name).__dict__))


def row(text, label):
    """The cells of the first row of the comparison that begins with this label."""
    found = re.search(rf'<tr><th scope="row">{re.escape(label)}</th>(.*?)</tr>', text)
    return re.findall(r"<td[^>]*>(.*?)</td>", found.group(1))


def test_a_comparison_of_seeds_and_algorithms(write_run, tmp_path):
    runs = [write_run(name, seed) for name in ("fedavg", "psfl") for seed in (0, 1, 2)]
    out = write_report(runs, tmp_path / "deep" / "report.html", "Two ways")
    page = parsed(out)
    text = out.read_text()
    assert "6 runs, 2 algorithms, seeds 0, 1, 2; data: digits" in text
    data = data_of(out)
    assert [one["label"] for one in data["timelines"]] == ["fedavg", "psfl"]
    assert [one["look"] for one in data["groups"]] == [plain_look(name) for name in ("fedavg", "psfl")]
    assert list(data["measures"]) == ["accuracy", "loss"]
    assert list(data["measures"]["accuracy"]["over"]) == ["time", "round", "bytes"], "nobody gave watts"
    assert data["measures"]["accuracy"]["target"] == 0.8
    assert row(text, "psfl")[0] == "3"
    assert "idle share is 31.0 %" in text
    assert "Two ways" in page.words


def test_the_page_needs_no_network(write_run, tmp_path):
    page = parsed(write_report([write_run()], tmp_path / "report.html"))
    assert not {"link", "img", "iframe"} & {tag for tag, _ in page.tags}
    assert not any("src" in attrs for _, attrs in page.tags)
    assert [attrs["href"] for _, attrs in page.tags if "href" in attrs] == ["#result"]
    policy = next(attrs["content"] for tag, attrs in page.tags if tag == "meta" and "http-equiv" in attrs)
    assert policy.startswith("default-src 'none';")


def test_text_of_users_is_escaped(write_run, tmp_path):
    nasty = "<script>alert('1')</script>"
    out = write_report([write_run(nasty, dataset=nasty)], tmp_path / "report.html", title=nasty)
    page = parsed(out)
    assert [tag for tag, _ in page.tags].count("script") == 3  # the data, the library, and our own
    assert "&lt;script&gt;alert" in out.read_text()
    assert data_of(out)["groups"][0]["label"] == nasty


def test_without_spans_there_are_curves_but_no_gantt(write_run, tmp_path):
    text = write_report([write_run(spans=False)], tmp_path / "report.html").read_text()
    assert "These runs kept no spans." in text
    assert 'id="timeline-box"' not in text
    assert 'id="curve-chart"' in text


def test_a_target_not_reached_is_said_and_the_best_is_marked_where_intervals_say_so(write_run, tmp_path):
    slow, quick = [write_run("fedavg", seed, rounds=2) for seed in (0, 1)], [write_run("psfl", 0, rounds=40)]
    text = write_report([*slow, *quick], tmp_path / "report.html").read_text()
    assert "not reached" in row(text, "fedavg")
    assert "not reached" not in row(text, "psfl")
    assert 'class="best"' not in text, "one seed has no interval"
    quick.append(write_run("psfl", 1, rounds=40))
    text = write_report([*slow, *quick], tmp_path / "report.html").read_text()
    assert re.search(r'<tr><th scope="row">psfl</th>.*?<td class="best">', text)
    assert "its 95 % interval does not overlap" in text


def test_intervals_that_overlap_have_no_winner(write_run, tmp_path):
    runs = [write_run(name, seed, rounds=40) for name in ("sfl", "sgl") for seed in (0, 1, 2)]
    text = write_report(runs, tmp_path / "report.html").read_text()
    times = [data_of(tmp_path / "report.html")["measures"]["accuracy"]["over"]["time"][k]["touch"] for k in (0, 1)]
    assert abs(times[0]["x"] - times[1]["x"]) < times[0]["half"] + times[1]["half"]
    assert 'class="best"' not in text


@pytest.mark.parametrize("axis", ["time", "round", "bytes"])
def test_every_curve_ends_in_the_figure_of_the_table(write_run, tmp_path, axis):
    """On the data of the page: the point at the target is the cell, and the last point is that of the last seed."""
    runs = [write_run(name, seed, rounds=60) for name in ("fedavg", "psfl") for seed in range(4)]
    for path in runs:  # a run stops where it meets its target
        summary = json.loads((path / "summary.json").read_text())
        lines = (path / "metrics.jsonl").read_text().splitlines()[: summary["target"]["rounds"] + 1]
        (path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
        (path / "summary.json").write_text(json.dumps(summary | {"accuracy": json.loads(lines[-1])["accuracy"]}))
    out = write_report(runs, tmp_path / "report.html")
    data, place = data_of(out)["measures"]["accuracy"]["over"][axis], ["time", "bytes", "round"].index(axis)
    form = {"time": seconds, "round": number, "bytes": size}[axis]
    for name, line in zip(("fedavg", "psfl"), data, strict=True):
        cells = row(out.read_text(), name)
        touch = line["touch"]
        assert cells[1 + place] == spread(touch["x"], touch["half"], form)
        end = max(end["x"] for end in line["ends"])
        last = [one["y"] for one in line["ends"] if one["x"] == end]
        assert (line["x"][-1], line["y"][-1]) == (end, pytest.approx(sum(last) / len(last)))
        assert touch["x"] == pytest.approx(sum(end["x"] for end in line["ends"]) / 4)
        mean = sum(end["y"] for end in line["ends"]) / 4
        assert cells[-1].startswith(percent(mean).removesuffix(" %"))


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
    out = write_report([write_run()], tmp_path / "report.html", window=(10.0, 20.0))
    assert "virtual time 10 to 20 s" in out.read_text()
    (packed,) = data_of(out)["timelines"]
    assert (packed["begin"], packed["end"], packed["whole"]) == (10.0, 20.0, False)
    empty = write_report([write_run(seed=1)], tmp_path / "empty.html", window=(1e6, 2e6)).read_text()
    assert "no spans in this time" in empty


def test_overlap_is_seen_in_one_table(write_run, tmp_path):
    paths = [write_run("fedavg", 0), write_run("spfl", 0)]
    for path, overlap in zip(paths, (False, True), strict=True):
        write_spans(path / "spans.parquet", overlapped_spans(overlap))
    out = write_report(paths, tmp_path / "report.html")
    parsed(out)
    text = out.read_text()
    assert "<td>fedavg</td><td>40.0 %</td><td>60.0 %</td>" in text
    assert "<td>spfl</td><td>57.1 %</td><td>42.9 %</td>" in text
    assert text.count("2 devices together") == 2


def test_the_first_table_says_what_decided_it(write_run, tmp_path):
    one, other = write_run("fedavg", 0, rounds=40), write_run("psfl", 0, rounds=3)
    settings = json.loads((one / "settings.json").read_text())
    settings |= {"clients": 100, "options": {"participants": 20}, "model": "auto"}
    settings["fleet"] |= {"links": "uniform:1,5", "latency": 0.1, "availability": "markov:10,20"}
    (one / "settings.json").write_text(json.dumps(settings))
    summary = json.loads((one / "summary.json").read_text())
    (one / "summary.json").write_text(
        json.dumps(summary | {"model": "mlp:64", "parameters": 4810, "absence": "wait"})
    )
    text = write_report([one, other], tmp_path / "report.html").read_text()
    for fact in (
        "20 of 100 clients a round",
        "uniform:1,5, latency 0.1 s",
        "markov:10,20; who is away is waited for",
        "mlp:64 (4,810 parameters)",
        "met the target (accuracy 0.8)",
        "made all 3 rounds without meeting the target",
        "nobody is ever away",
    ):
        assert fact in text, fact


def test_the_exact_command_and_the_spread_of_the_data_are_shown(write_run, tmp_path):
    path = write_run()
    (path / "command.txt").write_text("paceline run fedavg --set 'x=<b>'\n")
    (path / "partition.json").write_text(json.dumps({"samples": [30, 10], "labels": [[30, 0], [5, 5]]}))
    out = write_report([path], tmp_path / "report.html")
    assert "<code>paceline run fedavg --set &#x27;x=&lt;b&gt;&#x27;</code>" in out.read_text()
    (chart,) = data_of(out)["bars"]
    assert chart["places"] == ["0", "1"]
    assert [stack["values"] for stack in chart["stacks"]] == [[30, 5], [0, 5]]
    assert "2 clients have 10 to 30 samples" in chart["text"]
    (path / "partition.json").write_text('{"samples": [1, "many"]}')
    text = write_report([path], tmp_path / "report.html").read_text()
    assert "Not shown: " in text and "partition.json must hold samples" in text


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
    assert "Learning and its cost" in page and "Command and settings" in page


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "all 100 clients"),
        ({"participants": 100}, "all 100 clients"),
        ({"participants": 20, "width": None, "length": 1}, "20 of 100 clients a round"),
        ({"participants": 20, "width": None, "length": None}, "up to 20 of 100 clients a round"),
        ({"participants": 20, "width": 3, "length": 4}, "3 sequences of 4 clients a round, 100 in all"),
        ({"concurrency": 20}, "20 of 100 clients at a time"),
        ({"participants": 4, "servers": 9}, "4 clients of each server at a time, 100 in all"),
        ({"participants": 4, "topology": "ring:9"}, "4 clients of each server at a time, 100 in all"),
        ({"participants": None, "servers": 9}, "all 100 clients"),
    ],
)
def test_who_takes_part_is_said_as_the_algorithm_means_it(write_run, options, said):
    path = write_run()
    settings = json.loads((path / "settings.json").read_text()) | {"clients": 100, "options": options}
    (path / "settings.json").write_text(json.dumps(settings))
    assert participants(load_run(path)) == said


def test_a_dry_run_is_called_one(write_run, tmp_path):
    learned, dry = write_run(), write_run("psfl", target=None)
    rows = [json.loads(line) for line in (dry / "metrics.jsonl").read_text().splitlines()]
    rows = [row | {"accuracy": None, "loss": None} for row in rows]
    (dry / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = "a dry run: schedule and costs, nothing was learned"
    page = write_report([dry], tmp_path / "dry.html").read_text()
    assert said in page
    assert page.index("Who waits for whom") < page.index("What it costs"), "the schedule is the answer"
    assert said not in write_report([learned, dry], tmp_path / "both.html").read_text()


@pytest.mark.parametrize(
    ("fleet", "said"),
    [
        ({"links": "free"}, "free: transfers take no time"),
        ({"links": "rate:5,20", "latency": 0.1}, "5 Mbit/s up, 20 Mbit/s down, latency 0.1 s"),
        ({"links": "seconds:3,2.5"}, "3 s a transfer up, 2.5 s a transfer down"),
        ({"links": "trace:lte.csv,same", "sharing": "none"}, "trace:lte.csv,same"),
        ({"links": "rate:5,20", "server_mbps": 100, "sharing": "fair"},
         "5 Mbit/s up, 20 Mbit/s down, server 100 Mbit/s, shared (fair)"),
    ],
)  # fmt: skip
def test_links_are_said_in_words(write_run, fleet, said):
    path = write_run()
    settings = json.loads((path / "settings.json").read_text()) | {"fleet": fleet}
    (path / "settings.json").write_text(json.dumps(settings))
    assert links(load_run(path)) == said
