"""What a researcher writes: one line, and a result that answers."""

import json

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import nn

import paceline
from paceline.errors import DataError, ModelError, PacelineError, SettingError

SMALL = {"clients": 6, "rounds": 2, "partition": "iid"}


@pytest.fixture(scope="module")
def result():
    return paceline.compare(["fedavg", "fedbuff@buffer=2", "fedbuff@buffer=3", "da-dpfl"], seeds=2, **SMALL)


def test_the_table_shows_itself(result):
    table = result.table()
    assert [row[0] for row in table.rows] == result.labels
    assert "fedbuff (buffer=2)" in repr(table)
    assert "<table" in table._repr_html_() and "<table" in result._repr_html_()
    assert "8 runs" in repr(result)


def test_frames_hold_every_row_and_span(result):
    frame, spans = result.frame(), result.spans("fedavg")
    table = frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame)
    assert table.num_rows == sum(len(result.rows(label, seed)) for label in result.labels for seed in (0, 1))
    columns = spans.column_names if isinstance(spans, pa.Table) else list(spans.columns)
    assert {"algorithm", "seed", "kind", "start", "end"} <= set(columns)


def test_models_come_back_as_state_dicts(result):
    assert set(result.model("fedavg")) == {"1.weight", "1.bias", "3.weight", "3.bias"}
    assert result.model("da-dpfl", client=3)["1.weight"].count_nonzero() < 64 * 64
    with pytest.raises(DataError, match="client=0"):
        result.model("da-dpfl")


def test_a_page_and_figures(result, tmp_path):
    assert result.report(tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    figure = result.figure("accuracy")
    assert {line.get_label() for line in figure.axes[0].lines} >= set(result.labels)
    with pytest.raises(SettingError, match="time-to-accuracy"):
        result.figure("time-to-acuracy")


def test_what_is_meant_must_be_clear(result):
    with pytest.raises(DataError, match="several runs of 'fedbuff'"):
        result.rows("fedbuff")
    with pytest.raises(DataError, match="no run of 'fedbufff'"):
        result.rows("fedbufff")
    with pytest.raises(DataError, match="no seed 7"):
        result.rows("fedavg", seed=7)


def test_loaded_again_it_is_the_same(tmp_path):
    made = paceline.run("fedavg", out=tmp_path / "one", **SMALL)
    loaded = paceline.load(tmp_path / "one")
    assert loaded.rows("fedavg") == made.rows("fedavg")
    assert all(torch.equal(made.model("fedavg")[name], value) for name, value in loaded.model("fedavg").items())
    with pytest.raises(SettingError, match="already holds a run"):
        paceline.run("fedavg", out=tmp_path / "one", **SMALL)


def test_the_same_as_the_command_line(tmp_path):
    """Keywords, dotted names and overrides come to the same settings, and so to the same bits."""
    from paceline.cli.main import main

    made = paceline.run("fedavg", settings={"local.lr": 0.03, "fleet.jitter": 0}, out=tmp_path / "a", **SMALL)
    words = ["clients=6", "rounds=2", "partition=iid", "local.lr=0.03", "fleet.jitter=0"]
    with pytest.raises(SystemExit) as ended:
        main(["run", "fedavg", "-q", "--out", str(tmp_path / "b"), *(w for word in words for w in ("--set", word))])
    assert not ended.value.code
    a, b = (json.loads((tmp_path / k / "settings.json").read_text()) for k in "ab")
    assert a == b
    assert paceline.load(tmp_path / "b").rows("fedavg") == made.rows("fedavg")


def test_a_sweep_is_one_batched_run_of_variants():
    result = paceline.sweep("fedavg", {"local.lr": [0.01, 0.1], "width": [2, 3]}, **SMALL)
    assert len(result.runs) == 4
    assert len({run.settings["options.local.lr"] for run in result.runs}) == 2
    with pytest.raises(SettingError, match=r"over is .* but must be a mapping from text to a list"):
        paceline.sweep("fedavg", {"local.lr": "0.01"})


def test_networks_may_be_modules_classes_or_functions():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 10)

        def forward(self, x):
            return self.layer(x.flatten(1))

    for model in (Net, Net(), lambda shape, classes: nn.Sequential(nn.Flatten(), nn.Linear(64, classes))):
        assert paceline.run("fedavg", model=model, **SMALL).rows("fedavg")[-1]["accuracy"] > 0.2
    trained = Net()
    with torch.no_grad():
        trained.layer.weight.zero_(), trained.layer.bias.zero_()
    still = paceline.run("fedavg", model=trained, settings={"local.lr": 1e-12}, **SMALL)
    assert torch.allclose(still.model("fedavg")["layer.weight"], torch.zeros(10, 64), atol=1e-9), "its own weights"
    with pytest.raises(ModelError, match="int"):
        paceline.run("fedavg", model=3, **SMALL)


def test_data_may_be_arrays_or_datasets():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    x = (rng.normal(size=(120, 5)) + 3 * y[:, None]).astype(np.float64)
    part = torch.utils.data.TensorDataset(torch.tensor(x[:90]), torch.tensor(y[:90]))
    for data in (((x[:90], y[:90]), (x[90:], y[90:])), (part, (x[90:], y[90:]))):
        assert paceline.run("fedavg", data=data, **SMALL).rows("fedavg")[-1]["accuracy"] > 0.7
    with pytest.raises(SettingError, match="both say"):
        paceline.run("fedavg", data=((x, y), (x, y)), dataset="digits")
    with pytest.raises(DataError, match=r"wanted \(train, test\)"):
        paceline.run("fedavg", data=(x, y, x), **SMALL)


