"""Codecs: as many bytes as were promised, the same bits at the other end, and nothing else than ``WireError``."""

import dataclasses
import json
import struct
from functools import lru_cache

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.effort import calls
from torch import nn

from paceline.algorithms import gossip
from paceline.errors import PacelineError
from paceline.learn.codecs import (
    HEADER,
    Bitmap,
    Dense,
    Gsgd,
    Indices,
    Masked,
    Nothing,
    Rounded,
    Top,
    WireError,
    checks,
    codec_from,
    describe,
    mask_codec,
    rounding,
)
from paceline.learn.codecs.packing import pack, unpack
from paceline.learn.codecs.registry import KINDS
from paceline.learn.space import Space
from paceline.learn.sparsity import mask_bytes, maskable, wire_bytes

BITS = range(2, 17)
KEYS = st.integers(-(2**63), 2**63 - 1)
FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)
ODD = st.sampled_from([0.0, -0.0, 1e-45, -1e-45, 1e-38, 1.0, -1.0])
NUMBERS = st.one_of(ODD, st.floats(-10, 10, width=32), FINITE)
VECTORS = st.lists(NUMBERS, min_size=1, max_size=40).map(torch.tensor)
LOSSY = st.one_of(
    st.builds(Rounded, st.sampled_from(BITS), st.none() | KEYS), st.builds(Gsgd, st.sampled_from(BITS), KEYS)
)
CODECS = st.one_of(st.just(Dense()), st.builds(Top, st.floats(0.001, 1)), LOSSY)
EVERY = [Dense(), Masked(31), Bitmap(), Indices(16), Nothing(), Top(0.3), Rounded(5), Rounded(11, 3), Gsgd(7, -4)]
"""One of each kind, for the masks and vectors of ``NET``."""


@lru_cache
def space_of(size, dtype=torch.float32):
    return Space(f"line-{size}", lambda: nn.Linear(size, 1, bias=False), (size,), dtype)


def net(dtype=torch.float32):
    return Space(
        "net", lambda: nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 3)), (5,), dtype
    )


NET = net()
WEIGHTS = 5 * 4 + 4 * 3
ALWAYS = 4 + 2 * 4 + 3


def bits_of(x):
    return x.contiguous().view(torch.int32 if x.dtype == torch.float32 else torch.int64).tolist()


def mask_of(active):
    """A mask of NET: these weights, in the order of the flat vector, and all that is never masked."""
    mask, at = torch.ones(NET.size), 0
    for slot in maskable(NET):
        count = slot.stop - slot.start
        mask[slot.start : slot.stop] = torch.tensor(active[at : at + count], dtype=torch.float32)
        at += count
    return mask


MASKS = st.lists(st.booleans(), min_size=WEIGHTS, max_size=WEIGHTS).map(mask_of)
MASK = mask_of([k % 2 for k in range(WEIGHTS)])
X = torch.linspace(-1, 1, NET.size)


def told(codec):
    """What a codec of ``EVERY`` is given to write, and what both ends know."""
    if isinstance(codec, Bitmap | Indices | Nothing):
        return MASK, MASK
    return X, MASK


def check(codec, space, x, *context):
    """Length, and the bits at the other end."""
    data = codec.encode(space, x, *context)
    assert len(data) == HEADER + codec.size(space)
    assert type(codec.size(space)) is int
    arrived, expected = codec.decode(space, data, *context), codec.through(x, *context)
    assert arrived.dtype == expected.dtype and arrived.shape == expected.shape
    assert bits_of(arrived) == bits_of(expected)
    return data


# -- round trips -----------------------------------------------------------------------------------------------------


@given(CODECS, VECTORS)
def test_what_arrives_is_what_went_through(codec, x):
    space, before = space_of(len(x)), bits_of(x)
    if codec.through(x).isfinite().all():
        check(codec, space, x)
    else:  # the norm, or the step times the largest whole number, overflows
        with pytest.raises(WireError, match="infinite"):
            codec.encode(space, x)
    assert bits_of(x) == before


@given(MASKS, st.lists(NUMBERS, min_size=NET.size, max_size=NET.size).map(torch.tensor))
def test_masked_values_and_masks_arrive(mask, x):
    active = int(mask.sum())
    check(Masked(active), NET, x, mask)
    assert bits_of(Masked(active).through(x, mask)) == bits_of(torch.where(mask == 1, x, torch.tensor(0.0)))
    check(Masked(active), NET, x, mask.bool())
    for codec in (Bitmap(), Indices(active - ALWAYS), Nothing()):
        check(codec, NET, mask, mask)
        assert torch.equal(codec.through(mask, mask), mask)


