"""Checkpoints: the same bits back, few bytes, and never half of one."""

import json
import math
import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file

from paceline.ledger.checkpoints import KEPT, Held, _digest, read_checkpoint, write_checkpoint
from paceline.ledger.packing import pack, unpack


def bits(value):
    return value.contiguous().view(torch.uint8).tolist()


@given(
    st.lists(st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, math.nan, math.inf, 1e-45]), max_size=70),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_the_same_bits_come_back(numbers, dtype):
    value = torch.tensor(numbers, dtype=dtype)
    packed = pack(value)
    assert bits(unpack(packed)) == bits(value)


def test_masks_are_bits_and_zeros_are_left_out():
    mask = (torch.rand(10_000, generator=torch.Generator().manual_seed(0)) < 0.3).float()
    assert pack(mask).form == "bits" and sum(part.nbytes for part in pack(mask).parts) == 1250
    sparse = mask * torch.randn(10_000)
    assert pack(sparse).form == "sparse" and sum(part.nbytes for part in pack(sparse).parts) < 15_000
    assert pack(torch.randn(10_000)).form == "dense"


def test_whole_numbers_and_shapes_come_back():
    value = torch.arange(12).reshape(3, 4)
    assert torch.equal(unpack(pack(value)), value)
    part = torch.randn(100, 50)[3]  # a row: the rest of the matrix is not kept with it
    assert pack(part).parts[0].untyped_storage().nbytes() == 200


def values():
    shared = torch.randn(1000)
    mask = (torch.rand(1000) < 0.5).float()
    return {
        3: Held(shared, None),
        5: Held(shared, torch.tensor(0.1)),
        8: Held(mask, torch.tensor(0.1, dtype=torch.float64)),
    }


def test_values_and_figures_come_back(tmp_path):
    kept = values()
    size = write_checkpoint(tmp_path / "c", 7, {"bytes": 3}, kept)
    found, problems = read_checkpoint(tmp_path / "c")
    assert problems == [] and found is not None
    assert (found.stop, found.state) == (7, {"bytes": 3})
    assert size < 4000 + 125 + 2000  # what two share is there once
    for number, (value, figure) in kept.items():
        assert torch.equal(found.values[number].value, value)
        other = found.values[number].figure
        assert (figure is None) == (other is None)
        assert figure is None or (other.dtype == figure.dtype and torch.equal(other, figure))


def test_the_last_few_are_kept_as_far_as_there_is_room(tmp_path):
    sizes = [write_checkpoint(tmp_path / "c", stop, {}, values()) for stop in range(1, 6)]
    assert [path.name for path in sorted((tmp_path / "c").iterdir())] == [
        f"stop-{stop:09d}.safetensors" for stop in range(6 - KEPT, 6)
    ]
    write_checkpoint(tmp_path / "c", 6, {}, values(), 1.5 * max(sizes))
    assert len(list((tmp_path / "c").iterdir())) == 1


@pytest.mark.parametrize("damage", ["cut", "turned", "empty", "other"])
def test_a_damaged_one_is_named_and_the_one_before_taken(tmp_path, damage):
    for stop in (1, 2):
        write_checkpoint(tmp_path / "c", stop, {}, values())
    path = tmp_path / "c" / "stop-000000002.safetensors"
    data = path.read_bytes()
    turned = bytearray(data)
    turned[-1] ^= 255
    path.write_bytes({"cut": data[:-10], "turned": bytes(turned), "empty": b"", "other": b"[]" * 500}[damage])
    found, (problem,) = read_checkpoint(tmp_path / "c")
    assert found is not None and found.stop == 1 and "stop-000000002" in problem


def test_a_damaged_one_does_not_take_the_room_of_those_that_come_after_it(tmp_path):
    """Whoever went on from the one before it comes to the damaged one's stop only later."""
    size, _ = (write_checkpoint(tmp_path / "c", stop, {}, values()) for stop in (1, 9))
    (tmp_path / "c" / "stop-000000009.safetensors").write_bytes(b"damaged" * size)
    assert write_checkpoint(tmp_path / "c", 2, {}, values(), 1.5 * size) == size
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["stop-000000002.safetensors"]


def test_a_draft_is_no_checkpoint(tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "stop-000000001.part").write_bytes(b"half")
    assert read_checkpoint(tmp_path / "c") == (None, [])
    assert read_checkpoint(tmp_path / "none") == (None, [])


def test_a_pipe_in_its_place_is_not_waited_for(tmp_path):
    write_checkpoint(tmp_path / "c", 1, {}, values())
    os.mkfifo(tmp_path / "c" / "stop-000000002.safetensors")
    found, (problem,) = read_checkpoint(tmp_path / "c")
    assert found is not None and found.stop == 1 and "is a pipe" in problem


def signed_anew(path, change):
    """Change a checkpoint's header as somebody would who knows how digests are made."""
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["paceline"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping
    header = change(header)
    save_file(tensors, path, {"paceline": json.dumps(header), "sha256": _digest(tensors, header)})


def within(header, *path, value):
    """The header with another value in one place."""
    inside = header
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    return header


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("stop",), "x"),
        (("stop",), None),
        (("stop",), math.inf),
        (("state",), 3),
        (("index",), []),
        (("index", "models"), [[[], 0, None]]),
        (("index", "models", 0, 1), 99),
        (("index", "models", 1, 2), [0, "nonsense"]),
        (("index", "models", 1, 2), [10**30, "float32"]),
        (("index", "tensors", 0, 0), "bits"),
        (("index", "tensors", 0, 1), [7, 7]),
        (("index", "tensors", 0, 1), [-1, -1]),
        (("index", "tensors", 1, 1), [10**40]),
        (("index", "tensors", 1, 2), "load"),
        (("index", "tensors", 1, 3), []),
    ],
)
def test_one_that_somebody_has_made_is_refused_in_words(tmp_path, path, value):
    write_checkpoint(tmp_path / "c", 1, {}, values())
    signed_anew(tmp_path / "c" / "stop-000000001.safetensors", lambda header: within(header, *path, value=value))
    found, (problem,) = read_checkpoint(tmp_path / "c")
    assert found is None and "is no whole checkpoint" in problem
