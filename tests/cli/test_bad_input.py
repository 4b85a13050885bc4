"""What a user gets wrong: an error that names what came, what was wanted and what to do, before any training."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from paceline.data import load
from paceline.data.specs import SPECS
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.runs.settings import make_settings
from tests.cli.cli_files import column, complaint, metrics, spans, summary

QUICK = ("--set", "rounds=2", "--out", "out")


def sets(settings, prefix=""):
    return [word for setting in settings for word in ("--set", prefix + setting)]


@pytest.fixture
def refused(paceline, monkeypatch, tmp_path):
    """Run a command that must be refused with these words before it trains or writes anything."""
    trained = []
    original = CohortTrainer.train
    monkeypatch.setattr(CohortTrainer, "train", lambda self, jobs: trained.append(jobs) or original(self, jobs))

    def run(*words, wanted):
        before = sorted(tmp_path.rglob("*"))
        done = paceline(*words)
        assert done.status == 1
        assert trained == []
        assert done.out == ""
        assert complaint(done.err).startswith("error: ")
        assert "Traceback" not in done.err
        assert [phrase for phrase in wanted if phrase not in done.err] == [], done.err
        assert sorted(tmp_path.rglob("*")) == before
        return done.err

    return run


# -- settings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "wanted"),
    [
        ("clents=5", ["'clents'", "did you mean 'clients'"]),
        ("fleet.tmes=uniform", ["'fleet.tmes'", "times'"]),
        ("psfl.widht=3", ["widht'", "width'"]),
        ("local.learning_rate=3", ["local.learning_rate'", "known:", "lr"]),
        ("fleet=uniform", ["fleet", "group of settings", "fleet.NAME=VALUE"]),
        ("psfl.width=abc", ["width", "'abc'", "a whole number"]),
        ("psfl.width=2.5", ["width", "2.5", "a whole number"]),
        ("psfl.width=true", ["width", "True", "a whole number"]),
        ("local.lr=fast", ["local.lr", "'fast'", "a number"]),
        ("local.lr=0", ["local.lr", "0", "greater than 0"]),
        ("local.lr=nan", ["local.lr", "nan", "greater than 0"]),
        ("local.schedule=cosine", ["local.schedule", "'cosine'", "exponential:F"]),
        ("executor.name=cohrt", ["executor.name", "'cohrt'", "did you mean 'cohort'"]),
        ("executor.dtype=float16", ["executor.dtype", "'float16'", "'float64'"]),
        ("clients=0", ["clients is 0", "1 to 10,000,000"]),
        ("every=0", ["every is 0", "1 or more"]),
        ("rounds=0", ["rounds is 0", "1 or more"]),
        ("seed=abc", ["seed", "'abc'", "a whole number"]),
        ("model=resnt18", ["'resnt18'", "'resnet18'", "package.module:factory"]),
        ("model=lenet", ["lenet", "28x28", "(1, 8, 8)", "'mlp'"]),
        ("fleet.times=foo", ["fleet.times", "'foo'"]),
        ("fleet.times=csv:nowhere.csv", ["nowhere.csv", "CSV"]),
        ("fleet.links=rate:1", ["fleet.links", "'rate:1'", "rate:UP,DOWN"]),
        ("fleet.availability=dropout:2", ["2.0", "0 to 1"]),
        ("noequals", ["'noequals'", "name=value"]),
        ("psfl=3", ["psfl", "group of settings"]),
        ("executor.device=gpu", ["executor.device", "'gpu'", "cpu"]),
        ("executor.threads=-1", ["executor.threads", "-1", "1 to 4,096"]),
        ("executor.cohort=0", ["executor.cohort is 0"]),
        ("executor.workers=2", ["are for executor.name=ray"]),
        ("executor.name=spark", ["executor.name", "cohort", "ray"]),
        ("local.loss=squared", ["local.loss", "squared", "cross_entropy"]),
        ("fedavg.widht=3", ["fedavg.widht", "width"]),
        ("fleet.latency=nan", ["fleet.latency is nan", "0 to 1e+12"]),
        ("fleet.server_watts=inf", ["fleet.server_watts is inf", "0 to 1e+12"]),
        ("fleet.times=csv:/dev/zero", ["/dev/zero is a device", "regular file"]),
        ("rounds=" + "9" * 5000, ["thousands of digits"]),
        ("clients=99999999999", ["clients is 99999999999", "10,000,000"]),
        ("fedbuff.server_lr=-1", ["fedbuff.server_lr is -1", "greater than 0"]),
    ],
)
def test_a_wrong_setting_is_refused(refused, setting, wanted):
    refused("run", "psfl", "--set", setting, "--out", "out", wanted=wanted)


@pytest.mark.parametrize(
    ("option", "value", "wanted"),
    [
        ("--memory", "", ["executor.memory (--memory) is ''", "4GiB"]),
        ("--trainer", "", ["executor.name is ''", "cohort"]),
        ("--ray", "", ["executor.cluster (--ray) is ''", "HOST:PORT"]),
        ("--absence", "", ["absence is ''", "skip"]),
        ("--workers", "3", ["--workers 3 is for --world local", "leave it out"]),
    ],
)
def test_an_option_that_says_nothing_is_not_passed_over(refused, option, value, wanted):
    refused("run", "fedavg", option, value, *QUICK, wanted=wanted)


@pytest.mark.parametrize("picture", ["", "x", "x.xyz", "some.dir/x"])
def test_a_picture_whose_name_tells_no_kind_is_refused(refused, picture):
    refused("data", "partition", "digits", "--picture", picture, wanted=["--picture", "wanted one that ends in .png"])


def test_an_out_whose_name_is_no_text_is_refused(refused):
    refused("run", "fedavg", "--set", "rounds=2", "--out", "o\udcff", wanted=["'o\\udcff'", "cannot be a directory"])


def test_a_title_that_is_no_text_is_written_all_the_same(paceline, tmp_path):
    assert paceline("run", "fedavg", "--dry-run", *QUICK).status == 0
    done = paceline("report", "out", "--title", "a\udcff", "--out", "page.html")
    assert done.status == 0
    assert "a\\udcff" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("option", "text"), [("--targets", ""), ("--targets", "0.1,"), ("--targets", "٠.٣"), ("--window", "")]
)
def test_an_empty_number_of_a_figure_is_refused(paceline, refused, option, text):
    assert paceline("run", "fedavg", "--dry-run", *QUICK).status == 0
    refused("figure", "out", "--kind", "accuracy", "--out", "f.svg", option, text, wanted=[option, "wanted"])


CELL = {"spread": "a", "server": "b", "links": "c", "split": "d"}
ENTRY = {"method": "fedavg", "rate": 0.1, "seconds": {"0": 5.0}, "tried": 1, "visits": None}
CONTEST = {"seeds": 1, "minutes": 1, "hardware": "x", "outcomes": [{"cell": CELL, "entries": [ENTRY]}]}


@pytest.mark.parametrize(
    ("command", "table"),
    [
        ("chaos", {"seed": math.inf, "settings": [], "cells": []}),
        ("choose", CONTEST | {"seeds": math.inf}),
        ("choose", CONTEST | {"outcomes": [{"cell": CELL | {"spread": 1}, "entries": [ENTRY]}]}),
        ("choose", CONTEST | {"outcomes": [{"cell": CELL, "entries": []}]}),
        ("choose", CONTEST | {"outcomes": [{"cell": [], "entries": [ENTRY]}]}),
        ("choose", CONTEST | {"outcomes": [{"cell": CELL, "entries": [ENTRY | {"seconds": []}]}]}),
    ],
)
def test_a_table_that_is_none_is_refused(refused, tmp_path, command, table):
    (tmp_path / "table.json").write_text(json.dumps(table))
    refused(command, "--read", "table.json", wanted=[f"no table of `paceline {command} --json`"])


def test_a_limit_that_is_overruled_is_checked_too(refused):
    refused("run", "fedavg", "--until", "time=nan", "--until", "time=5", *QUICK, wanted=["--until time is nan"])


@pytest.mark.parametrize("name", ["[/x]", "\\[/x]", "[red]", "a[bold]b\\"])
def test_what_looks_like_markup_is_shown_as_it_is(paceline, refused, name):
    refused("report", f"{name}1", wanted=[f"error: {name}1 is not a run directory"])
    done = paceline("run", "fedavg", "--dry-run", "--set", "rounds=1", "--out", name)
    assert done.status == 0
    assert f"report: {name}/report.html" in done.err


def test_what_is_overruled_is_checked_too(refused):
    refused(
        "run", "psfl", "--set", "clients=abc", "--set", "clients=5", "--out", "out", wanted=["'abc'", "whole number"]
    )


@pytest.mark.parametrize(
    ("text", "wanted"), [("{", "not valid JSON"), ('{"rounds": 3}', "not the settings.json of a run")]
)
def test_a_json_that_is_no_run_s_is_refused(refused, tmp_path, text, wanted):
    (tmp_path / "some.json").write_text(text)
    refused("run", "fedavg", "--config", "some.json", *QUICK, wanted=["some.json", wanted])


def test_settings_of_another_algorithm_are_not_taken_silently(refused, tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/settings.json").write_text('{"algorithm": "psfl", "options": {"rounds": 3}}')
    refused("run", "fedavg", "--config", "kept", *QUICK, wanted=["holds a run of psfl, not of fedavg", "name psfl"])


@pytest.mark.parametrize("words", [("run", "fedavg"), ("compare", "fedavg", "sfl")])
def test_a_directory_that_holds_a_run_is_never_written_over(refused, tmp_path, words):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/settings.json").write_text("{}")
    refused(*words, *QUICK, wanted=["out already holds a run", "choose another --out"])


def test_crops_of_samples_that_are_no_images_are_refused(refused):
    words = ("--set", "dataset=synthetic", "--set", "local.augment=crop-flip")
    refused("run", "fedavg", *words, *QUICK, wanted=["local.augment", "crop-flip", "(60,)"])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("clents = 5\n", ["'clents'", "did you mean 'clients'"]),
        ("[psfl]\nwidht = 5\n", ["widht'", "width'"]),
        ("clients = \n", ["my.toml", "not valid TOML", "line 1"]),
        ("psfl = 3\n", ["psfl", "group of settings"]),
    ],
)
def test_a_wrong_settings_file_is_refused(refused, tmp_path, text, wanted):
    (tmp_path / "my.toml").write_text(text)
    refused("run", "psfl", "--config", "my.toml", *QUICK, wanted=wanted)


@pytest.mark.parametrize("kind", ["missing", "a directory", "no text"])
def test_a_settings_file_that_cannot_be_read_is_named(refused, tmp_path, kind):
    path = tmp_path / "my.toml"
    if kind == "a directory":
        path.mkdir()
    elif kind == "no text":
        path.write_bytes(b"\xff\xfe\x00")
    refused("run", "psfl", "--config", "my.toml", *QUICK, wanted=["my.toml"])


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["run", "psffl"], ["'psffl'", "did you mean 'psfl'"]),
        (["run", "FedAvg"], ["'FedAvg'", "did you mean 'fedavg'"]),
        (["compare", "psfl", "gradient-boosting"], ["'gradient-boosting'", "known: ", "fedavg"]),
        (["settings", "psffl"], ["'psffl'", "did you mean 'psfl'"]),
        (["compare", "psfl", "psfl"], ["psfl psfl", "twice"]),
        (["run", "psfl", "--seeds", "0"], ["--seeds is 0", "1 to 10,000"]),
        (["settings", "fedavg", "--set", "lr=0.1"], ["'lr'", "did you mean 'local.lr'?"]),
        (["settings", "fedbuff@bufer=3"], ["'bufer'", "did you mean 'fedbuff.buffer'?"]),
        (["settings", "fedbuff@buffer=4@concurrency=9"], ["two @", "write fedbuff@buffer=4,concurrency=9"]),
        (["settings", "fedbuff@5"], ["'5'", "NAME@SETTING=VALUE"]),
        (["run", "psfl", "--until", "acuracy=0.9"], ["acuracy=0.9", "did you mean 'accuracy'"]),
        (["run", "psfl", "--until", "accuracy=90"], ["--until accuracy is 90", "at most 1"]),
        (["run", "psfl", "--until", "accuracy"], ["accuracy", "a number"]),
        (["run", "psfl", "--until", "accuracy=0.9", "--dry-run"], ["dry run", "--until time="]),
        (["data", "verify", "cifar11"], ["'cifar11'", "did you mean 'cifar10'"]),
        (["data", "partition", "digits", "-p", "dirichlt:1"], ["'dirichlt:1'", "did you mean 'dirichlet'"]),
        (["report", "nowhere"], ["nowhere", "paceline run"]),
    ],
)
def test_a_wrong_word_is_refused_with_the_nearest_right_one(refused, words, wanted):
    refused(*words, wanted=wanted)


@pytest.mark.parametrize(
    "words", [["run"], ["run", "psfl", "--outt", "x"], ["rnu", "psfl"], ["run", "psfl", "--seeds", "x"]]
)
def test_a_command_that_cannot_be_read_has_status_2(paceline, words):
    done = paceline(*words)
    assert (done.status, done.out) == (2, "")
    assert "--help" in done.err


def test_what_is_wrong_with_the_second_algorithm_leaves_nothing_of_the_first(separate, tmp_path):
    done = separate("compare", "fedavg", "psfl", "--set", "psfl.participants=130", *QUICK)
    assert done.status == 1
    assert "never awaited" not in done.err
    assert not (tmp_path / "out" / "fedavg-seed0").exists()


# -- clients, partitions, data ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "setting", "wanted"),
    [
        ("psfl", "psfl.participants=101", ["101", "there are 100", "lower", "raise `clients`"]),
        ("psfl", "psfl.width=30", ["width is 30", "participants is 20", "raise"]),
        ("fedavg", "fedavg.width=101", ["101*1 = 101 clients", "there are 100", "lower", "raise `clients`"]),
        ("fedbuff", "fedbuff.concurrency=500", ["500", "100 clients", "lower", "raise `clients`"]),
        ("fedasync", "fedasync.concurrency=101", ["101", "100 clients", "lower", "raise `clients`"]),
    ],
)
def test_more_clients_at_once_than_exist_are_refused(refused, algorithm, setting, wanted):
    refused("run", algorithm, "--set", setting, *QUICK, wanted=wanted)
    refused("run", algorithm, "--set", setting, *QUICK, "--dry-run", wanted=wanted)


@pytest.mark.parametrize(("algorithm", "option"), [("fedavg", "participants"), ("fedasync", "concurrency")])
def test_what_nobody_asked_for_suits_a_small_fleet(refused, algorithm, option):
    """20 of 10 are refused where somebody wants them; as a default they are 10."""
    assert getattr(make_settings(algorithm).algorithm, option) == 20
    small = make_settings(algorithm, ["clients=10"])
    small.algorithm.check(10)
    assert getattr(small.algorithm, option) == 10
    asked = ("--set", "clients=10", "--set", f"{algorithm}.{option}=20")
    refused("run", algorithm, *asked, *QUICK, wanted=["20", "10", "lower", "raise `clients`"])


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        (["partition=exdir:20,10"], ["20 classes", "only 10"]),
        (["clients=2000"], ["2000 clients", "1437 samples", "lower the number of clients"]),
        (["partition=natural"], ["natural", "no groups", "another partition"]),
        (["partition=dirichlet:0.0001"], ["alpha=0.0001", "100 clients", "raise alpha"]),
        (["partition=foo"], ["'foo'", "known: ", "dirichlet"]),
        (["partition=exdir:2,x"], ["'exdir:2,x'", "'x'", "exdir:2,10"]),
        (["partition=dirichlet"], ["'dirichlet'", "dirichlet:0.3"]),
        (["dataset=synthetic:1,1,30", "partition=natural"], ["100 clients", "30 groups", "to 30"]),
    ],
)
def test_a_partition_that_cannot_be_is_refused(refused, settings, wanted):
    refused("run", "fedavg", *sets(settings), *QUICK, wanted=wanted)


@pytest.mark.parametrize("command", ["run", "partition"])
def test_a_missing_dataset_is_named_with_where_it_was_looked_for_and_how_to_get_it(
    refused, monkeypatch, tmp_path, command
):
    root = tmp_path / "my data"
    monkeypatch.setenv("PACELINE_DATA", str(root))
    wanted = ["cifar10 is not here", f"{root}/{{cifar10.npz}}", SPECS["cifar10"].how_to_get, "PACELINE_DATA"]
    words = {
        "run": ["run", "fedavg", "--set", "dataset=cifar10", *QUICK],
        "partition": ["data", "partition", "cifar10"],
    }
    refused(*words[command], wanted=wanted)


def test_verify_of_a_missing_dataset_is_no_success(paceline, monkeypatch, tmp_path):
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path / "nothing"))
    done = paceline("data", "verify", "mnist")
    assert done.status == 1
    assert "mnist is not here" in done.out + done.err


def write_mnist(path, *, images=None):
    """A tiny MNIST in the ``.npz`` layout, with these images in place of good ones."""
    good = np.zeros((20, 28, 28), np.uint8)
    labels = np.arange(20) % 10
    np.savez(path, x_train=good if images is None else images, y_train=labels, x_test=good, y_test=labels)


@pytest.mark.parametrize(
    ("images", "wanted"),
    [
        (np.full((20, 28, 28), np.nan), ["mnist.npz", "float64 (20, 28, 28)", "wanted uint8"]),
        (np.zeros((20, 784), np.uint8), ["mnist.npz", "uint8 (20, 784)", "wanted uint8 (n, height, width"]),
        (np.zeros((19, 28, 28), np.uint8), ["mnist, train", "19 samples", "(20,)"]),
    ],
)
def test_arrays_of_the_wrong_kind_are_refused(refused, monkeypatch, tmp_path, images, wanted):
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path))
    write_mnist(tmp_path / "mnist.npz", images=images)
    refused("run", "fedavg", "--set", "dataset=mnist", *QUICK, wanted=wanted)


def test_a_damaged_file_is_named(refused, monkeypatch, tmp_path):
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path))
    write_mnist(tmp_path / "mnist.npz")
    whole = (tmp_path / "mnist.npz").read_bytes()
    (tmp_path / "mnist.npz").write_bytes(whole[: len(whole) // 2])
    refused("run", "fedavg", "--set", "dataset=mnist", *QUICK, wanted=["mnist.npz", "not a readable .npz"])


def test_nan_in_a_file_is_refused_and_found(refused, monkeypatch, tmp_path):
    """LEAF's JSON is the one layout that can carry a NaN: its pixels are floating-point numbers."""
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path))
    good, bad = [0.5] * 784, [0.5] * 783 + [math.nan]
    for part, images in (("train", [good, bad]), ("test", [good, good])):
        folder = tmp_path / "femnist" / "data" / part
        folder.mkdir(parents=True)
        data = {"users": ["w1"], "num_samples": [2], "user_data": {"w1": {"x": images, "y": [0, 1]}}}
        (folder / "all.json").write_text(json.dumps(data))
    wanted = [str(tmp_path / "femnist" / "data" / "train" / "all.json"), "user w1", "image 1", "0..1"]
    refused("run", "fedavg", "--set", "dataset=femnist", *QUICK, wanted=wanted)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("part", ["train", "test"])
