"""Random small dry runs of every algorithm: none hangs, and their ledgers hold what they must (``schedules``)."""

import asyncio
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from paceline.algorithms.registry import ALGORITHMS
from paceline.clock import VirtualLoop
from paceline.errors import Deadlock, PacelineError, SettingError, SiteError
from tests.contract.schedules import (
    TIME,
    Absences,
    Ended,
    PastBudget,
    Steps,
    case,
    command,
    faults,
    perform_case,
    prepare_case,
    verdict,
)

FEW, MANY = 140, 2000
"""Seeds in every run of the suite, and behind the marker ``slow``."""


def look_at(seeds):
    """All that is wrong with these cases, and how to repeat each."""
    lines = []
    for seed in seeds:
        name, words = case(seed)
        try:
            found = verdict(name, words)
        except PacelineError:  # refused: test_few_are_refused counts them
            continue
        if found:
            lines += [f"seed {seed}: {command(name, words)}", *(f"    {fault}" for fault in found)]
    if lines:
        pytest.fail("\n".join(lines), pytrace=False)


@pytest.mark.parametrize("first", range(0, FEW, 5))
def test_schedules(first):
    look_at(range(first, first + 5))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, MANY, 20))
def test_many_schedules(first):
    look_at(range(first, first + 20))


# -- the generator --------------------------------------------------------------------------------------------------


def test_a_case_is_a_function_of_its_seed():
    assert [case(seed) for seed in range(60)] == [case(seed) for seed in range(60)]


def test_few_are_refused():
    """Below a quarter, and only as settings that cannot be."""
    refused = Counter()
    for seed in range(FEW):
        name, words = case(seed)
        try:
            prepare_case(name, words)
        except SettingError:
            refused[name] += 1
    assert refused.total() < FEW / 4, refused


def test_every_kind_of_setting_occurs():
    cases = [case(seed) for seed in range(FEW)]
    assert {name for name, _ in cases} == set(ALGORITHMS)
    text = " ".join(word for _, words in cases for word in words)
    for word in ("always", "dropout:1 ", "forever", "duty:7,0.1", "windows:", "vanish:", "stragglers:", "+duty:"):
        assert word in text, word
    for word in ("links=free", "links=rate:", "links=seconds:", "links=trace:", "latency=", "server_mbps="):
        assert word in text, word
    for word in (
        "sharing=none",
        "sharing=fair",
        "sharing=ofdma:",
        "backbone=rate:",
        "backbone=node:",
        "backbone=edge:",
    ):
        assert word in text, word
    for word in ("server=constant:", "server=flops:", "servers:", "links:20", "server:1@", "server:2@", "link:"):
        assert word in text, word
    for word in ("times=csv:", "times=flops:", "jitter=1 ", "rule=screen", "clients=1 ", "clients=20 "):
        assert word in text, word


# -- the budget -----------------------------------------------------------------------------------------------------


def test_what_never_ends_is_ended():
    async def never():
        while True:
            await asyncio.sleep(1.0)

    loop = VirtualLoop()
    loop._ready = Steps(1000)
    with pytest.raises(PastBudget, match="1000 steps"):
        loop.run_until_complete(never())
    assert 100 < loop.time() <= 1000
    loop.close()
    assert not asyncio.all_tasks(loop)


def test_a_run_past_its_budget_is_found():
    words = ["clients=3", "rounds=2", "partition=iid", "fedavg.width=3"]
    enough = perform_case("fedavg", words)
    assert faults(enough) == []
    assert [fault.partition(":")[0] for fault in faults(perform_case("fedavg", words, enough.steps))] == [
        "runs on for ever"
    ]


# -- the checks -----------------------------------------------------------------------------------------------------

TRAIN, RECEIVE = (0, "train", 0, 1.0, 3.0, 0, 0.0, -(2**31)), (0, "receive", 0, 0.0, 1.0, 0, 8.0, -1)
SEND, WAIT = (-1, "send", 0, 0.0, 1.0, 0, 8.0, 0), (0, "wait", 0, 3.0, 5.0, 0, 0.0, 1)
COLUMNS = ("site", "kind", "lane", "start", "end", "round", "bytes", "peer")


def ended(*spans, **changes):
    """One client that receives 8 bytes, trains and waits, in a run of one round; with these spans besides."""
    rows = [SEND, RECEIVE, TRAIN, WAIT, *spans]
    columns = {key: np.array(column) for key, column in zip(COLUMNS, zip(*rows, strict=True), strict=True)}
    fine = Ended(
        name="fedavg",
        clients=1,
        spans=columns | {"flops": np.zeros(len(rows))},
        rows=[],
        notes=[],
        time=5.0,
        bytes=8.0,
        visits=1,
        wanted=1,
        made=1,
        error=None,
        ended=None,
        homes=[],
        away=lambda site, when: False,
        steps=1,
    )
    return replace(fine, **changes)


def kinds(run):
    return [fault.partition(":")[0] for fault in faults(run)]


def test_a_run_without_faults():
    assert kinds(ended()) == []


