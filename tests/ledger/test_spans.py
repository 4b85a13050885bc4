"""The ledger: totals are the sums of the rows, rows survive on disk, and a missing cost is an error."""

import math

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import CostError
from paceline.ledger import NO_SITE, Kind, Ledger, spans
from paceline.ledger.spans import SCHEMA, WIDTH, Totals

SITES = st.integers(-5, 30)
STARTS = st.floats(0, 1e6)
LENGTHS = st.floats(0, 1e4)
COSTS = st.floats(0, 1e9)
SIZES = st.integers(0, 2**40)
ROUNDS = st.integers(0, 2**31 - 1)


@st.composite
def acts(draw):
    """One call of the ledger: its name and arguments."""
    start = draw(STARTS)
    when = (start, start + draw(LENGTHS), draw(ROUNDS))
    match draw(st.sampled_from(["train", "transfer", "work", "wait"])):
        case "train":
            return "train", (draw(st.integers(0, 30)), *when, draw(COSTS), draw(COSTS), draw(st.booleans()))
        case "transfer":
            return "transfer", (draw(SITES), draw(SITES), *when, float(draw(SIZES)), draw(COSTS))
        case "work":
            return "work", (draw(SITES), *when, draw(COSTS), draw(COSTS))
        case _:
            return "wait", (draw(SITES), *when, draw(SITES))


def written(ledger, calls):
    for name, arguments in calls:
        getattr(ledger, name)(*arguments)
    return ledger


def rows_of(table):
    return table.set_column(1, "kind", table["kind"].cast("string")).to_pylist()


@given(st.lists(acts(), max_size=30), st.sampled_from([1, 2, 7, 1 << 16]))
def test_totals_are_the_sums_of_what_is_on_disk(tmp_path_factory, calls, chunk):
    path = tmp_path_factory.mktemp("ledger") / "spans"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spans, "CHUNK", chunk)
        ledger = written(Ledger(path), calls)
        assert len(ledger.rows) < chunk * WIDTH, "memory is bounded by a chunk"
        totals = ledger.totals()
        ledger.close()
    rows = rows_of(pq.read_table(path))

    def total(column, *kinds, clients=False):
        return sum(row[column] for row in rows if row["kind"] in kinds and (row["site"] >= 0 or not clients))

    def seconds(*kinds):
        return sum(row["end"] - row["start"] for row in rows if row["kind"] in kinds and row["site"] >= 0)

    assert totals.bytes == total("bytes", "send") == total("bytes", "receive")
    assert totals.flops == pytest.approx(total("flops", *spans.KINDS), rel=1e-9)
    assert totals.joules == pytest.approx(total("joules", *spans.KINDS), rel=1e-9)
    assert totals.busy_seconds == pytest.approx(seconds("train", "send", "receive", "work"), rel=1e-6, abs=1e-6)
    assert totals.wait_seconds == pytest.approx(seconds("wait"), rel=1e-6, abs=1e-6)
    assert totals.visits == sum(name == "train" and arguments[-1] for name, arguments in calls)
    moved = {site: sum(row["bytes"] for row in rows if row["site"] == site) for site in {r["site"] for r in rows}}
    assert totals.busiest_bytes == max(moved.values(), default=0.0)
    if totals.busiest_bytes:
        assert moved[totals.busiest_site] == totals.busiest_bytes


@given(st.lists(acts(), max_size=30), st.sampled_from([1, 3, 1 << 16]))
def test_rows_do_not_depend_on_chunks_or_on_where_they_go(tmp_path_factory, calls, chunk):
    path = tmp_path_factory.mktemp("ledger") / "spans"
    expected = rows_of(written(Ledger(), calls).table())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spans, "CHUNK", chunk)
        on_disk = written(Ledger(path), calls)
        on_disk.close()
        assert rows_of(written(Ledger(), calls).table()) == expected
    assert rows_of(pq.read_table(path)) == expected


def test_a_row_is_what_was_said():
    """Whole columns of a small story: server -1 sends to client 3, which trains while client 4 waits for it."""
    ledger = Ledger()
    ledger.transfer(-1, 3, 0.0, 1.5, 0, 100.0, 7.0, lanes=(2, 1))
    ledger.train(3, 1.5, 4.0, 0, 1e9, 5.0)
    ledger.wait(4, 1.5, 4.0, 0, 3)
    ledger.work(-1, 4.0, 5.0, 1, 10.0, 1.0)
    columns = ledger.table().to_pydict()
    assert columns == {
        "site": [-1, 3, 3, 4, -1],
        "kind": ["send", "receive", "train", "wait", "work"],
        "lane": [2, 1, 0, 0, 0],
        "start": [0.0, 0.0, 1.5, 1.5, 4.0],
        "end": [1.5, 1.5, 4.0, 4.0, 5.0],
        "round": [0, 0, 0, 0, 1],
        "bytes": [100.0, 100.0, 0.0, 0.0, 0.0],
        "flops": [0.0, 0.0, 1e9, 0.0, 10.0],
        "joules": [7.0, 0.0, 5.0, 0.0, 1.0],
        "peer": [3, -1, NO_SITE, 3, NO_SITE],
    }
    assert ledger.totals() == Totals(
        visits=1, bytes=100.0, busiest_bytes=100.0, busiest_site=-1, flops=1e9 + 10, joules=13.0,
        busy_seconds=1.5 + 2.5, wait_seconds=2.5,
    )  # fmt: skip
    assert ledger.totals().idle_share == 2.5 / (4.0 + 2.5)


