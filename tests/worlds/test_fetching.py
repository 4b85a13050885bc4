"""A site fetches what several others send: one after the other or at once, who is away is left out."""

import pytest

from paceline.learn.recipe import LocalSGD
from paceline.worlds.barrier import Branch
from paceline.worlds.simulation.undisturbed import UndisturbedStage
from paceline.worlds.stage import Stage
from tests.worlds.worlds import FixedLinks, Late, dry_world, play, spans

LOCAL = LocalSGD()


def fetched(world, *sources, target=3):
    """Who has sent what came, in the order of asking."""

    async def main():
        start = world.initial_model()
        return list(await world.fetch({source: [start] * (1 + source) for source in sources}, target))

    return play(world, main())


def test_links_that_carry_one_at_a_time_bring_one_after_the_other():
    world = dry_world([1.0] * 4, links=FixedLinks(2.0))
    assert type(world) is Stage and fetched(world, 2, 0, 1) == [2, 0, 1] and world.now() == 6.0
    assert spans(world, "site", "start", "end", kinds=["send"]) == [(2, 0.0, 2.0), (0, 2.0, 4.0), (1, 4.0, 6.0)]
    assert spans(world, "site", kinds=["wait"]) == []


def test_who_is_away_is_left_out():
    world = dry_world([1.0] * 4, links=FixedLinks(2.0), availability=Late())
    assert fetched(world, 2, 1, 0) == [2, 0] and world.now() == 4.0


def test_who_fetches_waits_for_the_owner_of_a_busy_link():
    world = dry_world([1.0] * 4, links=FixedLinks(2.0))

    async def main():
        other = world.spawn(world.send(world.initial_model(), 0, 1))
        await world.settled()
        await world.fetch({0: [world.initial_model()]}, 3)
        await other

    play(world, main())
    assert spans(world, "site", "start", "end", "peer", kinds=["wait"]) == [(3, 0.0, 2.0, 0)]


def test_where_nothing_disturbs_all_of_it_is_booked_at_once():
    world = dry_world([1.0] * 4)
    assert type(world) is UndisturbedStage and fetched(world, 2, 0) == [2, 0] and fetched(world) == []
    each = world.initial_model().nbytes
    assert spans(world, "site", "peer", "start", "end", "bytes", kinds=["send", "receive"]) == [
        *[(2, 3, 0.0, 0.0, 3 * each), (3, 2, 0.0, 0.0, 3 * each)],
        *[(0, 3, 0.0, 0.0, each), (3, 0, 0.0, 0.0, each)],
    ]
    assert world.ledger.bytes == 4 * each


@pytest.mark.parametrize("now", [5.0, 6.0])
def test_a_branch_notes_many_messages_as_it_would_one_by_one(now):
    """At the barrier's beginning at 5 s, where only who took part counts, and after it."""
    many, one_by_one = Branch(5.0), Branch(5.0)
    many.note_messages([4, 2, 7], 3, now)
    for source in (4, 2, 7):
        one_by_one.note_message(source, 3, now)
    assert many.log == one_by_one.log and len(many.log) == (6 if now > 5.0 else 0)
    assert list(dict.fromkeys(many.met)) == list(dict.fromkeys(one_by_one.met))
    assert many.met[-1:] == one_by_one.met[-1:] and many.last == one_by_one.last == 3


def test_who_was_only_asked_at_the_beginning_of_a_barrier_takes_part_in_it():
    """2 and 0 send to 1 at once, and 1 trains for 3 s: both of them wait for it, in the order of their sending."""
    world = dry_world([1.0, 3.0, 1.0])

    async def peer():
        await world.fetch({2: [world.initial_model()], 0: [world.initial_model()]}, 1)
        await world.train(1, world.initial_model(), LOCAL)

    play(world, world.gather([peer()]))
    assert spans(world, "site", "start", "end", "peer", kinds=["wait"]) == [(2, 0.0, 3.0, 1), (0, 0.0, 3.0, 1)]
