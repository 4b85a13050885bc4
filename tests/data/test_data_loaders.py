"""Every loader on small files of the published layout, which the tests make."""

from __future__ import annotations

import csv
import gzip
import io
import json
import struct

import numpy as np
import pytest
from PIL import Image

from paceline.data.dataset import save_npz
from paceline.data.loaders.skin import LESIONS, SITES, held_out
from paceline.data.registry import load
from paceline.errors import DataError
from paceline.seeds import stream


def random_images(*shape, at="images"):
    return stream(0, at, *shape).integers(0, 256, shape).astype(np.uint8)


def write_idx(path, array):
    blob = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(blob) if path.suffix == ".gz" else blob)


def jpeg(image):
    out = io.BytesIO()
    Image.fromarray(image).save(out, "JPEG", quality=95)
    return out.getvalue()


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("mnist", "mnist"),
        ("mnist", "MNIST/raw"),
        ("fashion-mnist", "fashion-mnist"),
        ("fashion-mnist", "FashionMNIST/raw"),
    ],
)
def test_idx(tmp_path, name, folder, suffix):
    x, y = random_images(6, 28, 28), np.arange(6, dtype=np.uint8)
    for part, n in (("train", 6), ("t10k", 2)):
        write_idx(tmp_path / folder / f"{part}-images-idx3-ubyte{suffix}", x[:n])
        write_idx(tmp_path / folder / f"{part}-labels-idx1-ubyte{suffix}", y[:n])
    data = load(name, tmp_path)
    assert data.name == name
    assert (data.x_train[:, 0] == x).all()
    assert (data.x_test[:, 0] == x[:2]).all()
    assert data.y_train.tolist() == [0, 1, 2, 3, 4, 5]
    assert data.classes == 10


def test_idx_damage_is_named(tmp_path):
    folder = tmp_path / "mnist"
    for part in ("train", "t10k"):
        write_idx(folder / f"{part}-images-idx3-ubyte", random_images(3, 28, 28))
        write_idx(folder / f"{part}-labels-idx1-ubyte", np.zeros(3, np.uint8))
    victim = folder / "train-images-idx3-ubyte"
    whole = victim.read_bytes()
    victim.write_bytes(whole[:-1])
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte: header says .* but 2351 bytes follow"):
        load("mnist", tmp_path)
    victim.write_bytes(b"hello")
    with pytest.raises(DataError, match="not an idx file"):
        load("mnist", tmp_path)
    victim.write_bytes(whole[:6])
    with pytest.raises(DataError, match="ends within its header"):
        load("mnist", tmp_path)
    victim.write_bytes(whole)
    write_idx(folder / "train-labels-idx1-ubyte", np.zeros(2, np.uint8))
    with pytest.raises(DataError, match="3 samples but labels"):
        load("mnist", tmp_path)


def test_a_truncated_gzip_is_named(tmp_path):
    for part in ("train", "t10k"):
        write_idx(tmp_path / "mnist" / f"{part}-images-idx3-ubyte.gz", random_images(3, 28, 28))
        write_idx(tmp_path / "mnist" / f"{part}-labels-idx1-ubyte.gz", np.zeros(3, np.uint8))
    victim = tmp_path / "mnist" / "t10k-images-idx3-ubyte.gz"
    victim.write_bytes(victim.read_bytes()[:500])
    with pytest.raises(DataError, match=r"t10k-images-idx3-ubyte\.gz cannot be read"):
        load("mnist", tmp_path)