def test_names_of_kinds_follow_their_numbers():
    assert [spans.KINDS[kind] for kind in Kind] == ["train", "send", "receive", "work", "wait"]


def test_each_kind_of_traffic_balances(tmp_path):
    ledger = Ledger(tmp_path / "spans")
    for k in range(100):
        ledger.transfer(k % 7 - 2, k % 5, k, k + 1, k, float(k), 0.0)
    ledger.close()
    table = pq.read_table(tmp_path / "spans")
    sums = {
        kind: pc.sum(table.filter(pc.equal(table["kind"], kind))["bytes"]).as_py() for kind in ("send", "receive")
    }
    assert sums == {"send": 4950.0, "receive": 4950.0}


# -- chunks -------------------------------------------------------------------------------------------------------


def test_chunks_are_written_as_they_fill(tmp_path, monkeypatch):
    monkeypatch.setattr(spans, "CHUNK", 4)
    ledger = Ledger(tmp_path / "spans")
    for k in range(10):
        ledger.train(k, 0.0, 1.0, 0, 0.0, 0.0)
    assert len(ledger.rows) == 2 * WIDTH
    ledger.close()
    parts = [pq.read_table(part) for part in sorted((tmp_path / "spans").iterdir())]
    assert [part["site"].to_pylist() for part in parts] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_rows_that_are_there_are_not_written_again(tmp_path, monkeypatch):
    monkeypatch.setattr(spans, "CHUNK", 4)
    first = Ledger(tmp_path / "spans")
    for k in range(6):
        first.train(k, 0.0, 1.0, 0, 0.0, 0.0)
    first.save()
    (tmp_path / "spans" / "part-000000000006.part").write_bytes(b"half of one")
    assert spans.count_rows(tmp_path / "spans") == 6
    again = Ledger(tmp_path / "spans", written=6)
    for k in range(10):
        again.train(k, 0.0, 1.0, 0, 0.0, 0.0)
    again.close()
    parts = [pq.read_table(part)["site"].to_pylist() for part in sorted((tmp_path / "spans").glob("*.parquet"))]
    assert parts == [[0, 1, 2, 3], [4, 5], [6, 7], [8, 9]]
    (tmp_path / "spans" / "part-000000000004.parquet").write_bytes(b"damaged")
    assert spans.count_rows(tmp_path / "spans") == 4
    assert len(list((tmp_path / "spans").glob("*.parquet"))) == 1


def test_a_part_whose_rows_are_others_is_made_again(tmp_path):
    """Checksums tell: most damaged bytes would give rows that can be read, and are wrong."""
    ledger = Ledger(tmp_path / "spans")
    for k in range(40):
        ledger.train(k % 7, k, k + 3, k // 4, 1e6, math.nan)
    ledger.close()
    (path,) = (tmp_path / "spans").iterdir()
    data, rows = path.read_bytes(), repr(pq.read_table(path).to_pydict())
    found = 0
    for place in range(4, pq.read_metadata(path).row_group(0).total_byte_size, 7):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x30]) + data[place + 1 :])
        if spans.count_rows(tmp_path / "spans"):
            assert repr(pq.read_table(path).to_pydict()) == rows
        else:
            assert not path.exists()
            found += 1
    assert found > 10


def test_a_transfer_may_straddle_two_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(spans, "CHUNK", 3)
    ledger = Ledger(tmp_path / "spans")
    for k in range(3):
        ledger.transfer(-1, k, 0.0, 1.0, 0, 10.0, 0.0)
    totals = ledger.totals()
    ledger.close()
    assert (totals.bytes, totals.busiest_bytes, totals.busiest_site) == (30.0, 30.0, -1)
    assert pq.read_table(tmp_path / "spans").num_rows == 6


def test_a_ledger_that_keeps_nothing_still_counts():
    ledger = Ledger(keep=False)
    ledger.transfer(-1, 2, 0.0, 1.0, 0, 10.0, 3.0)
    assert ledger.totals().busiest_bytes == 10.0
    assert ledger.totals().joules == 3.0
    assert ledger.table().num_rows == 0


