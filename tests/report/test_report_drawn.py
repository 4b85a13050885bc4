"""The topology, and what was spent on what."""

import json
import math
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from report_samples import NO_SITE, federated_spans, write_spans

from paceline.report import spending, topology
from paceline.report.runs import load_run


@pytest.fixture
def run_with(write_run):
    def make(rows, notes=(), **settings):
        path = write_run(spans=False, **settings)
        write_spans(path / "spans.parquet", rows)
        summary = json.loads((path / "summary.json").read_text()) | {"notes": list(notes)}
        (path / "summary.json").write_text(json.dumps(summary))
        return load_run(path)

    return make


def send(site, peer, size):
    return [
        (site, "send", 0, 0.0, 1.0, 0, size, 0.0, 0.5, peer),
        (peer, "receive", 0, 0.0, 1.0, 0, size, 0.0, 0.0, site),
    ]


def test_links_carry_both_directions(run_with):
    run = run_with([*send(-1, 0, 5.0), *send(0, -1, 7.0), *send(-2, -1, 1.0)])
    assert topology.read_links(run.spans) == {(-1, 0): 12.0, (-2, -1): 1.0}


def test_what_failed_is_drawn_so(run_with):
    rows = [*send(-1, 0, 5.0), *send(-2, 1, 5.0), *send(-1, -2, 9.0)]
    notes = [
        {"time": 3.0, "kind": "failure", "name": "server 2", "text": "", "sites": [-2]},
        {"time": 4.0, "kind": "failure", "name": "link 1–2", "text": "", "sites": [-1, -2]},
    ]
    run = run_with(rows, notes)
    root = ET.fromstring(topology.section([("a", run)]).split("</figcaption>")[1].split("<p")[0])
    classes = [node.get("class") for node in root.iter()]
    assert classes.count("edge failed") == 1
    assert classes.count("edge") == 2
    assert classes.count("node server failed") == 1
    widths = {node.find("title").text: float(node.get("stroke-width")) for node in root.iter("line")}
    assert widths["server 2 and server 1: 9 B, has failed"] == 5.0 > widths["server 1 and client 0: 5 B"]
    assert "server 2 (failed)" in [node.text for node in root.iter("text")]


def test_many_devices_are_drawn_together(run_with):
    rows = [row for k in range(300) for row in send(-1 - k % 3, k, 10.0)]
    picture = topology.arranged(topology.read_links(run_with(rows).spans))
    assert len(picture.nodes) == 6
    assert sum(name == "100 devices" for name in picture.names.values()) == 3
    assert picture.links[(-1, 1_000_001)] == 1000.0
    assert "Devices are drawn together" in picture.note


def test_of_very_many_links_those_with_most_traffic_are_drawn_and_what_failed():
    links = {(a, b): float(100 * a + b) for a in range(70) for b in range(a + 1, 70)}
    picture = topology.arranged(links)
    thin = topology.thinned(picture, {(0, 1)})
    assert len(links) == 2415 and len(thin.links) == topology.MOST_LINKS
    least = sorted(links.values())[len(links) - topology.MOST_LINKS + 1]
    assert set(thin.links) == {(0, 1), *(pair for pair, amount in links.items() if amount >= least)}
    assert "2,415 links" in thin.note and "Drawn are the 2,000 links with most traffic" in thin.note
    assert topology.thinned(thin, set()) == thin


def test_a_server_that_only_joins_the_others_stands_in_their_middle():
    spokes = {(-4, -1): 1.0, (-4, -2): 1.0, (-4, -3): 1.0, (-1, 0): 1.0, (-2, 1): 1.0, (-3, 2): 1.0}
    nodes = topology.arranged(spokes).nodes
    assert nodes[-4] == (topology.MIDDLE, topology.MIDDLE)
    assert len({round(math.dist(nodes[server], nodes[-4])) for server in (-1, -2, -3)}) == 1
    ring = topology.arranged(spokes | {(-4, 3): 1.0}).nodes
    assert ring[-4] != (topology.MIDDLE, topology.MIDDLE), "it has a device of its own, as the others have"


def test_all_lie_inside_of_the_paper(run_with):
    picture = topology.arranged(topology.read_links(run_with(federated_spans(50, 2, 0)).spans))
    assert len(picture.nodes) == 51
    assert all(0 < x < topology.SIZE and 0 < y < topology.SIZE for x, y in picture.nodes.values())


def test_operations_and_energy_are_summed_by_what_they_were_for(run_with):
    rows = [
        (0, "train", 0, 0.0, 1.0, 0, 0.0, 3e9, 12.0, NO_SITE),
        (1, "train", 0, 0.0, 1.0, 0, 0.0, 1e9, 2.0, NO_SITE),
        *send(0, -1, 5.0),
        (-1, "work", 0, 1.0, 2.0, 0, 0.0, 2e6, float("nan"), NO_SITE),
    ]
    run = run_with(rows)
    assert spending.read_sums(run.spans)["train"] == (4e9, 14.0)
    text = spending.section([("a", run)])
    assert "<td>4 GFLOP</td><td>2 MFLOP</td><td>14 J</td><td>0.5 J</td><td>–</td>" in text
    assert "never taken as 0" in text
    idle = [(0, "train", 0, 0.0, 1.0, 0, 0.0, 3e9, 12.0, NO_SITE)]
    run = run_with(idle, seed=2)
    text = spending.section([("a", run)])
    assert "<td>12 J</td><td>–</td><td>–</td>" in text, "no watts were given, whatever took no time"
    text = spending.section([("a", replace(run, settings={"fleet.link_watts": "0", "fleet.server_watts": "5.0"}))])
    assert "<td>12 J</td><td>0 J</td><td>0 J</td>" in text
    assert spending.section([("a", run_with(send(0, -1, 5.0), seed=1))]) == ""