@pytest.mark.parametrize(
    ("name", "classes", "shape"),
    [
        ("mnist", 10, (28, 28)),
        ("fashion-mnist", 10, (28, 28)),
        ("cifar10", 10, (32, 32, 3)),
        ("cifar100", 100, (32, 32, 3)),
        ("tiny-imagenet", 200, (64, 64, 3)),
        ("femnist", 62, (28, 28)),
    ],
)
def test_npz(tmp_path, name, classes, shape):
    x, y = random_images(5, *shape), np.arange(5, dtype=np.uint8)
    np.savez(tmp_path / f"{name}.npz", x_train=x, y_train=y[:, None], x_test=x[:2], y_test=y[:2])
    data = load(name, tmp_path)
    assert data.classes == classes
    channels = 1 if len(shape) == 2 else 3
    assert data.x_train.shape == (5, channels, *shape[:2])
    assert (data.x_train[3, channels - 1] == x[3].reshape(*shape[:2], channels)[..., -1]).all()
    assert data.y_train.tolist() == [0, 1, 2, 3, 4]
    assert data.group_train is None


def test_npz_of_the_wrong_kind_is_refused(tmp_path):
    path = tmp_path / "cifar10.npz"
    np.savez(path, x_train=np.zeros(3))
    with pytest.raises(DataError, match="lacks y_train, x_test, y_test; it holds x_train"):
        load("cifar10", tmp_path)
    path.write_bytes(b"PK\x03\x04 not really")
    with pytest.raises(DataError, match=r"not a readable \.npz"):
        load("cifar10", tmp_path)
    objects = np.array([{"a": 1}], dtype=object)
    np.savez(path, x_train=objects, y_train=objects, x_test=objects, y_test=objects)
    with pytest.raises(DataError, match="plain arrays"):
        load("cifar10", tmp_path)
    x = np.zeros((2, 3, 32, 32), np.uint8)
    np.savez(path, x_train=x, y_train=np.zeros(2), x_test=x, y_test=np.zeros(2))
    with pytest.raises(DataError, match=r"wanted uint8 \(n, height, width\[, channels\]\)"):
        load("cifar10", tmp_path)


def test_cifar10_binary(tmp_path):
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    x = random_images(12, 3, 32, 32)
    y = np.arange(12, dtype=np.uint8) % 10
    rows = np.concatenate([y[:, None], x.reshape(12, -1)], axis=1)
    for i in range(5):
        (folder / f"data_batch_{i + 1}.bin").write_bytes(rows[2 * i : 2 * i + 2].tobytes())
    (folder / "test_batch.bin").write_bytes(rows[10:].tobytes())
    data = load("cifar10", tmp_path)
    assert (data.x_train == x[:10]).all()
    assert (data.x_test == x[10:]).all()
    assert data.y_train.tolist() == y[:10].tolist()
    (folder / "test_batch.bin").write_bytes(rows[10:].tobytes()[:-1])
    with pytest.raises(DataError, match="6145 bytes is not a whole number of 3073-byte records"):
        load("cifar10", tmp_path)


def test_cifar100_binary_takes_the_fine_label(tmp_path):
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    x = random_images(4, 3, 32, 32)
    coarse, fine = np.array([[1], [2], [3], [4]], np.uint8), np.array([[90], [91], [92], [93]], np.uint8)
    rows = np.concatenate([coarse, fine, x.reshape(4, -1)], axis=1)
    (folder / "train.bin").write_bytes(rows[:3].tobytes())
    (folder / "test.bin").write_bytes(rows[3:].tobytes())
    data = load("cifar100", tmp_path)
    assert data.y_train.tolist() == [90, 91, 92]
    assert data.y_test.tolist() == [93]
    assert (data.x_test == x[3:]).all()