def test_nan_in_features_is_refused_and_found(refused, monkeypatch, part, bad):
    """No file layout holds plain features, so a dataset of a user's own makes them here."""

    def make(*_):
        clean = load("synthetic")
        spoilt = getattr(clean, f"x_{part}").copy()
        spoilt[7, 3] = spoilt[9, 0] = bad
        return replace(clean, name="mine", **{f"x_{part}": spoilt})

    monkeypatch.setitem(SPECS, "mine", replace(SPECS["synthetic"], name="mine", make=make))
    wanted = [f"mine, {part}", "sample 7", "NaN or infinity", "2 such samples", "repair"]
    refused("run", "fedavg", "--set", "dataset=mine", *QUICK, wanted=wanted)


# -- models -----------------------------------------------------------------------------------------------------

MODELS = """
from torch import nn


def normed(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Linear(16, classes))


class Branching(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.layer = nn.Linear(64, classes)

    def forward(self, x):
        scores = self.layer(x.flatten(1))
        return scores * 2 if scores.sum().item() > 0 else scores


def branching(shape, classes):
    return Branching(classes)


class Recurrent(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.cell, self.out = nn.LSTM(8, 4, batch_first=True), nn.Linear(4, classes)

    def forward(self, x):
        return self.out(self.cell(x[:, 0])[0][:, -1])


def recurrent(shape, classes):
    return Recurrent(classes)


def narrow(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 7))


def list_of_layers(shape, classes):
    return [nn.Linear(64, classes)]


def broken(shape, classes):
    raise ValueError("no such size")
"""