@given(MASKS)
def test_sizes_are_those_that_sparse_models_are_charged(mask):
    counts = torch.tensor([[int(mask[slot.start : slot.stop].sum()) for slot in maskable(NET)]])
    active = int(counts.sum())
    codec = mask_codec(NET, active)
    check(codec, NET, mask)
    assert codec.size(NET) == mask_bytes(counts, maskable(NET)).item()
    both = Masked(active + ALWAYS).size(NET) + codec.size(NET)
    assert both == wire_bytes(NET, counts).item()
    assert Masked(active + ALWAYS).size(NET) + Nothing().size(NET) == wire_bytes(NET, counts, changed=False).item()


def test_layers_may_be_left_out_of_masks():
    every = maskable(NET)
    assert [slot.name for slot in every] == ["0.weight", "3.weight"]
    mask = torch.ones(NET.size)
    mask[every[1].start : every[1].stop - 1] = 0
    for active, slots in ((12, every[1:]), (1, every[1:]), (0, every[1:]), (0, ()), (1, every), (32, None)):
        codec = mask_codec(NET, active, slots)
        want = mask_bytes(torch.tensor([[active]]), every if slots is None else slots)
        assert codec.size(NET) == want.item()
    check(Bitmap(("0.weight",)), NET, mask)
    check(Indices(1, ("0.weight",)), NET, mask)
    check(Bitmap(("0.weight", "3.weight")), NET, torch.ones(NET.size))
    with pytest.raises(WireError, match=r"11 zeros on parameters that are never masked"):
        Bitmap(("3.weight",)).encode(NET, mask)
    with pytest.raises(WireError, match=r"0\.bias cannot be masked"):
        mask_codec(NET, 1, NET.slots[1:2])
    with pytest.raises(WireError, match="which nothing masks"):
        Bitmap(("0",)).size(NET)
    with pytest.raises(WireError, match="active is 33; wanted a whole number from 0 to 32"):
        mask_codec(NET, 33)


def test_a_dense_model_has_the_bytes_of_its_space():
    assert Dense().size(NET) == NET.nbytes


def test_the_format_is_what_it_was():
    """A change here needs another version number."""
    head = bytes.fromhex("50414345 01 01 01 00 0200000000000000")
    assert Dense().encode(space_of(2), torch.tensor([1.0, -0.0])) == head + struct.pack("<2f", 1.0, -0.0)
    x = torch.tensor([3.0, -7.0, -0.0])  # steps of 1: 3, sign and 7, sign and 0, from the lowest bit
    assert Rounded(4).encode(space_of(3), x)[HEADER:] == struct.pack("<f", 1.0) + bytes([0xF3, 0x08])
    assert Top(0.5).encode(space_of(3), x)[HEADER:] == struct.pack("<2I2f", 0, 1, 3.0, -7.0)
    assert Bitmap().encode(NET, MASK)[HEADER:] == b"\xaa" * 4
    assert Indices(16).encode(NET, MASK)[HEADER:] == struct.pack("<16I", *range(1, 32, 2))
    assert [kind.code for kind in KINDS] == [1, 2, 3, 4, 5, 6, 7, 8]


# -- the formulas of the algorithms ----------------------------------------------------------------------------------


def kept_of(size, share):
    return max(1, round(share * size))


def largest(rows, share):
    """BEER's other compressor, row by row."""
    places = rows.abs().topk(kept_of(rows.shape[1], share), dim=1).indices
    return torch.zeros_like(rows).scatter_(1, places, rows.gather(1, places))


def gsgd(x, bits, key):
    """sign(x) floor(s |x|/|x|_2 + u) |x|_2 / (s tau) as it stands, with whole numbers up to s."""
    levels, count = 2.0 ** (bits - 1), x.numel()
    damping = 1.0 + min(count / levels**2, count**0.5 / levels)
    norm = x.norm().clamp(min=torch.finfo(x.dtype).tiny)
    whole = (x.abs() / norm).mul_(levels).add_(gossip.draws(key, x)).floor_()
    return whole.mul_(x.sign()).mul_(norm / (levels * damping))


