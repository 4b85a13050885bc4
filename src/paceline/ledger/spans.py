"""The ledger of spans: columns, not objects, written to a folder of Parquet files, each whole by itself.

A span is (site, kind, lane, start, end, round, bytes, flops, joules, peer). Clients are sites 0, 1, ...; servers
are -1, -2, .... A transfer is two spans, one at each end. ``peer`` is the other end of a transfer, or whom a wait
waited for. Energy that nobody defined is NaN in the file, and asking for its total is an error.
"""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from paceline.errors import CostError, DataError
from paceline.reading import open_file

NO_SITE = -(2**31)
"""In the place of a peer, where a span has none: nobody was its cause or its other end."""
CHUNK = 1 << 15
"""Bookings in memory before they are written."""
PARTS = "part-*.parquet"


class Kind(IntEnum):
    """What a site does during a span."""

    TRAIN = 0
    SEND = 1
    RECEIVE = 2
    WORK = 3
    WAIT = 4


KINDS = tuple(kind.name.lower() for kind in Kind)
SCHEMA = pa.schema(
    [
        ("site", pa.int32()),
        ("kind", pa.dictionary(pa.int8(), pa.string())),
        ("lane", pa.int32()),
        ("start", pa.float64()),
        ("end", pa.float64()),
        ("round", pa.int32()),
        ("bytes", pa.float64()),
        ("flops", pa.float64()),
        ("joules", pa.float64()),
        ("peer", pa.int32()),
    ]
)
REPEATING = ["kind", "lane", "round", "bytes", "flops", "joules"]
"""Columns with few values, for which files have dictionaries; for others these take time and make files larger."""
WIDTH = len(SCHEMA)
TRANSFER = len(KINDS)
"""The kind of a transfer while it is one booking, whose FLOPs are the receiver's lane and whose peer is the target;
when it leaves memory it becomes two rows."""
_packed = struct.Struct(f"{WIDTH}d").pack


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums of what a run has cost up to some virtual time."""

    visits: int
    bytes: float
    busiest_bytes: float
    """Bytes sent and received by the site that moved most."""
    busiest_site: int
    flops: float
    joules: float
    """Energy of all sites; NaN where some power was not defined, which ``energy`` makes an error."""
    busy_seconds: float
    wait_seconds: float
    """Seconds in which devices took part and could do nothing, because someone else was not ready."""

    @property
    def idle_share(self) -> float:
        """Of the time that devices were engaged (busy, or waiting for somebody), the share in which they waited."""
        engaged = self.busy_seconds + self.wait_seconds
        return self.wait_seconds / engaged if engaged else 0.0

    @property
    def energy(self) -> float:
        """Joules, or an error that says what was not defined."""
        if math.isnan(self.joules):
            raise CostError(
                "energy was asked for but some power is not defined; set fleet.watts, fleet.link_watts"
                " (and fleet.server_watts where servers work)"
            )
        return self.joules


@dataclass(eq=False)
class Ledger:
    """Collects spans; totals are always at hand, rows go to disk as they come (or stay, when no path is given)."""

    path: Path | None = None
    """The folder of their files."""
    keep: bool = True
    """Whether rows are kept in memory when there is no path."""
    written: int = 0
    """How many rows are in the folder already, from before: they come again and are not written twice."""
    rows: array[float] = field(default_factory=lambda: array("d"))
    """Bookings not yet written, one after the other: every column fits a double exactly."""
    visits: int = 0
    bytes: float = 0.0
    flops: float = 0.0
    joules: float = 0.0
    busy_seconds: float = 0.0
    wait_seconds: float = 0.0
    booked: int = 0
    """How many rows there have been, up to the last that left memory."""
    _chunks: list[pa.Table] = field(default_factory=list)
    _traffic: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1024))
    """Bytes by site; site s is at s + _servers."""
    _servers: int = 64
    _caused: dict[int, float] = field(default_factory=dict)

    def train(
        self, site: int, start: float, end: float, round: int, flops: float, joules: float, done: bool = True
    ) -> None:
        """Book that a device trained; ``done`` is False when it left before the end."""
        self.visits += done
        self.flops += flops
        self.joules += joules
        self.busy_seconds += end - start
        # As bytes: an array that is extended by a tuple takes each number by itself.
        self.rows.frombytes(_packed(site, 0, 0, start, end, round, 0.0, flops, joules, NO_SITE))
        if len(self.rows) >= CHUNK * WIDTH:
            self._flush()

    def train_and_send(
        self,
        site: int,
        start: float,
        end: float,
        round: int,
        flops: float,
        joules: float,
        target: int,
        sent_in: int,
        size: float,
    ) -> None:
        """Book that a device trained and then, maybe in another round, sent so many bytes in no time: one call."""
        self.visits += 1
        self.flops += flops
        self.joules += joules
        self.busy_seconds += end - start
        self.bytes += size
        self.rows.frombytes(_packed(site, 0, 0, start, end, round, 0.0, flops, joules, NO_SITE))
        self.rows.frombytes(_packed(site, TRANSFER, 0, end, end, sent_in, size, 0.0, 0.0, target))
        if len(self.rows) >= CHUNK * WIDTH:
            self._flush()

    def transfer(
        self,
        source: int,
        target: int,
        start: float,
        end: float,
        round: int,
        size: float,
        joules: float,
        lanes: tuple[int, int] = (0, 0),
    ) -> None:
        """Book a transfer, with one span at each end; the energy of both ends is booked at the source."""
        self.bytes += size
        self.joules += joules
        if end > start:
            self.busy_seconds += (end - start) * ((source >= 0) + (target >= 0))
        lane, other = lanes
        self.rows.frombytes(_packed(source, TRANSFER, lane, start, end, round, size, other, joules, target))
        if len(self.rows) >= CHUNK * WIDTH:
            self._flush()

    def messages(self, sources: Sequence[int], target: int, when: float, round: int, sizes: Sequence[float]) -> None:
        """Book transfers from several sites to one that take neither time nor energy."""
        total = self.bytes
        for size in sizes:  # one by one, as ``transfer`` adds them: another order might round otherwise
            total += size
        self.bytes = total
        bookings = array("d", (0, TRANSFER, 0, when, when, round, 0, 0, 0, target)) * len(sources)
        bookings[0::WIDTH], bookings[6::WIDTH] = array("d", sources), array("d", sizes)
        self.rows += bookings
        if len(self.rows) >= CHUNK * WIDTH:
            self._flush()

    def work(self, site: int, start: float, end: float, round: int, flops: float, joules: float) -> None:
        """Book a job that a server did, or a client besides training."""
        self.flops += flops
        self.joules += joules
        self.busy_seconds += (end - start) * (site >= 0)
        self.rows.frombytes(_packed(site, 3, 0, start, end, round, 0.0, flops, joules, NO_SITE))
        if len(self.rows) >= CHUNK * WIDTH:
            self._flush()

    def wait(self, site: int, start: float, end: float, round: int, cause: int) -> None:
        """Book that a site took part and could do nothing, because ``cause`` was not ready."""
        if end <= start:
            return
        if site >= 0:
            self.wait_seconds += end - start
            self._caused[cause] = self._caused.get(cause, 0.0) + (end - start)
        self.rows.frombytes(_packed(site, 4, 0, start, end, round, 0.0, 0.0, 0.0, cause))
        if len(self.rows) >= CHUNK * WIDTH:
            self._flush()

    def blame(self, most: int = 5) -> list[tuple[int, float]]:
        """Who kept clients waiting, and for how many seconds in all; the worst first."""
        return sorted(self._caused.items(), key=lambda item: -item[1])[:most]

    def totals(self) -> Totals:
        """The sums of all costs that were booked so far."""
        self._flush()
        busiest = int(self._traffic.argmax())
        return Totals(
            visits=self.visits,
            bytes=self.bytes,
            busiest_bytes=float(self._traffic[busiest]),
            busiest_site=busiest - self._servers if self._traffic[busiest] else NO_SITE,
            flops=self.flops,
            joules=self.joules,
            busy_seconds=self.busy_seconds,
            wait_seconds=self.wait_seconds,
        )

    def table(self) -> pa.Table:
        """All rows that are still in memory, as an Arrow table."""
        self._flush()
        return pa.concat_tables(self._chunks) if self._chunks else SCHEMA.empty_table()

    def save(self) -> None:
        """Write what has been booked so far, where there is a folder."""
        self._flush()

    def close(self) -> None:
        """Write the spans that are not on disk yet."""
        self._flush()
        if self.path is not None and not any(self.path.glob(PARTS)):
            self._write(self.path, SCHEMA.empty_table())

    # -- columns ----------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        if not self.rows:
            return
        columns = _rows_of(np.frombuffer(self.rows).reshape(-1, WIDTH))
        self.rows = array("d")
        self._count_traffic(columns[0].astype(np.int64), columns[6])
        if self.path is None and not self.keep:
            return
        kinds = pa.DictionaryArray.from_arrays(pa.array(columns[1].astype(np.int8)), pa.array(KINDS))
        arrays = [
            kinds if item.name == "kind" else pa.array(column).cast(item.type, safe=False)
            for column, item in zip(columns, SCHEMA, strict=True)
        ]
        table = pa.Table.from_arrays(arrays, schema=SCHEMA)
        new = table.slice(max(0, self.written - self.booked))
        self.booked += len(table)
        if self.path is None:
            self._chunks.append(table)
        elif len(new):
            self._write(self.path, new)

    def _write(self, folder: Path, table: pa.Table) -> None:
        """One more file, named by its first row; whole or not at all."""
        folder.mkdir(exist_ok=True)
        path = folder / f"part-{self.booked - len(table):012d}.parquet"
        draft = path.with_suffix(".part")
        pq.write_table(table, draft, compression="zstd", write_page_checksum=True, use_dictionary=REPEATING)
        draft.replace(path)

    def _count_traffic(self, site: NDArray[np.int64], size: NDArray[np.float64]) -> None:
        if (lowest := -int(site.min())) > self._servers:
            self._traffic = np.concatenate([np.zeros(lowest - self._servers), self._traffic])
            self._servers = lowest
        needed = int(site.max()) + self._servers + 1
        if needed > len(self._traffic):
            self._traffic = np.concatenate([self._traffic, np.zeros(max(needed, 2 * len(self._traffic)))])
        np.add.at(self._traffic, site + self._servers, size)


def _rows_of(bookings: NDArray[np.float64]) -> NDArray[np.float64]:
    """The columns of all rows: a transfer is two, at its source and at its target."""
    transfers = bookings[:, 1] == TRANSFER
    columns = np.repeat(np.ascontiguousarray(bookings.T), 1 + transfers, axis=1)
    site, kind, lane, _, _, _, _, flops, joules, peer = columns
    received = np.flatnonzero(transfers) + np.arange(1, 1 + np.count_nonzero(transfers))
    sent = received - 1
    site[received], peer[received] = peer[sent], site[sent]
    kind[sent], kind[received] = Kind.SEND, Kind.RECEIVE
    lane[received] = flops[received]
    flops[sent] = flops[received] = joules[received] = 0.0
    return columns


def count_rows(folder: Path) -> int:
    """How many rows are in a ledger's folder without a gap; what is damaged, or comes after a gap, is removed."""
    rows = 0
    for draft in folder.glob("*.part"):
        draft.unlink()
    for path in sorted(folder.glob(PARTS)):
        found = _rows_in(path) if path.name == f"part-{rows:012d}.parquet" else 0
        if found:
            rows += found
        else:
            path.unlink()
    return rows


def _rows_in(path: Path) -> int:
    """How many rows a file has; 0 if it is not as it was written, which its checksums tell."""
    try:
        with open_file(path) as file:
            table = pq.read_table(file, page_checksum_verification=True)
        table.validate(full=True)
    except (DataError, pa.ArrowException, OSError, ValueError):  # ValueError: names of columns that are no text
        return 0
    return int(table.num_rows) if table.schema.equals(SCHEMA) else 0
