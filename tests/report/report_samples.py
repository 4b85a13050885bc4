"""Spans of imaginary runs, for the tests of the report."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from paceline.ledger.spans import NO_SITE, SCHEMA


def write_spans(path, rows, schema=SCHEMA, **how):
    """Rows are tuples in the order of the columns."""
    columns = zip(*rows, strict=True) if rows else [[] for _ in schema]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path, row_group_size=4096, **how)


def federated_spans(clients, rounds, seed):
    """Synchronous rounds: all train and send, the server averages, all wait for the slowest."""
    rng = np.random.default_rng(seed)
    speed = rng.uniform(1, 6, clients)
    rows, now = [], 0.0
    for turn in range(rounds):
        train = speed * rng.normal(1, 0.1, clients)
        link = rng.uniform(0.3, 0.8, clients)
        ends = now + train + link
        slowest, done = int(np.argmax(ends)), float(ends.max()) + 0.5
        for k in range(clients):
            begin = now + train[k]
            rows += [
                (k, "train", 0, now, begin, turn, 0.0, 3e9, 12.5, NO_SITE),
                (k, "send", 0, begin, ends[k], turn, 2e5, 0.0, 0.2, -1),
                (-1, "receive", k % 4, begin, ends[k], turn, 2e5, 0.0, math.nan, k),
                (k, "wait", 0, ends[k], done, turn, 0.0, 0.0, 0.0, -1 if k == slowest else slowest),
            ]
        rows.append((-1, "work", 0, done - 0.5, done, turn, 0.0, 1e7, math.nan, NO_SITE))
        now = done
    return rows


def span(site, kind, start, end, round=0, peer=NO_SITE, lane=0):
    """One row without costs."""
    return (site, kind, lane, start, end, round, 0.0, 0.0, 0.0, peer)


def overlapped_spans(overlap, slow=6.0, rounds=4, work=4.0):
    """Two devices that train for ``slow`` and for 3 seconds, and a server whose work holds them up or does not."""
    rows, now = [], 0.0
    for turn in range(rounds):
        done = now + slow
        rows += [
            span(0, "train", now, done, turn),
            span(1, "train", now, now + 3.0, turn),
            span(1, "wait", now + 3.0, done, turn, peer=0),
            span(-1, "receive", now, now, turn, peer=0),
            span(-1, "work", done, done + work, turn),
        ]
        now = done if overlap else done + work
    return rows
