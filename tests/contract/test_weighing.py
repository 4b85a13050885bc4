"""How clients weigh: one setting gives all methods the same weights, and a table says where they differ."""

import pytest

import paceline
from paceline.algorithms.registry import ALGORITHMS
from paceline.errors import SettingError
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run, prepared
from paceline.runs.settings import make_settings

WORDS = [
    *(
        "clients=6",
        "rounds=2",
        "local.steps=2",
        "model=logistic",
        "partition=powerlaw:1.5,2",
        "public=0.1",
        "every=2",
    ),
]
ALL = [
    *("fedavg.width=6", "hierfavg.servers=1", "hierfavg.participants=none", "hierfavg.partial=1"),
    *(
        "p-fedavg.topology=ring:2",
        "p-fedavg.participants=3",
        "feddst.sparsity=0",
        "feddst.participants=6",
        "feddst.fraction=0",
    ),
]
SAME = ("local.lr=0.1", "local.schedule=constant", "local.weight_decay=0")


def learned(name, *words):
    run = make_run(make_settings(name, [*WORDS, *ALL, *SAME, *words]), keep_model=True)
    drive([run], make_executor(run.settings.executor))
    assert run.failure is None, run.failure
    return run.final["model"]


@pytest.mark.parametrize("word", ["equal", "samples"])
@pytest.mark.parametrize("name", ["hierfavg", "feddst"])
def test_methods_that_are_fedavg_are_so_with_the_same_weights(name, word):
    """With one edge server, or without zeros, on clients of unequal sizes."""
    ours, fedavg, own = learned(name, f"weighing={word}"), learned("fedavg", f"weighing={word}"), learned("fedavg")
    assert ours.sub(fedavg).abs().max() < 1e-6
    assert (fedavg.sub(own).abs().max() > 1e-4) == (word == "samples")  # which weighs all alike unless asked


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_method_weighs_as_it_is_told_or_says_that_it_cannot(name):
    settings, traits, _ = prepared(make_settings(name, [*WORDS, *ALL, "weighing=equal"]), dry=True)
    assert traits.weights == "equal" == settings.weighing
    by_samples = make_settings(name, [*WORDS, *ALL, "weighing=samples"])
    if "samples" in by_samples.algorithm.traits(6).weighing:
        assert prepared(by_samples, dry=True)[1].weights == "samples"
    else:
        with pytest.raises(SettingError, match=f"weighing is 'samples', but {name} weighs all clients alike"):
            prepared(by_samples, dry=True)


def test_a_rule_that_knows_no_weights_weighs_all_alike():
    words = [*WORDS, "fedavg.aggregation.rule=median"]
    assert prepared(make_settings("fedavg", [*words, "fedavg.server.weights=samples"]))[1].weights == "equal"
    with pytest.raises(SettingError, match="cannot do otherwise"):
        prepared(make_settings("fedavg", [*words, "weighing=samples"]))


def test_privacy_keeps_to_weights_that_no_clients_data_decide():
    words = [*WORDS, "privacy.clip=1"]
    with pytest.raises(SettingError, match=r"weighing is 'samples', but privacy\.clip"):
        prepared(make_settings("fedavg", [*words, "weighing=samples"]), dry=True)
    _, traits, _ = prepared(
        make_settings("fedavg", [*words, "fedavg.server.weights=samples", "weighing=equal"]), dry=True
    )
    assert traits.private.together > 1  # the sum that it has with equal weights


def test_a_table_says_where_methods_weigh_differently(tmp_path):
    words = {"clients": 6, "rounds": 1, "partition": "iid", "model": "logistic"}
    mixed = paceline.compare(["fedavg", "hierfavg@servers=2,participants=3"], out=tmp_path / "own", **words)
    said = "fedavg: all clients alike; hierfavg: by their samples"
    assert said in str(mixed.table())
    assert said in mixed.report(tmp_path / "page.html").read_text()
    assert [run.summary["weights"] for run in mixed.runs] == ["equal", "samples"]
    same = paceline.compare(
        ["fedavg", "hierfavg@servers=2,participants=3"], out=tmp_path / "same", weighing="equal", **words
    )
    assert "all clients alike" not in str(same.table())
    assert [run.summary["weights"] for run in same.runs] == ["equal", "equal"]
