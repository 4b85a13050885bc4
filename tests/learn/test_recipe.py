"""Recipes: rates by round, how long a visit is, and what cannot be."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import DataError, SettingError
from paceline.learn.draws import draw_batches
from paceline.learn.job import Shards
from paceline.learn.recipe import SCHEDULES, LocalSGD

ROUNDS = st.integers(0, 500)


# -- schedules ----------------------------------------------------------------------------------------------------


@given(ROUNDS)
def test_schedules_are_what_their_descriptions_say(round):
    assert LocalSGD(lr=0.3).lr_at(round) == 0.3
    assert LocalSGD(lr=0.3, schedule="exponential:0.9").lr_at(round) == pytest.approx(0.3 * 0.9**round)
    assert LocalSGD(lr=0.3, schedule="inverse:10").lr_at(round) == pytest.approx(0.3 * 10 / (10 + round))
    assert LocalSGD(lr=0.3, schedule="step:0.1,50").lr_at(round) == pytest.approx(0.3 * 0.1 ** (round // 50))


@pytest.mark.parametrize("schedule", ["constant", "exponential:0.5", "inverse:3", "step:0.5,2"])
def test_every_schedule_begins_at_lr_and_never_rises(schedule):
    rates = [LocalSGD(lr=0.7, schedule=schedule).lr_at(round) for round in range(50)]
    assert rates[0] == 0.7
    assert all(later <= earlier for earlier, later in pairwise(rates))


def test_a_step_is_taken_at_its_round():
    recipe = LocalSGD(lr=1.0, schedule="step:0.5,3")
    assert [recipe.lr_at(round) for round in range(7)] == [1, 1, 1, 0.5, 0.5, 0.5, 0.25]


@pytest.mark.parametrize(
    "schedule",
    ["", "cosine", "exponential", "exponential:", "exponential:x", "exponential:1,2", "inverse:0", "inverse:-1",
     "inverse:nan", "step:0.5", "step:0.5,0", "step:0.5,-2", "step:1,2,3", "constant:3", "Constant"],
)  # fmt: skip
def test_an_unknown_schedule_is_refused_with_all_forms(schedule):
    with pytest.raises(SettingError) as caught:
        LocalSGD(schedule=schedule)
    assert repr(schedule) in str(caught.value)
    assert all(form in str(caught.value) for form in SCHEDULES)


@pytest.mark.parametrize("schedule", ["exponential:-0.5", "exponential:nan", "step:-1,5", "exponential:inf"])
def test_a_factor_that_makes_no_rate_is_refused(schedule):
    with pytest.raises(SettingError):
        LocalSGD(schedule=schedule)


# -- what cannot be -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lr", "batch", "steps", "epochs", "clip"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_what_must_be_positive(name, value):
    with pytest.raises(SettingError, match=rf"local\.{name} is .*(greater than 0|1 to [\d,]+$)"):
        LocalSGD(**{name: value})


@pytest.mark.parametrize("words", [{"batch": 10**9}, {"steps": 10**9}, {"epochs": 10**9}, {"momentum": 1.0}])
def test_what_no_machine_computes_is_refused(words):
    with pytest.raises(SettingError, match=f"local.{next(iter(words))} is "):
        LocalSGD(**words)


def test_a_visit_draws_no_more_samples_than_memory_holds():
    with pytest.raises(SettingError, match=r"local\.steps times local\.batch is 1,000,000,000,000 samples a visit"):
        LocalSGD(steps=1_000_000, batch=1_000_000)


def test_a_rate_that_grows_beyond_all_numbers_is_infinite():
    assert LocalSGD(schedule="exponential:10").lr_at(1000) == math.inf
    assert LocalSGD(schedule="step:1e100,1").lr_at(1000) == math.inf


@pytest.mark.parametrize("name", ["momentum", "weight_decay", "prox", "sam"])
@pytest.mark.parametrize("value", [-0.1, float("nan")])
def test_what_must_not_be_negative(name, value):
    with pytest.raises(SettingError, match=rf"local\.{name} is .*0 or more"):
        LocalSGD(**{name: value})
    assert getattr(LocalSGD(**{name: 0.0}), name) == 0.0


def test_steps_or_epochs_but_not_both():
    with pytest.raises(SettingError, match=r"local\.steps=3 and local\.epochs=2: give one of the two"):
        LocalSGD(steps=3, epochs=2)


@pytest.mark.parametrize(
    ("setting", "hint"), [({"augment": "crop"}, "did you mean 'crop-flip'"), ({"loss": "square"}, "'squared'")]
)
def test_unknown_words_name_the_nearest(setting, hint):
    with pytest.raises(SettingError, match=hint):
        LocalSGD(**setting)


def test_a_recipe_is_a_value():
    """Recipes are keys: equal ones share a cohort."""
    assert LocalSGD(lr=0.1, batch=5) == LocalSGD(lr=0.1, batch=5)
    assert hash(LocalSGD(batch=5)) == hash(LocalSGD(batch=5))
    assert LocalSGD(batch=5) != LocalSGD(batch=6)


# -- lengths ------------------------------------------------------------------------------------------------------


@given(
    st.integers(1, 100),
    st.integers(1, 30),
    st.one_of(
        st.just({}),
        st.builds(lambda n: {"steps": n}, st.integers(1, 60)),
        st.builds(lambda n: {"epochs": n}, st.integers(1, 5)),
    ),
    st.sampled_from([0.0, 0.05]),
)
def test_lengths_are_those_of_the_batches_that_are_drawn(size, batch, length, sam):
    """Costs are booked from ``steps_for`` and ``samples_for`` before anything is drawn: they must be the truth."""
    recipe = LocalSGD(batch=batch, sam=sam, **length)
    batches = draw_batches([11], [size], recipe)
    assert batches.steps_C == [recipe.steps_for(size)]
    assert recipe.samples_for(size) == batches.real_CSB.sum() * (2 if sam else 1)


def test_one_epoch_when_nothing_is_said():
    assert LocalSGD(batch=10).steps_for(25) == LocalSGD(batch=10, epochs=1).steps_for(25) == 3
    assert LocalSGD(batch=10).samples_for(25) == 25


@pytest.mark.parametrize("length", [{"steps": 3}, {"epochs": 1}])
def test_a_client_without_samples_is_refused(length):
    assert LocalSGD(batch=4, **length).samples_for(0) == 0
    with pytest.raises(DataError, match="client 1 owns no samples"):
        Shards(torch.zeros(5, 2), torch.zeros(5, dtype=torch.int64), np.arange(5), np.array([0, 2, 2, 5]))
