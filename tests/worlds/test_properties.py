"""Properties of every schedule: spans of one track never overlap, and what is sent is received."""

from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.algorithms.registry import ALGORITHMS
from paceline.errors import Fruitless, SiteError
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.settings import make_settings

times = st.sampled_from(["discrete", "uniform", "exponential", "gaussian", "constant:2", "lognormal:2,1"])
links = st.sampled_from(["free", "rate:1,5", "rate:uniform,0.1,3/exponential,2"])
availability = st.sampled_from(["always", "dropout:0.3", "duty:20,0.5", "vanish:0.2,15", "duty:30,0.7+dropout:0.2"])
absence = st.sampled_from(["own", "skip", "wait", "deadline:3"])
algorithm = st.sampled_from(list(ALGORITHMS))
shared_links = st.sampled_from(["rate:1,5", "rate:uniform,0.1,3/exponential,2"])
network = st.sampled_from(
    [
        ["fleet.sharing=fair", "fleet.server_mbps=3", "fleet.backbone=node:5"],
        ["fleet.sharing=fair", "fleet.backbone=geant"],
        ["fleet.sharing=ofdma:12", "fleet.backbone=rate:4,2"],
        ["fleet.sharing=ofdma:3", "fleet.server_mbps=2", "fleet.backbone=exodus"],
        ["fleet.backbone=edge:1"],
    ]
)
SEVERAL = [name for name in ALGORITHMS if make_settings(name).algorithm.traits(100).servers > 1]
"""Algorithms with several servers."""
failures = st.sampled_from(["none", "server:2@9", "servers:60", "links:40", "servers:80+links:50"])


def schedule(name, times, links, availability, seed, *more):
    words = ["clients=25", "rounds=12", f"seed={seed}", f"fleet.times={times}", f"fleet.links={links}"]
    words += [f"fleet.availability={availability}", "fleet.latency=0.05", "fedavg.width=8", "sfl.length=4"]
    words += ["psfl.width=5", "psfl.length=4", "p-fedavg.topology=ring:6", "p-fedavg.participants=3", *more]
    words += ["hierfavg.servers=5", "da-dpfl.pruning.target=0", "da-dpfl.wait=3", "public=0.1"]
    run = make_run(make_settings(name, words), dry=True)
    drive([run], make_executor(run.settings.executor))
    assert run.failure is None or expected(run.failure, availability), run.failure
    return run


def expected(failure, availability):
    """All servers or the only one have failed (a bug has a cause), or hours are too short for a slow device."""
    if isinstance(failure, Fruitless):
        return "duty" in availability
    return type(failure) is SiteError and failure.__cause__ is None


@given(algorithm, times, links, availability, st.integers(0, 10**6))
def test_schedules(name, times, links, availability, seed):
    look_at(schedule(name, times, links, availability, seed))


@given(algorithm, times, shared_links, availability, network, st.integers(0, 10**6))
def test_schedules_that_share_a_network(name, times, links, availability, network, seed):
    look_at(schedule(name, times, links, availability, seed, *network))


@given(algorithm, times, links, availability, absence, st.integers(0, 10**6))
def test_who_waits_is_idle_and_there(name, times, links, availability, absence, seed):
    """Whatever an algorithm does side by side: a device waits for one thing at a time, and only while it is there."""
    run = schedule(name, times, links, availability, seed, f"absence={absence}")
    rows = run.world.ledger.table().to_pylist()
    who_waits_is_idle(rows)
    who_waits_is_there(rows, run.world.machines.fleet.availability)


@given(st.sampled_from(SEVERAL), times, links, availability, failures, st.integers(0, 10**6))
def test_schedules_with_failures(name, times, links, availability, failures, seed):
    look_at(schedule(name, times, links, availability, seed, f"fleet.failures={failures}"))


@settings(max_examples=30)
@given(times, shared_links, network, failures, st.integers(0, 10**6))
def test_schedules_with_failures_that_share_a_network(times, links, network, failures, seed):
    look_at(schedule("p-fedavg", times, links, "always", seed, *network, f"fleet.failures={failures}"))


def look_at(run):
    rows = run.world.ledger.table().to_pylist()
    assert rows
    no_track_overlaps(rows)
    bytes_sent_are_received(rows)
    totals = run.world.ledger.totals()
    assert totals.bytes == pytest.approx(sum(r["bytes"] for r in rows if r["kind"] == "send"))
    assert 0.0 <= totals.idle_share <= 1.0
    assert all(row["start"] <= row["end"] <= run.world.now() for row in rows)


def no_track_overlaps(rows):
    """Tracks: a site's own work (training, jobs), and each lane of each direction of its links."""
    tracks = defaultdict(list)
    for row in rows:
        if row["end"] > row["start"] and row["kind"] != "wait":
            kind = "compute" if row["kind"] in ("train", "work") else row["kind"]
            tracks[row["site"], kind, row["lane"]].append((row["start"], row["end"]))
    for track, spans in tracks.items():
        spans.sort()
        for (_, end), (start, _) in pairwise(spans):
            assert end <= start, (track, end, start)


def who_waits_is_idle(rows):
    """No device waits while it trains, sends or receives, nor twice at once."""
    sites = defaultdict(list)
    for row in rows:
        if row["site"] >= 0 and row["end"] > row["start"]:
            sites[row["site"]].append((row["start"], row["end"], row["kind"]))
    for site, spans in sites.items():
        spans.sort()
        until, waited = 0.0, 0.0
        for start, end, kind in spans:
            limit = until if kind == "wait" else waited
            assert start >= limit - 1e-9, (site, start, end, kind, limit)
            until = max(until, end)
            waited = max(waited, end) if kind == "wait" else waited


def who_waits_is_there(rows, availability):
    """By its hours: at the beginning of a wait, and up to its end."""
    for row in rows:
        if row["kind"] == "wait" and row["site"] >= 0:
            assert availability.next_online(row["site"], row["start"]) == row["start"], row
            assert availability.online_until(row["site"], row["start"]) >= row["end"] - 1e-9, row


def bytes_sent_are_received(rows):
    """Every send has its receive at the other end at the same time."""
    sent = sorted((r["site"], r["peer"], r["start"], r["end"], r["bytes"]) for r in rows if r["kind"] == "send")
    got = sorted((r["peer"], r["site"], r["start"], r["end"], r["bytes"]) for r in rows if r["kind"] == "receive")
    assert sent == got