def test_cifar10_jpeg_mosaics_are_close_and_named_as_what_they_are(tmp_path):
    """Smooth tiles survive JPEG well; a tile in the wrong place would be off by tens of grey levels."""
    y = (np.arange(6 * 2500) % 10).astype(np.uint8)
    level = stream(0, "level").integers(40, 216, (6 * 2500, 1, 1, 3)).astype(np.uint8)
    tiles = np.broadcast_to(level, (6 * 2500, 32, 32, 3))
    sheets = tiles.reshape(6, 50, 50, 32, 32, 3).transpose(0, 1, 3, 2, 4, 5).reshape(6, 1600, 1600, 3)
    blobs = [jpeg(np.ascontiguousarray(sheet)) for sheet in sheets]
    np.savez(
        tmp_path / "cifar10_jpeg95.npz",
        jpeg=np.frombuffer(b"".join(blobs), np.uint8),
        off=np.cumsum([0, *map(len, blobs)]),
        y=y,
    )
    data = load("cifar10", tmp_path)
    assert data.name == "cifar10-jpeg95"
    assert (len(data.y_train), len(data.y_test)) == (12_500, 2500)
    centre = data.x_train[:, :, 12:20, 12:20].astype(float).mean(axis=(2, 3))
    assert np.abs(centre - level[:12_500, 0, 0]).mean() < 5


def leaf(users):
    return json.dumps(
        {
            "users": list(users),
            "num_samples": [len(y) for _, y in users.values()],
            "user_data": {u: {"x": (x / 255).tolist(), "y": y} for u, (x, y) in users.items()},
        }
    )


def test_femnist_leaf(tmp_path):
    x = random_images(7, 784)
    train, test = tmp_path / "femnist/data/train", tmp_path / "femnist/data/test"
    train.mkdir(parents=True)
    test.mkdir()
    (train / "all_data_0.json").write_text(leaf({"f10": (x[:2], [3, 61]), "f02": (x[2:3], [0])}))
    (train / "all_data_1.json").write_text(leaf({"f55": (x[3:5], [5, 6])}))
    (test / "all_data_0.json").write_text(leaf({"f55": (x[5:6], [5]), "f10": (x[6:], [3])}))
    data = load("femnist", tmp_path)
    assert (data.x_train.reshape(5, 784) == x[:5]).all()  # byte/255 and back, exactly
    assert data.y_train.tolist() == [3, 61, 0, 5, 6]
    assert data.group_train.tolist() == [1, 1, 0, 2, 2]  # f02, f10, f55
    assert data.group_test.tolist() == [2, 1]
    save_npz(data, tmp_path / "femnist.npz")
    again = load("femnist", tmp_path)
    assert (again.x_train == data.x_train).all()
    assert (again.group_test == data.group_test).all()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "is not a LEAF file"),
        ('{"users": []}', "is not a LEAF file: KeyError"),
        (
            '{"users": ["a"], "num_samples": [2], "user_data": {"a": {"x": [], "y": []}}}',
            "user a: says 2 samples, has 0 images",
        ),
        (
            json.dumps({"users": ["a"], "num_samples": [1], "user_data": {"a": {"x": [[2.0] * 784], "y": [0]}}}),
            r"user a: image 0 has pixels outside 0\.\.1",
        ),
        (
            json.dumps({"users": ["a"], "num_samples": [1], "user_data": {"a": {"x": [[0.5] * 9], "y": [0]}}}),
            "is not a LEAF file: ValueError",
        ),
    ],
)
def test_femnist_damage_is_named(tmp_path, content, says):
    for part in ("train", "test"):
        (tmp_path / "femnist/data" / part).mkdir(parents=True)
        (tmp_path / "femnist/data" / part / "a.json").write_text(content)
    with pytest.raises(DataError, match=says):
        load("femnist", tmp_path)


N_SKIN = 40


def skin_columns():
    rng = stream(0, "skin")
    isic = 24306 + rng.permutation(N_SKIN)
    return isic, rng.integers(0, 7, N_SKIN), (isic - 24306) // 2, rng.integers(0, 4, N_SKIN)


def write_ham_npz(root, pictures):
    isic, y, lesion, site = skin_columns()
    np.savez(
        root / "ham10000_200x150_jpeg.npz",
        jpeg=np.frombuffer(b"".join(pictures), np.uint8),
        off=np.cumsum([0, *map(len, pictures)]),
        isic=isic.astype(np.int32),
        y=y.astype(np.uint8),
        lesion=lesion.astype(np.int16),
        site=site.astype(np.uint8),
    )