@pytest.fixture
def models(monkeypatch, tmp_path):
    """The user's own ``mynets.py`` on the path."""
    (tmp_path / "mynets.py").write_text(MODELS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("mynets:normed", ["2 (BatchNorm1d)", "statistics", "to_groupnorm"]),
        ("mynets:narrow", ["'mynets:narrow'", "(2, 7)", "(2, 10)"]),
        ("mynets:list_of_layers", ["'mynets:list_of_layers'", "list", "nn.Module"]),
        ("mynets:branchin", ["'mynets:branchin'", "did you mean 'branching'"]),
        ("mynet:branching", ["'mynet:branching'", "cannot import mynet", "current directory"]),
        ("mynets:broken", ["'mynets:broken'", "ValueError", "no such size"]),
    ],
)
def test_a_network_that_cannot_be_trained_is_refused(refused, name, wanted):
    refused("run", "psfl", "--set", f"model={name}", *QUICK, wanted=wanted)


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize(
    "name",
    [
        "mynets:branching",
        pytest.param("mynets:recurrent", marks=pytest.mark.slow),
    ],
)
def test_a_network_that_cannot_be_batched_is_refused_with_the_way_out(separate, name):
    """In a process of its own, where torch's warnings about slow batching are no errors."""
    done = separate("run", "psfl", "--set", f"model={name}", *QUICK)
    assert (done.status, done.out) == (1, "")
    wanted = [f"'{name}'", "cannot be batched over clients", "vmap", "--set executor.name=reference"]
    assert [phrase for phrase in wanted if phrase not in done.err] == []


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize("name", ["mynets:branching", pytest.param("mynets:recurrent", marks=pytest.mark.slow)])
def test_the_way_out_works(paceline, tmp_path, name):
    done = paceline("run", "psfl", "--set", f"model={name}", "--set", "executor.name=reference", *QUICK)
    assert done.status == 0
    assert column(metrics(tmp_path / "out"), "round") == [1, 2]


