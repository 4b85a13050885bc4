"""Data of a user's own: what may be handed over, and what is said about what may not."""

import os

import numpy as np
import pytest

from paceline.data import load
from paceline.data.own import dataset_from, lend_dataset
from paceline.data.registry import parse_name
from paceline.errors import DataError, SettingError
from paceline.runs.problem import build_problem

X, Y = np.arange(60, dtype=np.float64).reshape(20, 3), np.arange(20) % 4


def parts(x=X, y=Y):
    return (x[:15], y[:15]), (x[15:], y[15:])


def test_numbers_are_taken_as_they_are():
    data = dataset_from(parts(), "mine")
    assert data.classes == 4
    assert np.array_equal(data.features("test"), X[15:].astype(np.float32))


def test_bytes_are_images_and_are_normalised():
    images = np.random.default_rng(0).integers(0, 256, (20, 8, 8), dtype=np.uint8)
    data = dataset_from(parts(images), "mine")
    assert data.shape == (1, 8, 8)
    assert abs(data.features("train").mean()) < 1e-5


def test_float_images_keep_their_shape():
    assert dataset_from(parts(np.ones((20, 3, 5, 5))), "mine").shape == (3, 5, 5)


def test_words_are_labels_too():
    words = np.array(["cat", "dog", "ant", "cat"] * 5)
    assert list(dataset_from(parts(y=words), "mine").y_train[:4]) == [1, 2, 0, 1]


def test_one_long_word_does_not_make_all_of_them_long(tmp_path):
    """In an array every word takes the room of the longest: here 37 GiB, for a file of half a megabyte."""
    path = tmp_path / "words.csv"
    path.write_text(f"a,label\n1,{'x' * 100_000}\n" + "1,y\n" * 100_000)
    data = load(str(path))
    assert (data.classes, list(data.y_train[:3])) == (2, [0, 1, 1])
    with pytest.raises(DataError, match="words of at most 1,000 characters"):
        dataset_from(parts(y=np.array(["x" * 1001] * 20)), "mine")


def test_lent_data_have_a_name():
    name = lend_dataset(parts())
    spec, options = parse_name(name)
    assert (spec.counts, spec.shape, options) == ((15, 5), (3,), ())
    assert load(name).classes == 4


def written(path, y=Y):
    np.savez(path, x_train=X[:15], y_train=y[:15], x_test=X[15:], y_test=y[15:])


def test_a_file_of_the_same_name_is_read_again_where_it_is_another(tmp_path, monkeypatch):
    def learned():
        spec = {"dataset": "mine.npz", "partition": "iid", "clients": 2, "model": "logistic", "seed": 0}
        return load("mine.npz").y_train, build_problem(**spec).train_shards.y.numpy()

    for folder, y in (("one", Y), ("other", Y[::-1])):  # the caches know a file by more than its name
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        written("mine.npz", y)
        assert all(np.array_equal(labels, y[:15]) for labels in learned())
        written("mine.npz", 3 - y)  # as long as it was
        os.utime("mine.npz", ns=(1, 1))  # some file systems tell the time in steps
        assert all(np.array_equal(labels, 3 - y[:15]) for labels in learned())


def test_files(tmp_path):
    np.savez(tmp_path / "a.npz", x_train=X[:15], y_train=Y[:15], x_test=X[15:], y_test=Y[15:])
    assert load(str(tmp_path / "a.npz")).shape == (3,)
    lines = ["a,label,b", *(f"{k},{'yes' if k % 2 else 'no'},{k / 2}" for k in range(20))]
    (tmp_path / "b.csv").write_text("\n".join(lines))
    data = load(str(tmp_path / "b.csv"))
    assert (len(data.y_train), len(data.y_test), data.classes, data.shape) == (16, 4, 2, (2,))
    (tmp_path / "c.csv").write_text("\n".join(["a,b", *(f"{k},{k % 3}" for k in range(9))]))
    assert load(str(tmp_path / "c.csv")).classes == 3


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (3, r"wanted \(train, test\)"),
        ((X, Y), r"train: a ndarray; wanted \(x, y\)"),
        (parts(y=Y + 0.5), "a label is 0.5; wanted whole numbers"),
        (parts(x=X[:, 0]), "wanted numbers of shape"),
        (parts(x=np.full((20, 3), np.nan)), "NaN"),
        ((parts()[0], (X[:5], Y[:4])), "5 samples but labels"),
    ],
)
def test_what_is_wrong_is_said(data, complaint):
    with pytest.raises(DataError, match=complaint):
        dataset_from(data, "mine")


def test_files_that_are_wrong(tmp_path):
    np.savez(tmp_path / "a.npz", x_train=X)
    (tmp_path / "b.csv").write_text("a,label\n1,x\n2\n3,x\n4,x\n5,x\n6,x\n")
    (tmp_path / "c.csv").write_text("a,label\n" + "x,1\n" * 6)
    (tmp_path / "g.csv").write_text("a,label\n\n1,x\n\n2\n3,x\n4,x\n5,x\n6,x\n")
    (tmp_path / "h.csv").write_text("a,label\n\n1,x\n\n2,y\n3,\n4,x\n5,x\n6,x\n")
    (tmp_path / "d.npz").write_bytes(b"no zip")
    for name, complaint in (
        ("a.npz", "lacks y_train"),
        ("b.csv", "row 3 has 1 cells"),
        ("c.csv", "features must be numbers"),
        ("g.csv", "row 5 has 1 cells"),
        ("h.csv", "row 6: the label is empty"),
        ("d.npz", "not a readable .npz"),
        ("e.npz", "there is no file"),
        ("f.csv", "there is no file"),
    ):
        with pytest.raises(DataError, match=complaint):
            load(str(tmp_path / name))
    with pytest.raises(SettingError, match=r"package\.module:function"):
        load("digitss")
    with pytest.raises(DataError, match="cannot import"):
        load("no_such_package.data:load")
