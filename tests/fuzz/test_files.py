"""Files, damaged or made to harm: each is read, or refused in words that name it; none is waited for."""

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.config import read_settings
from paceline.data.archives import HARMLESS, read_arrays, read_packed
from paceline.data.dataset import Dataset
from paceline.data.own import _load_once
from paceline.errors import DataError, PacelineError
from paceline.runs.settings import make_settings
from paceline.system.fleet import FleetSettings, build_fleet
from paceline.topology.files import read_graph
from tests.fuzz.hostile import CORPUS, damaged, explained
from tests.fuzz.test_settings import check_fleet


def fleet(**words):
    found = build_fleet(FleetSettings(**words), 4, 0)
    explained(check_fleet, found)
    return found


def a_fleet(path):
    return fleet(file=f"{path},repeat")


def a_dataset(path):
    found = _load_once.__wrapped__(str(path), ())
    assert isinstance(found, Dataset)
    assert np.isfinite(found.features("train")).all()
    return found


READERS = {
    "times": lambda path: fleet(times=f"csv:{path}"),
    "traces": lambda path: fleet(links=f"trace:{path},same"),
    "windows": lambda path: fleet(availability=f"windows:{path}"),
    "fleets": a_fleet,
    "graphs": read_graph,
    "datasets": a_dataset,
    "toml": lambda path: make_settings("fedavg", (), read_settings(path, ["fedavg"])),
}
SEEDS = [path for path in sorted(CORPUS.glob("*/*")) if path.is_file()]
REFUSED = sorted(CORPUS.glob("*/refused/*"))


@pytest.mark.parametrize("seed", SEEDS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_files_that_are_right_are_read(seed):
    assert READERS[seed.parent.name](seed) is not None


@pytest.mark.parametrize("seed", REFUSED, ids=lambda path: f"{path.parent.parent.name}/{path.name}")
def test_files_that_were_found_once_are_refused(seed):
    with pytest.raises(PacelineError):
        READERS[seed.parent.parent.name](seed)


@pytest.mark.parametrize("kind", READERS)
def test_damaged_files(kind, tmp_path_factory):
    folder = tmp_path_factory.mktemp(kind)
    seeds = [path for path in SEEDS if path.parent.name == kind]

    @given(st.data())
    def any_damage(data):
        seed = data.draw(st.sampled_from(seeds))
        path = folder / f"file{seed.suffix}"
        path.write_bytes(data.draw(damaged(seed.read_bytes())))
        explained(READERS[kind], path)

    any_damage()


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("what", ["a pipe", "a device", "a directory", "nothing"])
def test_what_is_no_file(kind, what, tmp_path):
    suffix = {"fleets": ".toml", "datasets": ".npz", "toml": ".toml"}.get(kind, ".csv")
    path = tmp_path / f"it{suffix}"
    if what == "a pipe":
        os.mkfifo(path)
    elif what == "a device":
        path.symlink_to("/dev/zero")
    elif what == "a directory":
        path.mkdir()
    with pytest.raises(PacelineError):
        READERS[kind](path)


def archive(path, shape, megabytes):
    """An archive whose array says one thing and holds another; zeros pack a thousandfold."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": shape})
        with file.open("x.npy", "w", force_zip64=True) as entry:
            entry.write(header.getvalue())
            for _ in range(megabytes):
                entry.write(bytes(1 << 20))
        file.writestr("y.npy", header.getvalue()[:128])
    return path


def test_an_archive_that_unpacks_a_thousandfold_is_refused_unread(tmp_path):
    size = HARMLESS + (1 << 20)
    path = archive(tmp_path / "a.npz", (size,), size >> 20)
    assert path.stat().st_size < size / 100
    with pytest.raises(
        DataError, match=r"claims to unpack to 269,484,160 bytes|claims to unpack to 269,\d+,\d+ bytes"
    ):
        read_arrays(path, ["x"])


def test_what_is_not_asked_for_is_not_read(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.arange(3), bad=np.array([{}], object))
    assert read_arrays(path, ["x"], ["z"])["x"].tolist() == [0, 1, 2]
    with pytest.raises(DataError, match="wanted plain arrays"):
        read_arrays(path, ["bad"])


def test_a_packed_file_that_fills_the_memory_is_refused(tmp_path, monkeypatch):
    import gzip

    monkeypatch.setattr("paceline.data.archives.HARMLESS", 1000)
    monkeypatch.setattr("paceline.data.archives.GROWTH", 2)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(bytes(100_000)))
    with pytest.raises(DataError, match="unpacks to more than 1,000 bytes"):
        read_packed(path)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["<f8", ">i4", "|u1", "<U3", "|b1"])
def test_arrays_come_back_as_numpy_has_them(tmp_path, order, kind):
    array = np.asarray(np.arange(12).reshape(3, 4).astype(kind), order=order)
    np.savez_compressed(tmp_path / "a.npz", x=array)
    found = read_arrays(Path(tmp_path / "a.npz"), ["x"])["x"]
    assert found.dtype == array.dtype
    assert (found == array).all()