def step_of(x, bits):
    """DFedAvgM's: the largest number has 2^(bits-1) - 1 of them."""
    step = x.abs().amax(dim=-1, keepdim=True) / (2 ** (bits - 1) - 1)
    return step.clamp(min=torch.finfo(x.dtype).tiny)


def to_nearest(rows, bits):
    step = step_of(rows, bits)
    return (rows / step).round_().mul_(step)


def at_random(x, bits, key):
    """Up with the probability that makes the mean right."""
    step, most = step_of(x, bits), 2 ** (bits - 1) - 1
    return (x / step).add_(gossip.draws(key, x)).floor_().clamp_(-most, most).mul_(step)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(x=VECTORS, share=st.floats(0.001, 1))
def test_top_is_beers(dtype, x, share):
    x = x.to(dtype)
    assert Top(share).kept(len(x)) == kept_of(len(x), share)
    assert bits_of(Top(share).through(x)) == bits_of(largest(x[None], share=share)[0])


def test_top_chooses_as_topk_among_equals():
    x = torch.tensor([1.0, -1.0] * 500 + [0.5] * 24)
    for share in (0.01, 0.3, 0.98, 1.0):
        check(Top(share), space_of(len(x)), x)
        rows = torch.stack([x, x.flip(0), torch.zeros_like(x)])
        assert bits_of(Top(share).through(rows)) == bits_of(largest(rows, share=share))
        assert all(bits_of(Top(share).through(row)) == bits_of(largest(row[None], share=share)[0]) for row in rows)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(x=VECTORS, key=KEYS)
@settings(max_examples=25)
@example(x=torch.tensor([3.4028234663852886e38, -1.0, 0.0]), key=1)
def test_rounded_is_dfedavgms(dtype, x, key):
    """To the sign of a zero, and where it overflows."""
    x = x.to(dtype)
    rows = torch.stack([x, -x])
    for bits in BITS:
        assert bits_of(Rounded(bits, key).through(x)) == bits_of(at_random(x, bits=bits, key=key))
        assert bits_of(Rounded(bits).through(x)) == bits_of(to_nearest(x[None], bits=bits)[0])
        assert bits_of(Rounded(bits).through(rows)) == bits_of(to_nearest(rows, bits=bits))
        for codec in (Rounded(bits), Rounded(bits, key)):
            assert codec.parts(x).whole_P.abs().max() <= 2 ** (bits - 1) - 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(x=st.lists(st.floats(-10, 10, width=32), min_size=1, max_size=40).map(torch.tensor), key=KEYS)
@settings(max_examples=25)
def test_gsgd_is_beers_but_for_what_does_not_fit(dtype, x, key):
    x = x.to(dtype)
    for bits in BITS:
        codec, most = Gsgd(bits, key), 2 ** (bits - 1) - 1
        formula, scale = gsgd(x, bits=bits, key=key), codec.parts(x).scale
        fits = (formula / scale).abs() < most + 0.5
        assert bits_of(codec.through(x)[fits]) == bits_of(formula[fits])
        assert bits_of(codec.through(x)[~fits]) == bits_of((x.sign() * most * scale)[~fits])


def test_the_largest_number_may_not_fit_in_gsgds_bits():
    """Why whole numbers are held: a vector of one number is s steps long, and s needs a bit more."""
    x = torch.tensor([3.0])
    assert (gsgd(x, bits=8, key=1) / Gsgd(8, 1).parts(x).scale).item() == 128
    assert Gsgd(8, 1).parts(x).whole_P.item() == 127


@given(KEYS, st.integers(1, 50))
def test_draws_are_those_of_gossip(key, size):
    like = torch.zeros(size)
    assert torch.equal(rounding.draws(key, like), gossip.draws(key, like))