def write_ham_folder(root, pictures, with_site=True):
    isic, y, lesion, site = skin_columns()
    (root / "ham10000/HAM10000_images_part_1").mkdir(parents=True)
    (root / "ham10000/HAM10000_images_part_2").mkdir()
    with (root / "ham10000/HAM10000_metadata.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["lesion_id", "image_id", "dx", "age", *(["dataset"] if with_site else [])])
        for i, picture in enumerate(pictures):
            name = f"ISIC_{isic[i]:07d}"
            # lesion names sort unlike their numbers: the split must not depend on that
            row = [f"HAM_{999 - lesion[i]:07d}", name, LESIONS[y[i]], "50.0"]
            table.writerow([*row, *([SITES[site[i]]] if with_site else [])])
            (root / f"ham10000/HAM10000_images_part_{i % 2 + 1}" / f"{name}.jpg").write_bytes(picture)


@pytest.fixture(scope="module")
def skin_pictures():
    return [jpeg(np.full((150, 200, 3), 3 + 6 * i, np.uint8)) for i in range(N_SKIN)]


def test_ham10000_is_the_same_from_both_layouts(tmp_path, skin_pictures):
    for folder, write in (("a", write_ham_npz), ("b", write_ham_folder)):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder, skin_pictures)
    one, two = load("ham10000", tmp_path / "a"), load("ham10000", tmp_path / "b")
    assert one.shape == (3, 64, 64)
    for field in ("x_train", "y_train", "x_test", "y_test", "group_train", "group_test"):
        assert (getattr(one, field) == getattr(two, field)).all(), field
    # Each picture has one grey level, so every image can be traced to its row of the table.
    _, y, _, site = skin_columns()
    for i in range(len(one.y_train)):
        row = round((one.x_train[i].mean() - 3) / 6)
        assert (one.y_train[i], one.group_train[i]) == (y[row], site[row])
    small = load("ham10000:28", tmp_path / "a")
    assert small.shape == (3, 28, 28)
    assert small.name == "ham10000:28"


def test_no_lesion_is_in_both_parts():
    rng = stream(0, "lesions")
    isic = np.arange(24306, 34321)
    lesion = rng.integers(0, 7470, len(isic))
    test = held_out(isic, lesion)
    assert not set(lesion[test]) & set(lesion[~test])
    # A fifth of about 5500 lesions, binomial deviation 0.0054: four of them.
    assert abs(len(set(lesion[test])) / len(set(lesion)) - 0.2) < 0.022


def test_ham10000_without_sites_has_no_groups(tmp_path, skin_pictures):
    write_ham_folder(tmp_path, skin_pictures, with_site=False)
    assert load("ham10000", tmp_path).group_train is None


def test_ham10000_damage_is_named(tmp_path, skin_pictures):
    write_ham_folder(tmp_path, skin_pictures)
    picture = next((tmp_path / "ham10000").glob("*/ISIC_*.jpg"))
    picture.write_bytes(b"no picture")
    with pytest.raises(DataError, match=f"{picture.name}: not a readable picture"):
        load("ham10000", tmp_path)
    picture.unlink()
    with pytest.raises(DataError, match=f"names 1 pictures that are not there, first {picture.stem}"):
        load("ham10000", tmp_path)
    table = tmp_path / "ham10000/HAM10000_metadata.csv"
    table.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="is not the HAM10000 table: KeyError"):
        load("ham10000", tmp_path)


