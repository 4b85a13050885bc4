"""Who came back from a barrier, and what is made of those who did not."""

import pytest

from paceline.algorithms.base import came_back, comes, those, unless_dropped
from paceline.errors import Dropped
from paceline.learn.recipe import LocalSGD
from tests.worlds.worlds import dry_world, play, spans

RECIPE = LocalSGD()


async def brings(world, client, what):
    """A client trains, and brings this; one that is to drop out does so after its training."""
    await world.train(client, world.initial_model(), RECIPE)
    if isinstance(what, BaseException):
        raise what
    return what


@pytest.fixture
def world():
    return dry_world([1.0, 4.0, 2.0, 3.0])


def test_those_who_came_back_are_in_the_order_of_their_names(world):
    found = play(world, came_back(world, {client: brings(world, client, f"of {client}") for client in (1, 0, 3)}))
    assert list(found.items()) == [(1, "of 1"), (0, "of 0"), (3, "of 3")]


def test_who_drops_out_or_brings_nothing_is_not_in_the_answer_and_was_waited_for(world):
    what = {0: "model", 1: Dropped(1, 4.0), 2: None}
    found = play(world, came_back(world, {client: brings(world, client, one) for client, one in what.items()}))
    assert found == {0: "model"}
    assert world.now() == 4.0
    assert (0, "wait", 1.0, 4.0, 1) in spans(world, "site", "kind", "start", "end", "peer")


def test_nobody_at_all_is_an_empty_answer(world):
    assert play(world, came_back(world, {})) == {}
    assert play(world, came_back(world, {3: brings(world, 3, Dropped(3, 3.0))})) == {}


def test_other_exceptions_are_not_swallowed(world):
    with pytest.raises(ZeroDivisionError):
        play(world, came_back(world, {0: brings(world, 0, ZeroDivisionError())}))


def test_one_branch_alone(world):
    assert play(world, unless_dropped(brings(world, 0, 0))) == 0
    assert play(world, unless_dropped(brings(world, 0, Dropped(0, 1.0)))) is None


def test_answers_that_are_false_are_answers():
    assert those("abc", [0, None, ()]) == {"a": 0, "c": ()}
    with pytest.raises(ValueError, match="shorter"):
        those("ab", [1])


def test_somebody_comes_or_nobody_ever_will():
    class Gone:
        async def reach(self, clients):
            if 0 not in clients:
                raise Dropped(clients[0], 0.0)

    class There:
        presence = Gone()

    world = dry_world([1.0])
    assert play(world, comes(There(), [1, 0])) is True
    assert play(world, comes(There(), [1, 2])) is False
