"""HierFAVG: what makes it hierarchical, its traffic, and what it does when servers fail."""

import numpy as np
import pytest

from paceline.algorithms.hierfavg import HierFAVG
from paceline.algorithms.psfl import PSFL
from paceline.errors import SettingError, SiteError
from paceline.learn.recipe import LocalSGD
from paceline.system.failures import Failures
from tests.algorithms.test_pfedavg import LOCAL, SIZE, outcome, quadratics, world_of
from tests.worlds.worlds import FixedLinks, follow, spans


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"servers": 0}, "servers is 0"),
        ({"partial": 0}, "partial is 0"),
        ({"servers": 40}, "only 36 clients"),
        ({"participants": 5}, "wanted 1 to 4"),
    ],
)
def test_impossible_settings_are_refused(overrides, said):
    with pytest.raises(SettingError, match=said):
        HierFAVG(**overrides).check(36)


def test_one_aggregation_at_the_edge_is_fedavg():
    """partial = 1 with all clients, equal weights: the cloud's average of averages of equally many is FedAvg's."""
    problem = quadratics(6)
    base = {"rounds": 3, "local": LOCAL}
    ours = outcome(HierFAVG(servers=3, participants=None, partial=1, objective="clients", **base), problem)
    fedavg = outcome(PSFL(participants=6, width=6, length=1, sampler="uniform", **base), problem)
    for (one, _), (other, _) in zip(ours, fedavg, strict=True):
        assert np.allclose(one, other, rtol=0, atol=1e-12)


def test_two_aggregations_at_the_edge_let_edges_drift():
    """Full-batch steps on quadratics with A = I: an edge's model goes to its own clients' mean in the meantime."""
    problem, rate = quadratics(6, sigma2=0.0), 0.5
    local = LocalSGD(lr=rate, batch=6, steps=1, loss="squared")
    algorithm = HierFAVG(servers=2, participants=None, partial=40, rounds=1, objective="clients", local=local)
    ((model, _),) = outcome(algorithm, problem)
    edges = problem.centre[0::2].mean(axis=0), problem.centre[1::2].mean(axis=0)
    assert np.allclose(model, np.mean(edges, axis=0), atol=1e-6)


def test_clients_stay_for_a_round_unless_redrawn():
    for redraw in (False, True):
        world = world_of([1.0] * 90)
        follow(world, HierFAVG(rounds=1, redraw=redraw, local=LOCAL))
        assert (len({site for (site,) in spans(world, "site", kinds=("train",))}) > 36) == redraw


def test_traffic_of_a_round():
    """Each edge talks twice with each of its clients, once with the cloud; the cloud with 9 edges, both ways."""
    world = world_of([1.0] * 36, FixedLinks(0.1))
    follow(world, HierFAVG(rounds=2, local=LOCAL))
    totals = world.ledger.totals()
    assert totals.bytes == 2 * (2 * 2 * 36 + 2 * 9) * SIZE
    assert totals.busiest_bytes == 2 * 2 * 9 * SIZE and totals.busiest_site == -10


def test_a_round_takes_the_slowest_edge():
    world = world_of([5.0] + [1.0] * 17, FixedLinks(0.5))
    times = follow(world, HierFAVG(rounds=2, participants=2, local=LOCAL))
    assert times == pytest.approx([1 + 2 * (5 + 1), 2 * (1 + 2 * (5 + 1))])


def test_a_failed_edge_is_left_out_and_a_failed_cloud_ends_it():
    world = world_of([1.0] * 18, FixedLinks(0.5), failures=Failures(servers={-3: 7.0}))
    assert len(follow(world, HierFAVG(rounds=4, participants=2, local=LOCAL))) == 4
    assert [note.text for note in world.chronicle.events] == ["server 3 has failed; its 2 clients are left out"]
    world = world_of([1.0] * 18, FixedLinks(0.5), failures=Failures(servers={-10: 7.0}))
    with pytest.raises(SiteError, match=r"server 10, failed at t=7 s: nothing goes on"):
        follow(world, HierFAVG(rounds=4, participants=2, local=LOCAL))
