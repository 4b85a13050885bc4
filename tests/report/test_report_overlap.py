"""Who worked and who was unused, from spans made up so that the shares are known."""

import re

import pytest
from report_samples import federated_spans, overlapped_spans, span, write_spans

from paceline.report import parties as parties_module
from paceline.report.overlap import details, shares
from paceline.report.parties import read_parties


@pytest.fixture
def parties_of(tmp_path):
    def read(rows):
        write_spans(tmp_path / "spans.parquet", rows)
        return read_parties(tmp_path / "spans.parquet")

    return read


ROUND = [
    span(0, "train", 2.0, 6.0),
    span(0, "send", 6.0, 7.0),
    span(-1, "receive", 6.0, 7.0),
    span(0, "wait", 7.0, 12.0, peer=1),
    span(1, "train", 2.0, 11.0),
    span(1, "send", 11.0, 12.0),
    span(-1, "receive", 11.0, 12.0),
    span(-1, "work", 12.0, 16.0),
]


def test_each_party_counts_from_its_first_span_to_its_last(parties_of):
    found = parties_of(ROUND)
    assert (found.servers.stretch, found.servers.work, found.servers.busy) == (10.0, 4.0, 6.0)
    assert found.servers.unused(found.servers.work) == pytest.approx(0.6)
    assert found.servers.unused(found.servers.busy) == pytest.approx(0.4)
    # Both devices are engaged from 2 to 12; one is busy for 5 of these seconds, the other for all.
    assert (found.devices.sites, found.devices.stretch, found.devices.train) == (2, 20.0, 13.0)
    assert (found.devices.busy, found.devices.waiting) == (15.0, 5.0)
    assert found.devices.unused(found.devices.busy) == pytest.approx(0.25)
    assert found.busiest[0] == 1
    assert (found.least_used[0], found.least_used[1].busy) == (0, 5.0)
    assert found.end == 16.0


def test_what_is_done_at_the_same_time_counts_once(parties_of):
    rows = [span(0, "train", 0.0, 4.0), span(0, "receive", 3.0, 6.0), span(0, "send", 3.5, 5.0)]
    rows += [span(0, "send", 9.0, 10.0), span(0, "receive", 9.0, 10.0)]
    found = parties_of(rows)
    assert found.devices.busy == 7.0
    assert found.devices.unused(found.devices.busy) == pytest.approx(0.3)
    assert found.servers is None


def test_a_gap_without_a_booked_wait_is_unused_too(parties_of):
    found = parties_of([span(3, "train", 0.0, 1.0), span(3, "train", 9.0, 10.0), span(5, "train", 0.0, 10.0)])
    assert found.devices.waiting == 0.0
    assert found.devices.unused(found.devices.busy) == pytest.approx(0.4)
    assert found.least_used[0] == 3
    assert found.least_used[1].unused(2.0) == pytest.approx(0.8)


def test_nobody_stands_out_where_nobody_is_unused_and_no_spans_are_no_parties(parties_of):
    found = parties_of([span(0, "train", 0.1, 0.3), span(0, "train", 0.3, 0.7), span(1, "receive", 0.0, 0.0)])
    assert found.least_used is None
    assert found.busiest[0] == 0
    assert "none was" in shares([("a", [found])])
    assert parties_of([]) is None


def test_intervals_joined_on_the_way_cover_the_same_time(parties_of, monkeypatch):
    rows = federated_spans(clients=30, rounds=200, seed=0)
    whole = parties_of(rows)
    joins, original = [], parties_module._union
    monkeypatch.setattr(parties_module, "_union", lambda *columns: joins.append(1) or original(*columns))
    monkeypatch.setattr(parties_module, "COMPACT", 500)
    again = parties_of(rows)
    assert len(joins) > 3
    assert again.servers.busy == pytest.approx(whole.servers.busy, rel=1e-12)
    assert again.devices.busy == pytest.approx(whole.devices.busy, rel=1e-12)
    # A device never does two things at once here, so that its busy time is a plain sum.
    plain = sum(row[4] - row[3] for row in rows if row[0] >= 0 and row[1] != "wait")
    assert whole.devices.busy == pytest.approx(plain, rel=1e-9)


def cells(text, label):
    found = re.search(rf"<tr><td>{re.escape(label)}</td>(.*?)</tr>", text)
    return re.findall(r"<td[^>]*>(.*?)</td>", found.group(1))


def test_the_table_shows_the_unused_time_that_overlapping_takes_away(parties_of):
    synchronous = parties_of(overlapped_spans(overlap=False))
    overlapped = parties_of(overlapped_spans(overlap=True))
    text = shares([("fedavg", [synchronous]), ("spfl", [overlapped])])
    # Four rounds of training for 6 s (the other device for 3 s) and work of 4 s: 40 s with barriers.
    assert cells(text, "fedavg") == ["40.0 %", "60.0 %", "60.0 %", "50.0 %", "50.0 %", "client 1: 66.7 %"]
    # Overlapped, a round is 6 s: the server works for 16 of 28 s, and one device never pauses.
    assert cells(text, "spfl") == ["57.1 %", "42.9 %", "42.9 %", "75.0 %", "25.0 %", "client 1: 50.0 %"]
    assert "from its own first span to its own last one" in text


def test_seeds_are_averaged_and_no_device_is_named(parties_of):
    seeds = [parties_of(overlapped_spans(overlap=True, slow=slow)) for slow in (6.0, 8.0)]
    found = cells(shares([("spfl", seeds)]), "spfl")
    assert all("±" in cell for cell in found)
    assert "client" not in found[-1]


def test_without_server_work_its_columns_are_left_out(parties_of):
    found = parties_of([row for row in ROUND if row[1] != "work"])
    text = shares([("a", [found])])
    assert "server works" not in text
    assert "No server did any work" in text
    assert cells(text, "a") == ["65.0 %", "25.0 %", "client 0: 50.0 %"]


def test_the_details_name_the_seconds_behind_the_shares(parties_of):
    text = details(parties_of(ROUND))
    assert cells(text, "server: work") == ["10 s", "4 s", "0 s", "60.0 %"]
    assert cells(text, "server: work and transfers") == ["10 s", "6 s", "0 s", "40.0 %"]
    assert cells(text, "2 devices together") == ["20 s", "15 s", "5 s", "25.0 %"]
    assert cells(text, "busiest: client 1")[1] == "10 s"
    assert cells(text, "unused longest: client 0") == ["10 s", "5 s", "5 s", "50.0 %"]


def test_several_servers_are_one_party(parties_of):
    found = parties_of([span(-1, "work", 0.0, 5.0), span(-1, "work", 9.0, 10.0), span(-2, "work", 0.0, 2.0)])
    assert (found.servers.sites, found.servers.stretch, found.servers.work) == (2, 12.0, 8.0)
    assert found.devices is None
    assert "2 servers: work" in details(found)
    assert cells(shares([("a", [found])]), "a")[-3:] == ["–", "–", "–"]
