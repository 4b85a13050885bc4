"""The pickled CIFAR batches are read, and nothing in them is run."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest

from paceline.data.loaders.pickles import read_batch
from paceline.data.registry import load
from paceline.errors import DataError
from paceline.seeds import stream


def python2_batch(images, labels, key=b"labels"):
    """The bytes that Python 2's pickle protocol 2 wrote in 2009, opcode by opcode."""
    n = len(images)
    raw = images.tobytes()

    def short(text):
        return b"U" + bytes([len(text)]) + text

    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + short(b"b") + b"\x87R"
        b"(K\x01J" + n.to_bytes(4, "little") + b"M\x00\x0c\x86"
        b"cnumpy\ndtype\n" + short(b"u1") + b"K\x00K\x01\x87R"
        b"(K\x03" + short(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89T" + len(raw).to_bytes(4, "little") + raw + b"tb"
    )
    values = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(" + short(b"data") + array + short(key) + values + b"u."


@pytest.fixture
def images():
    return stream(0, "pickle").integers(0, 256, (4, 3, 32, 32)).astype(np.uint8)


def test_the_hand_made_batch_is_what_pickle_itself_would_read(images):
    content = pickle.loads(python2_batch(images, [1, 2, 3, 4]), encoding="bytes")
    assert (content[b"data"] == images.reshape(4, 3072)).all()


def test_a_python2_batch(tmp_path, images):
    path = tmp_path / "data_batch_1"
    path.write_bytes(python2_batch(images, [9, 0, 1, 2]))
    x, y = read_batch(path, "labels")
    assert (x == images).all()
    assert y.tolist() == [9, 0, 1, 2]


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_a_batch_pickled_again_by_python3(tmp_path, images, protocol):
    path = tmp_path / "batch"
    content = {"data": images.reshape(4, 3072), "labels": [9, 0, 1, 2], "batch_label": "one"}
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    x, y = read_batch(path, "labels")
    assert (x == images).all()
    assert y.tolist() == [9, 0, 1, 2]


def test_whole_datasets(tmp_path, images):
    ten, hundred = tmp_path / "cifar-10-batches-py", tmp_path / "cifar-100-python"
    ten.mkdir()
    hundred.mkdir()
    for i in range(1, 6):
        (ten / f"data_batch_{i}").write_bytes(python2_batch(images, [i, i, i, i]))
    (ten / "test_batch").write_bytes(python2_batch(images, [0, 0, 0, 7]))
    for part in ("train", "test"):
        (hundred / part).write_bytes(python2_batch(images, [96, 97, 98, 99], b"fine_labels"))
    data = load("cifar10", tmp_path)
    assert data.x_train.shape == (20, 3, 32, 32)
    assert data.y_train.tolist() == np.repeat([1, 2, 3, 4, 5], 4).tolist()
    assert data.y_test.tolist() == [0, 0, 0, 7]
    assert load("cifar100", tmp_path).y_test.tolist() == [96, 97, 98, 99]


class Calls:
    """Pickles to a call of anything."""

    def __init__(self, function, *arguments):
        self.reduced = function, arguments

    def __reduce__(self):
        return self.reduced


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("hide", [False, True])
def test_a_pickle_that_runs_a_command_is_refused(tmp_path, protocol, hide):
    witness = tmp_path / "witness"
    evil = Calls(os.system, f"touch {witness}")
    path = tmp_path / "evil"
    path.write_bytes(pickle.dumps({"data": evil, "labels": [1]} if hide else evil, protocol=protocol))
    with pytest.raises(DataError, match=r"asks to run (posix|os|nt)\.system"):
        read_batch(path, "labels")
    assert not witness.exists()


@pytest.mark.parametrize(
    "function", [eval, exec, getattr, __import__, open, np.load, np.frombuffer, pickle.loads, os.popen]
)
def test_no_other_name_is_admitted(tmp_path, function):
    path = tmp_path / "evil"
    path.write_bytes(pickle.dumps(Calls(function, "1"), protocol=2))
    with pytest.raises(DataError, match="Refused"):
        read_batch(path, "labels")


def test_codecs_encode_is_only_the_inert_one(tmp_path):
    import _codecs

    path = tmp_path / "evil"
    path.write_bytes(pickle.dumps(Calls(_codecs.encode, "abc", "rot13"), protocol=2))
    with pytest.raises(DataError, match="encode with 'rot13'"):
        read_batch(path, "labels")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ([1, 2], "holds a list"),
        ({"data": 1}, "lacks 'data' or 'labels'"),
        ({"data": np.zeros((2, 9), np.uint8), "labels": [1, 2]}, r"not a uint8 array of shape \(n, 3072\)"),
        ({"data": np.zeros((2, 3072), np.float32), "labels": [1, 2]}, "not a uint8 array"),
        ({"data": np.array([[None] * 3072]), "labels": [1]}, "not a uint8 array"),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": ["1"]}, "not a list of small integers"),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": [-1]}, "not a list of small integers"),
    ],
)
def test_other_contents_are_refused(tmp_path, content, says):
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(DataError, match=says):
        read_batch(path, "labels")


