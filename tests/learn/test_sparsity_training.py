"""Masks hold after every step of the optimiser, whatever momentum and weight decay do (DA-7)."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.job import Shards, TrainJob
from paceline.learn.recipe import LocalSGD
from paceline.learn.reference import ReferenceTrainer
from paceline.learn.space import Space
from paceline.learn.sparsity import counts, layer_counts, maskable, random_masks


@given(
    inputs=st.integers(2, 9),
    hidden=st.integers(2, 9),
    density=st.floats(0.2, 1.0),
    steps=st.integers(1, 4),
    momentum=st.sampled_from([0.0, 0.9]),
    decay=st.sampled_from([0.0, 0.1]),
    sam=st.sampled_from([0.0, 0.05]),
    seed=st.integers(0, 10**6),
)
def test_masks_hold_after_every_step(inputs, hidden, density, steps, momentum, decay, sam, seed):
    """Visits of 1, 2, ... steps are the states after every step."""

    def make():
        return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, 3))

    space = Space("mlp", make, (inputs,), torch.float64)
    slots = maskable(space)
    kept = layer_counts(slots, max(density, 2 * len(slots) / sum(s.stop - s.start for s in slots)))
    masks = random_masks(space, slots, kept, seed, range(3))
    assert counts(masks, slots).tolist() == [kept] * 3
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.normal(size=(12, inputs)))
    shards = Shards(x, torch.from_numpy(rng.integers(0, 3, 12)), np.arange(12), np.array([0, 4, 8, 12]))
    recipe = LocalSGD(lr=0.3, batch=2, steps=steps, momentum=momentum, weight_decay=decay, sam=sam)
    start = space.initial(seed)
    jobs = [TrainJob(space, start, recipe, 0.3, shards, k, seed + k, mask=masks[k]) for k in range(3)]
    for trainer in (CohortTrainer(), ReferenceTrainer()):
        for trained, mask in zip(trainer.train(jobs), masks, strict=True):
            assert not trained.value[mask == 0].any()
            assert trained.value[mask == 1].ne(start[mask == 1]).any()