# -- packing ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 2**16 - 1), max_size=40))
def test_packed_bits_are_one_long_number(numbers):
    for bits in BITS:
        codes = [number % 2**bits for number in numbers]
        packed = pack(np.array(codes, np.uint16), bits)
        slow = sum(code << (k * bits) for k, code in enumerate(codes))
        assert packed == slow.to_bytes(-(-len(codes) * bits // 8), "little")
        assert unpack(memoryview(packed), len(codes), bits).tolist() == codes


@given(VECTORS.filter(lambda x: x.abs().max() < 1e18), KEYS)
@settings(max_examples=15)
def test_every_number_of_bits_arrives(x, key):
    for bits in BITS:
        for codec in (Rounded(bits), Rounded(bits, key), Gsgd(bits, key)):
            check(codec, space_of(len(x)), x)


@pytest.mark.parametrize("bits", [3, 16])
def test_a_million_numbers_are_not_packed_one_by_one(bits):
    codes = (np.arange(1_000_001) % 2**bits).astype(np.uint16)

    def there_and_back():
        assert np.array_equal(unpack(memoryview(pack(codes, bits)), codes.size, bits), codes)

    assert calls(there_and_back) < 1000


def test_large_vectors_arrive():
    x = torch.sin(torch.arange(300_007.0)) ** 5
    for codec in (Dense(), Top(0.01), Rounded(3, 5), Rounded(13), Gsgd(8, 5)):
        check(codec, space_of(len(x)), x)


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", EVERY, ids=str)
@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_is_not_sent(codec, wrong):
    x, mask = told(codec)
    check(codec, NET, x, mask)
    x = x.clone()
    x[3] = wrong
    with pytest.raises(WireError, match="1 of 47 numbers that are NaN or infinite; wanted finite"):
        codec.encode(NET, x, mask)


@pytest.mark.parametrize("codec", EVERY, ids=str)
def test_vectors_of_another_shape_or_precision_are_not_sent(codec):
    x, mask = told(codec)
    for other in (x[:-1], x[None], x.double(), x.half()):
        with pytest.raises(WireError, match=r"wanted \(47,\) of torch.float32"):
            codec.encode(NET, other, mask)


@pytest.mark.parametrize("codec", EVERY, ids=str)
def test_double_precision_goes_through_unrounded_and_is_not_sent(codec):
    space = net(torch.float64)
    x, mask = (tensor.double() for tensor in told(codec))
    x = x if told(codec)[0] is MASK else x / 3
    assert codec.size(space) == codec.size(NET)
    assert codec.through(x, mask).dtype == torch.float64
    if isinstance(codec, Dense | Nothing | Bitmap | Indices):
        assert torch.equal(codec.through(x, mask), x)
    with pytest.raises(WireError, match="computes in float64, but the wire carries 4 bytes a number; run with exec"):
        codec.encode(space, x, mask)
    with pytest.raises(WireError, match="4 bytes a number"):
        codec.decode(space, codec.encode(NET, *told(codec)), mask)


def test_wrong_masks_are_refused():
    data = Masked(31).encode(NET, X, MASK)
    more = MASK.clone()
    more[0] = 1
    half = MASK * 0.5
    cases = [(more, "32 ones over all parameters; wanted 31"), (half, "31 numbers that are neither 0 nor 1")]
    for wrong, said in cases:
        with pytest.raises(WireError, match=said):
            Masked(31).encode(NET, X, wrong)
        with pytest.raises(WireError, match=said):
            Masked(31).decode(NET, data, wrong)
    for codec in (Masked(31), Nothing()):
        for use in (lambda c: c.encode(NET, MASK), lambda c: c.through(X), lambda c: c.decode(NET, c.encode(NET, X))):
            with pytest.raises(WireError, match="no tensor came that both ends know"):
                use(codec)
    with pytest.raises(WireError, match="17 ones among 32 weights; wanted 16"):
        Indices(16).encode(NET, more)
    with pytest.raises(WireError, match="neither 0 nor 1"):
        Bitmap().encode(NET, half)
    with pytest.raises(WireError, match="1 zeros on parameters that are never masked"):
        Bitmap().encode(NET, torch.cat([MASK[:-1], torch.zeros(1)]))
    with pytest.raises(WireError, match="knows another vector"):
        Nothing().encode(NET, MASK, more)
    with pytest.raises(WireError, match=r"the mask is \(46,\); wanted \(47,\)"):
        Masked(31).encode(NET, X, MASK[1:])


def test_places_that_4_bytes_cannot_tell_are_refused():
    assert checks.places_to_bytes(torch.tensor([2**32 - 1]), 2**32) == b"\xff" * 4
    with pytest.raises(WireError, match="wanted 4294967296 at most"):
        checks.places_to_bytes(torch.tensor([0]), 2**32 + 1)


# -- hostile bytes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "came", "said"),
    [
        (0, b"PICK", r"begins with b'PICK'; wanted b'PACE'"),
        (4, b"\x02", "format version is 2; wanted 1"),
        (5, b"\x07", r"codec is 7; wanted 1 \(Dense, net\)"),
        (6, b"\x02", "dtype is 2; wanted 1"),
        (7, b"\x01", "padding is 1; wanted 0"),
        (8, b"\xff" * 8, "number of parameters is 18446744073709551615; wanted 47"),
        (16, struct.pack("<f", float("nan")), "NaN"),
        (HEADER + 4 * 47, b"\x00", r"has 205 bytes; wanted 204 for Dense\(number=4\) of net"),
    ],
)
def test_errors_name_what_came_and_what_was_wanted(at, came, said):
    data = bytearray(Dense().encode(NET, X))
    data[at : at + len(came)] = came
    with pytest.raises(WireError, match=said):
        Dense().decode(NET, bytes(data))


@pytest.mark.parametrize(
    ("codec", "payload", "said"),
    [
        (Top(0.04), struct.pack("<2I2f", 3, 3, 1, 1), "index 3 after 3"),
        (Top(0.04), struct.pack("<2I2f", 4, 3, 1, 1), "index 3 after 4"),
        (Top(0.04), struct.pack("<2I2f", 3, 47, 1, 1), "index 47; wanted indices below 47"),
        (Top(0.04), struct.pack("<2I2f", 3, 2**32 - 1, 1, 1), "index 4294967295"),
        (Top(0.04), struct.pack("<2I2f", 3, 4, 1, float("inf")), "infinite"),
        (Indices(2), struct.pack("<2I", 5, 4), "index 4 after 5"),
        (Indices(2), struct.pack("<2I", 5, 32), "index 32; wanted indices below 32"),
        (Rounded(3), struct.pack("<f", float("nan")) + bytes(18), "NaN"),
        (Rounded(3), struct.pack("<f", 0.0) + bytes(18), "scale is 0.0; wanted one above 0"),
        (Gsgd(3, 1), struct.pack("<f", -1.0) + bytes(18), "scale is -1.0"),
        (Gsgd(3, 1), struct.pack("<f", 3e38) + b"\xff" * 17 + b"\x1f", "NaN or infinite"),
        (Rounded(3), struct.pack("<f", 1.0) + bytes(17) + b"\x80", "ones behind the last of 47 numbers of 3 bits"),
    ],
)
def test_payloads_that_nobody_writes_are_refused(codec, payload, said):
    head = Dense().encode(NET, X)[:HEADER]
    head = head[:5] + bytes([codec.code]) + head[6:]
    with pytest.raises(WireError, match=said):
        codec.decode(NET, head + payload)


def test_ones_behind_a_bitmap_are_refused():
    space = space_of(9)
    data = Bitmap().encode(space, torch.ones(9))
    with pytest.raises(WireError, match="behind the last of 9 weights"):
        Bitmap().decode(space, data[:-1] + b"\x03")


@st.composite
def mutated(draw, data):
    """A message with bytes changed, cut, put in or put behind."""
    data = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        kind = draw(st.sampled_from(["change", "cut", "insert", "drop"]))
        if kind == "change":
            data[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
        elif kind == "cut":
            del data[at:]
        elif kind == "insert":
            data[at:at] = draw(st.binary(max_size=9))
        else:
            del data[at : at + draw(st.integers(1, 9))]
    return bytes(data)


@pytest.mark.parametrize("codec", EVERY, ids=str)
@given(data=st.data())
def test_mutated_bytes_are_a_vector_or_a_wire_error(codec, data):
    """A vector only if length and header are right; and then one that the codec could have sent."""
    x, mask = told(codec)
    sent = codec.encode(NET, x, mask)
    junk = st.binary(max_size=300)
    came = data.draw(mutated(sent) | junk | junk.map(lambda more: sent[:HEADER] + more))
    try:
        found = codec.decode(NET, came, mask)
    except WireError:
        assert came != sent
        return
    assert len(came) == len(sent) and came[:HEADER] == sent[:HEADER]
    assert found.shape == (NET.size,) and found.dtype == torch.float32 and found.isfinite().all()
    if isinstance(codec, Dense | Masked | Bitmap | Indices | Nothing):  # others choose, or round, once more
        assert codec.encode(NET, found, mask) == came


@pytest.mark.parametrize("codec", EVERY, ids=str)
def test_every_cut_and_every_changed_header_is_refused(codec):
    x, mask = told(codec)
    sent = codec.encode(NET, x, mask)
    wrong = [sent[:k] for k in range(len(sent))] + [sent + b"\x00"]
    wrong += [sent[:k] + bytes([sent[k] ^ (1 << bit)]) + sent[k + 1 :] for k in range(HEADER) for bit in range(8)]
    for data in wrong:
        with pytest.raises(WireError):
            codec.decode(NET, data, mask)


# -- descriptions ----------------------------------------------------------------------------------------------------

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from([*EVERY, Bitmap(("0.weight",)), Indices(3, ("0.weight",)), Gsgd(16, -(2**63))]) | CODECS)
def test_a_description_is_plain_and_makes_the_same_codec(codec):
    described = describe(codec)
    assert json.loads(json.dumps(described)) == described
    assert codec_from(described) == codec and hash(codec_from(described)) == hash(codec)
    assert described["name"] == type(codec).__name__.lower()


@pytest.mark.parametrize(
    ("description", "said"),
    [
        (None, "wanted a dictionary with a name"),
        ([], "wanted a dictionary"),
        ({"name": 3}, "wanted a dictionary with a name"),
        ({"name": ["dense"]}, "wanted a dictionary with a name"),
        ({"name": "round"}, r"the codec's name is 'round'; did you mean 'rounded'\?"),
        ({"name": "__class__"}, "known: bitmap, dense"),
        ({"name": "rounded", "bits": 8}, r"rounded came with \['bits'\]; wanted bits, key"),
        ({"name": "nothing", "code": 1}, "wanted no fields"),
        ({"name": "dense", "number": 4, 7: 7}, "wanted number"),
        ({"name": "dense", "number": 8}, "number is 8; wanted 4"),
        ({"name": "dense", "number": 4.0}, "number is 4.0; wanted 4"),
        ({"name": "rounded", "bits": 1, "key": None}, "bits is 1; wanted a whole number from 2 to 16"),
        ({"name": "rounded", "bits": 17, "key": None}, "bits is 17"),
        ({"name": "rounded", "bits": True, "key": None}, "bits is True"),
        ({"name": "rounded", "bits": "8", "key": None}, "bits is '8'"),
        ({"name": "rounded", "bits": 8, "key": 2**63}, "key is 9223372036854775808"),
        ({"name": "rounded", "bits": 8, "key": 10**5000}, r"key is too long a value \(int\)"),
        ({"name": "gsgd", "bits": 8, "key": None}, "key is None"),
        ({"name": "masked", "active": -1}, "active is -1"),
        ({"name": "top", "share": 0.0}, "share is 0.0; wanted a number above 0 and at most 1"),
        ({"name": "top", "share": float("nan")}, "share is nan"),
        ({"name": "top", "share": 1.5}, "share is 1.5"),
        ({"name": "top", "share": 10**400}, "share is 1000"),
        ({"name": "top", "share": True}, "share is True"),
        ({"name": "bitmap", "leave_out": "0.weight"}, "wanted a list of names"),
        ({"name": "bitmap", "leave_out": [1]}, "wanted a list of names"),
    ],
)
def test_impossible_descriptions_are_refused(description, said):
    with pytest.raises(WireError, match=said):
        codec_from(description)


@given(ANY | st.fixed_dictionaries({"name": st.sampled_from([k.__name__.lower() for k in KINDS])}), st.data())
def test_any_description_is_a_codec_or_a_wire_error(description, data):
    if isinstance(description, dict):
        names = sorted({field.name for kind in KINDS for field in dataclasses.fields(kind)})
        description |= data.draw(st.dictionaries(st.sampled_from(names), ANY, max_size=2))
    try:
        codec = codec_from(description)
    except WireError:
        return
    assert codec_from(describe(codec)) == codec


def test_only_known_codecs_are_described():
    assert issubclass(WireError, PacelineError)
    with pytest.raises(WireError, match="no name on the wire"):
        describe("dense")
    with pytest.raises(dataclasses.FrozenInstanceError):
        Dense().number = 8


# -- a GPU -----------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("codec", EVERY, ids=str)
def test_a_gpu_sends_what_it_has(codec):
    x, mask = (tensor.cuda() for tensor in told(codec))
    data = codec.encode(NET, x, mask)
    here = codec.through(x, mask)
    assert here.is_cuda
    assert bits_of(codec.decode(NET, data, mask).cpu()) == bits_of(here.cpu())
    assert bits_of(codec.decode(NET, data, mask.cpu())) == bits_of(here.cpu())