def test_a_damaged_batch_is_named(tmp_path, images):
    path = tmp_path / "batch"
    path.write_bytes(python2_batch(images, [1, 2, 3, 4])[:-40])
    with pytest.raises(DataError, match="is not a readable CIFAR batch"):
        read_batch(path, "labels")


NESTED = b"\x80\x02}" + b")" + b"".join(b"q%ch%c\x86" % (k, k) for k in range(1, 60)) + b"Ks."
"""A dictionary whose key is a pair of pairs of pairs, sixty deep and the same one each: 2^60 places to be hashed."""


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (b"\x80\x02}r\xf0\xff\xff\x7f.", "LONG_BINPUT 2147483632"),  # room for as many memories: 32 GiB
        (b"}p9999999999\n.", "PUT 9999999999"),
        (NESTED.replace(b"Ks.", b"K\x01s."), "BINGET of a tuple"),
        (b"\x80\x04})" + b"\x85" * 1_000_000 + b"K\x01s.", "TUPLE1 of a tuple"),
        (b"\x80\x02})q\x00q\x01h\x01h\x01\x86K\x01s.", "BINGET of a tuple"),
        (b"\x80\x02})Nbq\x01h\x01\x86K\x01s.", "BINGET of a tuple"),
        (b"\x80\x02})(eq\x01h\x01\x86K\x01s.", "BINGET of a tuple"),
        (b"\x80\x02})2\x86K\x01s.", "DUP"),
        (b"\x80\x04}K\x01q\x00q\x00)\x94h\x01h\x01\x86.", "BINGET of a tuple"),  # where MEMOIZE really put it
        (b"\x80\x05\x96" + b"\xff" * 7 + b"\x0f.", "not a readable"),
    ],
)
def test_a_program_that_takes_all_time_or_memory_is_refused(tmp_path, program, says):
    path = tmp_path / "batch"
    path.write_bytes(program)
    with pytest.raises(DataError, match=says):
        read_batch(path, "labels")


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
def test_thousands_of_names_beside_the_images(tmp_path, images, protocol):
    """As in the official files: in old formats Python 3 writes each of them as a call with a tuple."""
    path = tmp_path / "batch"
    names = [b"leptodactylus_pentadactylus_s_%06d.png" % k for k in range(3000)]
    content = {b"filenames": names, b"data": images.reshape(4, 3072), b"labels": [9, 0, 1, 2]}
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    assert (read_batch(path, "labels")[0] == images).all()


def test_a_key_of_thousands_of_digits_is_told_in_short(tmp_path):
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps({10**500: 1, b"x": 2}, protocol=2))
    with pytest.raises(DataError, match="lacks 'data' or 'labels'; it holds"):
        read_batch(path, "labels")


@pytest.mark.parametrize(
    "program",
    [b"c" + b"x" * 9000 + b"\nf\n.", b"I" + b"x" * 9000 + b"\n.", pickle.dumps(dict.fromkeys(range(5000)), 2)],
)
def test_what_is_told_of_a_long_program_is_short(tmp_path, program):
    path = tmp_path / "batch"
    path.write_bytes(program)
    with pytest.raises(DataError) as told:
        read_batch(path, "labels")
    assert len(str(told.value)) < 1000