@pytest.mark.usefixtures("models")
def test_a_network_that_cannot_be_batched_leaves_no_directory(refused):
    refused("run", "psfl", "--set", "model=mynets:branching", *QUICK, wanted=["cannot be batched"])


@pytest.mark.usefixtures("models")
def test_a_network_that_cannot_be_batched_is_no_interruption(paceline, tmp_path):
    paceline("run", "psfl", "--set", "model=mynets:branching", *QUICK)
    assert not (tmp_path / "out" / "summary.json").exists() or summary(tmp_path / "out")["status"] != (
        "failed: KeyboardInterrupt"
    )


# -- places -----------------------------------------------------------------------------------------------------


def contents(directory):
    return {path.relative_to(directory): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_directory_that_holds_a_run_is_refused_and_left_alone(paceline, tmp_path):
    words = ("run", "fedavg", "--set", "rounds=1", "--dry-run", "--out", "out")
    assert paceline(*words).status == 0
    before = contents(tmp_path / "out")
    again = paceline(*words, "--set", "seed=1")
    assert (again.status, again.out) == (1, "")
    assert "out already holds a run; choose another --out" in again.err
    assert contents(tmp_path / "out") == before


def test_a_directory_with_other_files_keeps_them(paceline, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    assert paceline("run", "fedavg", *QUICK, "--dry-run").status == 0
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("place", [("a_file"), ("a_file/below")])
def test_an_out_that_cannot_be_a_directory_is_refused(refused, tmp_path, place):
    (tmp_path / "a_file").touch()
    refused("run", "fedavg", "--set", "rounds=1", "--out", place, wanted=[place, "--out"])


@pytest.mark.parametrize(
    "words",
    [
        (["report", "out", "--out", "a_file/page.html"]),
        (["data", "partition", "--picture", "a_file/split.png"]),
        (["data", "partition", "--picture", "split.xyz"]),
    ],
)
def test_a_file_that_cannot_be_written_is_named(paceline, tmp_path, words):
    (tmp_path / "a_file").touch()
    assert paceline("run", "fedavg", *QUICK, "--dry-run").status == 0
    done = paceline(*words)
    assert done.status == 1
    assert complaint(done.err).startswith("error: ")
    assert words[-1] in done.err


# -- divergence -------------------------------------------------------------------------------------------------

EXPLODING = ("local.schedule=exponential:1e39", "local.steps=2")
"""The rate is 0.1 in round 0 and 1e38 in round 1. Weights near 1e38 after the first step of a visit overflow in the
second, where those of two layers are multiplied: float32 ends at 3.4e38. So whoever trains in round 1 diverges."""


def where_it_diverged(text):
    found = re.search(r"diverged to NaN or infinity at client (\d+), round (\d+), t=([\d.e+-]+) s", text)
    assert found, text
    return int(found[1]), int(found[2]), float(found[3])


@pytest.mark.parametrize("algorithm", ["fedavg", "psfl"])
@pytest.mark.parametrize("target", [(), ("--until", "accuracy=0.99")], ids=["all rounds", "target"])
def test_a_run_that_diverges_says_where_and_keeps_what_it_had(paceline, tmp_path, algorithm, target):
    words = ("run", algorithm, *sets(EXPLODING))
    assert paceline(*words, "--set", "rounds=1", "--out", "good").status == 0
    done = paceline(*words, "--set", "rounds=2", "--out", "out", *target)
    assert done.status == 1
    client, round, time = where_it_diverged(done.err)
    assert round == 2  # counted from 1, as the metrics do; the spans' rounds are those complete at the time
    assert "lr=1e+38" in done.err
    assert "lower local.lr" in done.err
    out = tmp_path / "out"
    # The round before is there, as a run of that one round has it.
    assert metrics(out) == metrics(tmp_path / "good")
    visits = [span for span in spans(out) if span["kind"] == "train" and span["site"] == client]
    # Six digits of the time are printed; a visit that starts later queued for its client.
    assert any(span["round"] == 1 and span["start"] >= time * (1 - 1e-5) for span in visits)
    end = summary(out)
    assert end["status"] == "failed: Diverged"
    assert where_it_diverged(end["error"]) == (client, round, time)
    assert paceline("report", "out").status == 0


@pytest.mark.parametrize(
    ("algorithm", "rate"), [("fedavg", "1e30"), ("psfl", "1e40"), ("fedbuff", "1e38"), ("fedasync", "1e38")]
)
def test_a_run_that_diverges_at_once_leaves_readable_files(paceline, tmp_path, algorithm, rate):
    """The second of two steps overflows, as above; 1e40 itself is beyond any float32."""
    words = ("--set", f"local.lr={rate}", "--set", "local.steps=2", *sets(["width=5", "length=4"], "psfl."))
    done = paceline("run", algorithm, *words, *QUICK, "--json")
    assert done.status == 1
    assert where_it_diverged(done.err)[1:] == (1, 0.0)
    assert metrics(tmp_path / "out") == []
    assert spans(tmp_path / "out")
    (run,) = json.loads(done.out)["runs"]
    assert run["status"] == "failed: Diverged"


def test_the_table_says_which_run_diverged(paceline):
    done = paceline("run", "fedavg", "--set", "local.lr=1e30", *QUICK)
    assert "Diverged" in done.out


def test_in_a_comparison_only_the_diverging_run_fails(paceline, tmp_path):
    words = ("--set", "rounds=2")
    paceline("run", "fedavg", *words, "--out", "alone", "--quiet")
    done = paceline("compare", "fedavg", "psfl", *words, *sets(EXPLODING, "psfl."), "--out", "out")
    assert done.status == 1
    where_it_diverged(done.err)
    assert "error: psfl seed 0" in done.err
    assert "error: fedavg" not in done.err
    good, bad = tmp_path / "out" / "fedavg-seed0", tmp_path / "out" / "psfl-seed0"
    alone = metrics(tmp_path / "alone")
    assert summary(good)["status"] == "done"
    assert column(metrics(good), "time") == column(alone, "time")
    # Another cohort beside it may round differently, no more.
    assert column(metrics(good), "loss") == pytest.approx(column(alone, "loss"), rel=1e-4)
    assert summary(bad)["status"] == "failed: Diverged"
    assert column(metrics(bad), "round") == [1]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "fedavg" in page
    assert "Diverged" in page
