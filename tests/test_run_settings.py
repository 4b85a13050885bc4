"""What is said several times: the later wins, in whichever way it is said."""

from pathlib import Path

import pytest

from paceline.errors import SettingError
from paceline.runs.settings import make_settings


@pytest.mark.parametrize(
    "words",
    [
        ["rounds=5", "rounds=3"],
        ["fedavg.rounds=5", "rounds=3"],
        ["rounds=5", "fedavg.rounds=3"],
        ["fedavg.rounds=5", "algorithm.rounds=3"],
        ["rounds=5", "algorithm.rounds=3"],
    ],
)
def test_the_last_word_counts(words):
    assert make_settings("fedavg", words).algorithm.rounds == 3
    assert make_settings("fedavg", words[1:], {"fedavg": {"rounds": 9}}).algorithm.rounds == 3


def test_in_one_file_the_name_of_an_algorithm_goes_before_what_is_for_all():
    file = {"fedavg": {"rounds": 7}, "rounds": 5, "algorithm": {"rounds": 3}}
    assert make_settings("fedavg", (), file).algorithm.rounds == 7
    assert make_settings("sfl", (), file).algorithm.rounds == 5


def test_rules_for_absence_likewise():
    assert make_settings("fedavg", ["fedavg.absence=wait", "absence=skip"]).absence == "skip"
    assert make_settings("fedavg", ["absence=skip", "fedavg.absence=wait"]).absence == "wait"
    assert make_settings("sfl", ["absence=skip", "fedavg.absence=wait"]).absence == "skip"


def test_one_of_two_takes_back_the_other_whoever_said_it():
    recipe = make_settings("fedavg", ["local.steps=5", "local.epochs=2"]).algorithm.local
    assert (recipe.steps, recipe.epochs) == (None, 2)
    recipe = make_settings("fedavg", ["fedavg.local.epochs=2"], {"local": {"steps": 5}}).algorithm.local
    assert (recipe.steps, recipe.epochs) == (None, 2)
    with pytest.raises(SettingError, match="give one of the two"):
        make_settings("fedavg", (), {"local": {"steps": 5, "epochs": 2}})


@pytest.mark.parametrize(
    "words",
    [
        ["clients=many", "clients=5"],
        ["clients=0", "clients=5"],
        ["fleet=3", "fleet.jitter=0.1"],
        ["fedavg.rounds=0", "rounds=3"],
        ["fedbuff.buffer=none", "fedbuff.buffer=5"],
        ["fedbuff.absence=[1]", "fedbuff.absence=skip"],
    ],
)
def test_every_word_is_checked(words):
    with pytest.raises(SettingError):
        make_settings("fedavg", words)
    make_settings("fedavg", words[1:])


def test_two_that_only_go_together_may_be_said_one_by_one():
    sap = make_settings("da-dpfl", ["da-dpfl.pruning.sap.p=1.5", "da-dpfl.pruning.sap.q=2"]).algorithm.pruning.sap
    assert (sap.p, sap.q) == (1.5, 2.0)


def test_the_setting_of_an_algorithm_of_one_s_own_is_suggested_as_it_can_be_said(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "outside"))
    with pytest.raises(SettingError, match=r"did you mean 'algorithm\.mixing'"):
        make_settings("fastpack.fast:Twist", ["mixing=0.3"])
    assert make_settings("fastpack.fast:Twist", ["algorithm.mixing=0.3"]).algorithm.mixing == 0.3
