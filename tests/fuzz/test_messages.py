"""Messages, and what was kept of runs, that somebody else wrote: each is read, or refused in words."""

import io
import json
import struct

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from hypothesis import given

from paceline.errors import DataError, WireError
from paceline.federation.errands import answers_of
from paceline.federation.records import from_records
from paceline.runs.learned import Stop
from paceline.runs.manifest import read_manifest
from paceline.worlds.local.frames import MAGIC, Frame, packed, unpacked
from paceline.worlds.local.journal import read_journal
from tests.fuzz.hostile import damaged, explained

FRAME = packed(Frame({"do": "visit", "client": 3}, (b"abc", b"")))


def frame(text, total=0):
    return struct.pack("<4sIQ", MAGIC, len(text), total) + text


@given(damaged(FRAME))
def test_damaged_frames(data):
    explained(unpacked, data)


@pytest.mark.parametrize(("words", "total"), [(1 << 28, 0), (0, 1 << 36)])
def test_lengths_beyond_bounds_are_not_believed(words, total):
    assert unpacked(struct.pack("<4sIQ", MAGIC, words or 12, total) + b'{"blobs":') is None
    with pytest.raises(WireError, match="lengths within bounds"):
        unpacked(struct.pack("<4sIQ", MAGIC, words + (not total), total + bool(total)))


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"[]",
        b"3",
        b"{}",
        b'{"blobs": 3}',
        b'{"blobs": [-1]}',
        b'{"blobs": [true]}',
        b'{"blobs": ["a"]}',
        b'{"blobs": [1e400]}',
        b"\xff",
        b"[" * 100_000,
        b"9" * 5000,
    ],
)
def test_a_frame_that_is_none(text):
    with pytest.raises(WireError, match="a frame"):
        unpacked(frame(text))


def message(words, blob):
    array = Array(dtype="uint8", shape=(1,), stype="numpy.ndarray", data=blob)
    content = {"words": ConfigRecord({"json": words}), "blobs": ArrayRecord({"0": array})}
    return from_records(RecordDict(content), 1 << 20)


def archive():
    held = io.BytesIO()
    np.savez(held, x=np.zeros(3, np.uint8))
    return held.getvalue()


def header(text):
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@pytest.mark.parametrize(
    "blob", [b"", b"PK\x03\x04", archive(), archive()[:-30], header(b"("), header(b"'''"), header(b"  {\n {")]
)
def test_an_array_that_is_none(blob):
    with pytest.raises(WireError, match="of a message"):
        message("{}", blob)


@pytest.mark.parametrize("count", [1e400, -1, "x", None, 2, []])
def test_answers_that_count_what_is_not_there(count):
    held = io.BytesIO()
    np.save(held, np.zeros(3, np.uint8))
    words = json.dumps({"answers": [{"id": "a", "words": {}, "blobs": count}]})
    with pytest.raises(WireError, match="do not go together"):
        answers_of(message(words, held.getvalue()), "a")


@pytest.mark.parametrize("kept", ["[[1e400, 1]]", "[[]]", "3", "[" * 100_000])
def test_a_journal_that_is_none(tmp_path, kept):
    path = tmp_path / "journal.jsonl"
    path.write_text(f'{{"what": "visit", "kept": {kept}}}\n')
    with pytest.raises(DataError, match="line 1 is no entry"):
        read_journal(path)


ENTRY = {"what": "visit", "site": 0, "target": 0, "number": 1, "start": 0.0, "end": 1.5}


@pytest.mark.parametrize("name", [*ENTRY, "dropped", "outcome", "bytes", "computed", "figure"])
@pytest.mark.parametrize("value", [[], {}, True])
def test_an_entry_of_a_journal_whose_parts_are_of_other_kinds(tmp_path, name, value):
    path = tmp_path / "journal.jsonl"
    path.write_text(json.dumps(ENTRY) + "\n")
    assert read_journal(path)[0].end == 1.5
    path.write_text(json.dumps(ENTRY | {name: value}) + "\n")
    with pytest.raises(DataError, match="line 1 is no entry"):
        read_journal(path)


@pytest.mark.parametrize("kind", [",int", "O", "(2,3)", "no such", "i4,", 3, None, "V0"])
def test_an_array_that_was_learned_of_no_type(kind):
    words = {"made": 1, "times": [], "counts": [], "failures": [], "results": [{"array": [kind, [1], "AAAA"]}]}
    with pytest.raises(DataError, match="cannot be read"):
        Stop.read(json.dumps(words))


@pytest.mark.parametrize("left_out", [["same"], ["keeping"], ["options", "keeping", "same"]])
def test_a_manifest_without_what_may_be_left_out(tmp_path, left_out):
    words = {"folders": ["."], "settings": [{}], "until": {}, "options": {}, "keeping": {}, "same": {}}
    kept = {name: value for name, value in words.items() if name not in left_out}
    (tmp_path / "paceline.json").write_text(json.dumps(kept))
    assert [getattr(read_manifest(tmp_path), name) for name in left_out] == [{}] * len(left_out)