def test_what_is_no_algorithm_is_refused():
    class Nothing:
        pass

    with pytest.raises(SettingError, match="but must be text, an Algorithm"):
        paceline.run(Nothing(), **SMALL)
    with pytest.raises(SettingError, match=r"give a list: \['fedavg'\]"):
        paceline.compare("fedavg")
    with pytest.raises(SettingError, match="named twice"):
        paceline.compare(["fedavg", "fedavg"])


def test_until_lifts_the_cap_of_rounds_and_says_where_rounds_ran_out():
    lifted = paceline.make_settings("fedavg", lift=10).algorithm.rounds
    assert lifted == 10 * paceline.make_settings("fedavg").algorithm.rounds
    assert paceline.make_settings("fedavg", ["rounds=7"], lift=10).algorithm.rounds == 7
    paced = paceline.make_settings("da-dpfl", lift=10).algorithm.rounds
    assert paced == paceline.make_settings("da-dpfl").algorithm.rounds, "its cosine goes by the rounds"
    result = paceline.run("fedavg", until="accuracy=0.999", **SMALL)
    assert "rounds ran out before the target: fedavg in 1 of 1 seeds, after 2 rounds" in repr(result.table())
    in_time = paceline.run("fedavg", until=["accuracy=0.999", "time=5"], clients=6, partition="iid")
    assert "rounds ran out" not in repr(in_time.table())


def test_a_dry_run_of_every_algorithm_needs_nothing_else():
    from paceline.algorithms.registry import ALGORITHMS

    for name in ALGORITHMS:
        timeline = paceline.dry(name, rounds=2)
        assert len(timeline.times) == 2, name
        assert timeline.totals.visits, name
        assert bool(timeline.assumed) == (name in ("psfl", "da-dpfl")), name


def test_a_failed_comparison_is_an_error_only_if_all_failed():
    with pytest.raises(paceline.PacelineError):
        paceline.run("fedavg", settings={"fleet.availability": "dropout:1,forever"}, **SMALL)


def test_a_sweep_takes_an_array_of_values():
    rates = paceline.sweep("fedavg", {"local.lr": np.array([0.01, 0.1])}, **SMALL, dry=True)
    assert rates.labels == ["fedavg (local.lr=0.01)", "fedavg (local.lr=0.1)"]


@pytest.mark.parametrize(
    "over",
    [{}, [], None, {"local.lr": "0.1"}, {"local.lr": []}, {"local.lr": 0.1}, {"local.lr": (x for x in (0.1, 0.2))}],
)
def test_a_sweep_over_nothing_is_refused(over):
    with pytest.raises(SettingError, match=r"wants values for every setting|must be a mapping from text to a list"):
        paceline.sweep("fedavg", over, **SMALL)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"seeds": "3"}, "seeds is '3', but must be a whole number"),
        ({"seeds": 2.5}, "seeds is 2.5, but must be a whole number"),
        ({"seeds": True}, "seeds is True, but must be a whole number"),
        ({"seeds": None}, "seeds is None, but must be a whole number"),
        ({"until": 5}, "until is 5, but must be text, a list"),
        ({"until": [5]}, "until is .5., but must be text, a list"),
        ({"until": paceline.Until(time=float("nan"))}, "until.time is nan; it must be above 0"),
        ({"until": paceline.Until(visits=-1)}, "until.visits is -1"),
        ({"until": paceline.Until(time="5")}, "until.time is '5'; wanted a number"),
        ({"out": ""}, "out is ''; wanted the path of a directory"),
        ({"out": 5}, "out is 5, but must be text, a path or None"),
        ({"out": "a\0b"}, "cannot be a directory"),
        ({"out": "a" * 5000}, "cannot be a directory: File name too long"),
        ({"dry": "no"}, "dry is 'no', but must be True or False"),
        ({"dry": None}, "dry is None, but must be True or False"),
        ({"callbacks": None}, "callbacks is None, but must be a list"),
        ({"callbacks": ["x"]}, "each a function"),
        ({"callbacks": (print for _ in range(1))}, "each a function"),
        ({"checkpoint": "garbage"}, "--checkpoint 'garbage': wanted seconds"),
        ({"track": 5}, "track is 5, but must be text or a list"),
        ({"track": [None]}, "each text"),
        ({"settings": [1]}, "settings is .1., but must be a mapping"),
        ({"settings": {5: 1}}, "but must be a mapping from text"),
        ({"fleet": {5: 1}}, "a mapping from text"),
        ({"fleet": ""}, "fleet is ''; wanted the path of a fleet's file"),
        ({"fleet": 5}, "fleet is 5, but must be text, a path"),
        ({"data": (([[1], [1, 2]], [0, 1]), ([[1]], [0]))}, "train, x cannot be read as an array"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_arguments_of_a_wrong_kind_are_refused_in_words(tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PacelineError, match=said):
        paceline.run("fedavg", **{**SMALL, **arguments})
    assert not any(tmp_path.iterdir())


def test_a_variant_s_values_may_have_commas():
    names = ["fedbuff@partition=exdir:2,5", "fedbuff@partition=exdir:2,10"]
    result = paceline.compare(names, clients=6, rounds=2, dry=True)
    assert result.rows(names[0]) and result.rows(names[1])
    with pytest.raises(DataError, match="there is no run of"):
        result.rows("fedbuff@partition=exdir:2,7")


def test_no_algorithm_at_all_is_refused():
    with pytest.raises(SettingError, match="this one is empty"):
        paceline.compare([], **SMALL)