def test_dermamnist_uses_medmnists_parts(tmp_path):
    x = random_images(9, 28, 28, 3)
    y = np.arange(9, dtype=np.uint8)[:, None] % 7
    arrays = {}
    for part, cut in (("train", slice(0, 5)), ("val", slice(5, 7)), ("test", slice(7, 9))):
        arrays |= {f"{part}_images": x[cut], f"{part}_labels": y[cut]}
    np.savez(tmp_path / "dermamnist.npz", **arrays)
    data = load("dermamnist", tmp_path)
    assert (data.x_train.transpose(0, 2, 3, 1) == x[:5]).all()
    assert data.y_test.tolist() == [0, 1]
    assert data.group_train is None
    sites = {"train_site": np.arange(5) % 4, "test_site": np.array([3, 2])}
    np.savez(tmp_path / "dermamnist.npz", **arrays, **sites)
    assert load("dermamnist", tmp_path).group_test.tolist() == [3, 2]


def write_tiny(root):
    base = root / "tiny-imagenet-200"
    wnids = ["n02", "n01"]
    for w, wnid in enumerate(wnids):
        (base / "train" / wnid / "images").mkdir(parents=True)
        for i in range(3):
            image = np.full((64, 64, 3), 50 + 100 * w, np.uint8)
            # some of the real ones are grey pictures
            blob = jpeg(image[..., 0]) if i == 0 else jpeg(image)
            (base / "train" / wnid / "images" / f"{wnid}_{i}.JPEG").write_bytes(blob)
    (base / "wnids.txt").write_text("\n".join(wnids) + "\n")
    (base / "val/images").mkdir(parents=True)
    for i in range(2):
        (base / f"val/images/val_{i}.JPEG").write_bytes(jpeg(np.full((64, 64, 3), 90 * i, np.uint8)))
    (base / "val/val_annotations.txt").write_text("val_0.JPEG\tn02\t0\t0\t9\t9\nval_1.JPEG\tn01\t0\t0\t9\t9\n")
    return base


def test_tiny_imagenet(tmp_path):
    base = write_tiny(tmp_path)
    data = load("tiny-imagenet", tmp_path)
    assert data.shape == (3, 64, 64)
    assert data.y_train.tolist() == [0, 0, 0, 1, 1, 1]  # n01, then n02
    assert np.abs(data.x_train[:, 0, 30, 30].astype(int) - [150, 150, 150, 50, 50, 50]).max() <= 2
    assert data.y_test.tolist() == [1, 0]
    assert load("tiny-imagenet:32", tmp_path).shape == (3, 32, 32)
    (base / "val/val_annotations.txt").write_text("val_0.JPEG\tn09\n")
    with pytest.raises(DataError, match=r"val_annotations\.txt: not .* lines of known classes: 'n09'"):
        load("tiny-imagenet", tmp_path)
    for picture in (base / "train/n01/images").iterdir():
        picture.unlink()
    with pytest.raises(DataError, match=r"has no \.JPEG pictures"):
        load("tiny-imagenet", tmp_path)


def test_synthetic_has_its_shape_and_its_dials():
    data = load("synthetic")
    assert data.shape == (60,)
    assert len(np.unique(data.group_train)) == 30
    assert set(data.group_test) <= set(data.group_train)
    sizes = np.bincount(data.group_train) + np.bincount(data.group_test)
    assert sizes.min() >= 50
    # Feature j scatters with variance j^-1.2 around its client's centre; 60 features, largest client.
    own = data.x_train[data.group_train == sizes.argmax()]
    wanted = np.arange(1, 61) ** -1.2
    relative = own.var(axis=0) / wanted - 1
    # A variance from m samples has relative deviation √(2/m); five of them over 60 features: below 1e-4.
    assert np.abs(relative).max() < 5 * np.sqrt(2 / len(own))


def test_synthetic_alpha_zero_still_gives_clients_different_models_but_beta_moves_inputs():
    def spread(name):
        data = load(name)
        centres = [data.x_train[data.group_train == k].mean() for k in range(30)]
        return np.std(centres)

    assert spread("synthetic:0,3") > 3 * spread("synthetic:0,0")
    assert (load("synthetic:0,0").y_train == load("synthetic:0,0").y_train).all()
