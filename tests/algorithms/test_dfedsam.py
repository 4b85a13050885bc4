"""DFedSAM: the gradient at the worst point near by, then averaging."""

from dataclasses import replace

import numpy as np
import pytest

from paceline.algorithms.dfedavgm import DFedAvgM
from paceline.algorithms.dfedsam import DFedSAM
from paceline.algorithms.neighbourhoods import Neighbourhoods
from paceline.data.quadratic import Quadratic
from paceline.errors import SettingError
from paceline.learn.recipe import LocalSGD
from tests.algorithms.test_dfedavgm import start_of
from tests.algorithms.test_gossip import RING, personal
from tests.algorithms.test_pfedavg import LOCAL, SIZE, quadratics, world_of
from tests.worlds.worlds import FixedLinks, follow, quadratic_world


def test_impossible_settings_are_refused():
    with pytest.raises(SettingError, match="1 to 35"):
        DFedSAM(neighbours=Neighbourhoods(degree=40)).check(36)


@pytest.mark.parametrize("rho", [0.01, 0.5, 3.0])
def test_the_perturbation_has_norm_rho(rho):
    """The step is w - rate * grad(w + rho g/|g|). From how far it moved on a A|x - c|^2/2 of known bend the point at
    which the gradient was taken can be read off: it lies rho away from w, up the slope."""
    bend, rate = 2.5, 0.1
    plain = quadratics(5, sigma2=0.0)
    problem = Quadratic(curvature=plain.curvature * bend, centre=plain.centre, sigma2=0.0)
    local = LocalSGD(lr=rate, batch=6, steps=1, sam=rho, loss="squared")
    (found,) = personal(DFedSAM(rounds=1, neighbours=RING, local=local), quadratic_world(problem))
    w = start_of(problem)
    point = (w - found) / (rate * bend) + problem.centre
    away, slope = point - w, w - problem.centre
    assert np.allclose(np.linalg.norm(away, axis=1), rho, rtol=1e-9)
    upwards = (away * slope).sum(axis=1) / (rho * np.linalg.norm(slope, axis=1))
    assert np.allclose(upwards, 1.0, rtol=1e-9)


@pytest.mark.parametrize("graph", ["ring", "random"])
def test_without_a_radius_it_is_dfedavgm_with_whole_models(graph):
    problem = quadratics(7)
    words = {"rounds": 3, "neighbours": Neighbourhoods(graph=graph, degree=3), "local": replace(LOCAL, momentum=0.9)}
    one = personal(DFedSAM(**words), quadratic_world(problem))
    other = personal(DFedAvgM(**words, bits=None), quadratic_world(problem))
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    sharp = personal(DFedSAM(**words | {"local": replace(words["local"], sam=0.5)}), quadratic_world(problem))
    assert not np.allclose(one[-1], sharp[-1], atol=1e-3)


def test_whole_models_travel():
    world = world_of([1.0] * 10, FixedLinks(0.1))
    follow(world, DFedSAM(rounds=2, neighbours=Neighbourhoods(degree=3), local=LOCAL))
    assert world.ledger.bytes == 2 * 10 * 3 * SIZE


def test_sam_costs_twice_the_flops():
    """DA-T2: DFedSAM's training FLOPs are twice those of the others."""
    flops = []
    for radius in (0.0, 0.01):
        world = world_of([1.0] * 6)
        follow(world, DFedSAM(rounds=1, neighbours=RING, local=replace(LOCAL, sam=radius)))
        flops.append(world.ledger.flops)
    assert flops[1] == 2 * flops[0] > 0