def test_an_empty_ledger_leaves_a_readable_file(tmp_path):
    ledger = Ledger(tmp_path / "spans")
    ledger.close()
    table = pq.read_table(tmp_path / "spans")
    assert table.num_rows == 0
    assert table.schema.names == SCHEMA.names
    assert Ledger().table().schema == SCHEMA


def test_closing_twice_keeps_the_rows(tmp_path):
    ledger = Ledger(tmp_path / "spans")
    ledger.train(0, 0.0, 1.0, 0, 1.0, 1.0)
    ledger.close()
    ledger.close()
    assert pq.read_table(tmp_path / "spans").num_rows == 1


# -- the busiest site ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("site", [0, 7, 5000, -1, -2, -64])
def test_any_site_may_be_the_busiest(site):
    """It sends twice what each of two others receives."""
    ledger = Ledger()
    ledger.transfer(site, 100, 0.0, 1.0, 0, 8.0, 0.0)
    ledger.transfer(site, 101, 0.0, 1.0, 0, 8.0, 0.0)
    totals = ledger.totals()
    assert (totals.busiest_site, totals.busiest_bytes) == (site, 16.0)


def test_the_sixty_fifth_server_is_a_server():
    ledger = Ledger()
    ledger.transfer(-65, 100, 0.0, 1.0, 0, 8.0, 0.0)
    ledger.transfer(-65, 101, 0.0, 1.0, 0, 8.0, 0.0)
    assert ledger.totals().busiest_site == -65


def test_without_traffic_nobody_is_busiest():
    assert Ledger().totals().busiest_site == NO_SITE


def test_what_was_counted_survives_growth():
    """Client 3,000 makes the table of traffic grow after others were counted."""
    ledger = Ledger()
    ledger.transfer(-1, 5, 0.0, 1.0, 0, 100.0, 0.0)
    ledger.totals()
    ledger.transfer(-1, 3000, 0.0, 1.0, 0, 1.0, 0.0)
    assert (ledger.totals().busiest_site, ledger.totals().busiest_bytes) == (-1, 101.0)


# -- energy, waiting ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("act", ["train", "work", "transfer"])
def test_energy_that_nobody_defined_is_an_error_and_never_zero(act):
    ledger = Ledger()
    ledger.train(0, 0.0, 1.0, 0, 1.0, 2.5)
    assert ledger.totals().energy == 2.5
    if act == "transfer":
        ledger.transfer(0, 1, 0.0, 1.0, 0, 1.0, math.nan)
    else:
        getattr(ledger, act)(1, 0.0, 1.0, 0, 1.0, math.nan)
    ledger.train(0, 1.0, 2.0, 0, 1.0, 2.5)
    totals = ledger.totals()
    assert math.isnan(totals.joules)
    with pytest.raises(CostError, match=r"fleet\.watts"):
        _ = totals.energy
    assert np.isnan(ledger.table()["joules"].to_numpy()).sum() == 1


def test_blame_goes_to_those_who_kept_clients_waiting():
    ledger = Ledger()
    ledger.wait(0, 0.0, 3.0, 0, 9)
    ledger.wait(1, 1.0, 2.0, 0, 8)
    ledger.wait(2, 0.0, 4.0, 1, 9)
    ledger.wait(3, 0.0, 2.0, 1, -1)
    ledger.wait(-1, 0.0, 100.0, 1, 8)
    assert ledger.blame() == [(9, 7.0), (-1, 2.0), (8, 1.0)], "servers may wait: that is no client's idle time"
    assert ledger.blame(1) == [(9, 7.0)]
    assert ledger.totals().wait_seconds == sum(seconds for _, seconds in ledger.blame())


def test_a_wait_of_no_length_is_no_wait():
    ledger = Ledger()
    ledger.wait(0, 2.0, 2.0, 0, 1)
    ledger.wait(0, 2.0, 1.0, 0, 1)
    assert ledger.table().num_rows == 0
    assert ledger.blame() == []
    assert ledger.totals().idle_share == 0.0


def test_a_visit_that_was_broken_off_costs_but_does_not_count():
    ledger = Ledger()
    ledger.train(0, 0.0, 4.0, 0, 8.0, 2.0, done=False)
    totals = ledger.totals()
    assert (totals.visits, totals.flops, totals.joules, totals.busy_seconds) == (0, 8.0, 2.0, 4.0)


def test_only_clients_are_busy():
    """A server's time is its own; between clients both ends are busy."""
    ledger = Ledger()
    ledger.transfer(-1, -2, 0.0, 1.0, 0, 1.0, 0.0)
    ledger.work(-1, 0.0, 10.0, 0, 1.0, 0.0)
    assert ledger.totals().busy_seconds == 0.0
    ledger.transfer(-1, 2, 0.0, 1.0, 0, 1.0, 0.0)
    ledger.transfer(1, 2, 0.0, 1.0, 0, 1.0, 0.0)
    assert ledger.totals().busy_seconds == 1.0 + 2.0