@pytest.mark.parametrize(
    ("span", "found"),
    [
        ((0, "train", 0, 6.0, 5.5, 0, 0.0, 0), "negative span"),
        ((0, "train", 0, 4.9, np.inf, 0, 0.0, 0), "infinite span"),
        ((-1, "work", 0, -1.0, 1.0, 0, 0.0, 0), "span before 0"),
        ((0, "train", 0, 5.0, 5.1, 0, 0.0, 0), "span after the end"),
        ((0, "train", 0, 0.5, 1.5, 0, 0.0, 0), "train overlaps train"),
        ((0, "work", 0, 2.0, 2.5, 0, 0.0, 0), "train overlaps work"),
        ((0, "receive", 0, 0.5, 2.0, 0, 0.0, -1), "receive overlaps receive"),
        ((-1, "send", 0, 0.5, 2.0, 0, 0.0, 0), "send overlaps send"),
        ((0, "wait", 0, 4.0, 5.0, 0, 0.0, 1), "wait overlaps wait"),
        ((0, "wait", 0, 2.0, 3.0, 0, 0.0, 1), "wait overlaps train"),
        ((0, "wait", 0, 0.0, 0.5, 0, 0.0, 1), "wait overlaps receive"),
        ((0, "send", 0, 4.0, 5.0, 0, 0.0, -1), "wait overlaps send"),
    ],
)
def test_a_wrong_span_is_found(span, found):
    assert found in kinds(ended(span))


@pytest.mark.parametrize(
    "spans",
    [
        [(0, "send", 0, 1.5, 2.5, 0, 0.0, -1)],  # while it trains
        [(0, "receive", 1, 0.5, 2.0, 0, 0.0, -1)],  # in another lane
        [(-1, "wait", 0, 0.0, 1.0, 0, 0.0, 0)],  # a server's links are no business of its waits
        [(0, "wait", 0, 5.0 - 1e-10, 5.0, 0, 0.0, 1)],  # a rounding
        [(0, "train", 0, 3.0, 3.0, 0, 0.0, 0), (0, "train", 0, 4.0, 4.0, 0, 0.0, 0)],  # no time at all
    ],
)
def test_what_may_overlap_is_no_fault(spans):
    assert kinds(ended(*spans)) == []


def test_a_wait_for_itself_is_found():
    assert kinds(ended((0, "wait", 0, 5.0, 5.0, 0, 0.0, 0))) == ["waits for itself"]


def test_the_last_client_waits_for_servers_and_not_for_itself():
    """The client that ends the round last then waits while its edge server sends to the cloud."""
    own = "clients=2 rounds=1 partition=iid hierfavg.servers=1 hierfavg.participants=2"
    fleet = "fleet.links=rate:0.01,0.02 fleet.backbone=node:3 fleet.server=constant:0.7"
    run = perform_case("hierfavg", [*own.split(), *fleet.split()])
    assert kinds(run) == []
    waits = [row for row in zip(*(run.spans[key].tolist() for key in COLUMNS), strict=True) if row[1] == "wait"]
    met = max(row[4] for row in waits)
    assert {(row[0], row[-1]) for row in waits if row[4] == met} == {(0, 1), (1, -1)}


def test_servers_wait_or_work():
    assert "wait overlaps work" in kinds(
        ended((-1, "wait", 0, 0.0, 2.0, 0, 0.0, 0), (-1, "work", 0, 1.0, 2.0, 0, 0.0, 0))
    )


@pytest.mark.parametrize(("begin", "end"), [(3.0, 3.6), (4.4, 5.0), (3.9, 4.1)])
def test_a_wait_while_away_is_found(begin, end):
    """The wait is from 3 to 5."""
    assert kinds(ended(away=lambda site, when: begin <= when < end)) == ["waits while away"]


def test_bytes():
    assert kinds(ended((-1, "send", 0, 2.0, 3.0, 0, 4.0, 0), bytes=12.0)) == ["sent is not received"]
    assert kinds(ended(bytes=9.0)) == ["bytes of the ledger"]
    other = [(-1, "send", 0, 2.0, 3.0, 0, 4.0, 1), (0, "receive", 0, 2.0, 3.0, 0, 4.0, -1)]  # to 1, and 0 has it
    assert kinds(ended(*other, bytes=12.0)) == ["sent is not received"]


def test_endings():
    assert kinds(ended(error=Deadlock("deadlock"))) == ["deadlock"]
    assert kinds(ended(error=PastBudget("still going"))) == ["runs on for ever"]
    assert kinds(ended(error=ValueError("no"))) == ["foreign exception"]
    wrapped = SiteError("failed: ValueError")
    wrapped.__cause__ = ValueError("no")
    assert kinds(ended(error=wrapped)) == ["foreign exception"]
    assert kinds(ended(error=SiteError("no server is left"), made=0)) == []


def test_rounds():
    assert kinds(ended(wanted=2)) == ["ends early and does not say why"]
    assert kinds(ended(wanted=2, notes=[(5.0, "client 3 has gone")])) == ["ends early and does not say why"]
    assert kinds(ended(wanted=2, ended="every client has left for good")) == []
    assert kinds(ended(wanted=2, time=TIME)) == []
    assert kinds(ended(visits=0)) == ["done without a visit"]
    assert kinds(ended(wanted=2, made=2)) == ["phantom round"]
    assert kinds(ended(wanted=2, made=2, name="fedbuff")) == []


def test_clients_of_servers():
    assert kinds(ended(clients=3, homes=[[0, 2], [1]])) == []
    assert kinds(ended(clients=3, homes=[[0, 2], []])) == ["client lost"]
    assert kinds(ended(clients=3, homes=[[0, 2], [1, 2]])) == ["client lost"]


def test_absences():
    absences = Absences()
    absences.add(0, 2.0, 4.0)
    absences.add(0, 5.0, np.inf)
    times = [1.9, 2.0, 3.9, 4.0, 4.9, 5.0, 1e9]
    assert [absences.at(0, when) for when in times] == [False, True, True, False, False, True, True]
    assert not absences.at(1, 3.0)
