"""SPFL, APFL, DGA and MIFA: their times by hand, and their recursions on a quadratic (NI-1 ... NI-8)."""

import itertools
import math
import re
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.algorithms.apfl import APFL, Buffer, staleness_weight
from paceline.algorithms.asynchrony import Asynchrony
from paceline.algorithms.dga import DGA
from paceline.algorithms.mifa import MIFA
from paceline.algorithms.psfl import PSFL
from paceline.algorithms.spfl import SPFL
from paceline.errors import SettingError
from paceline.learn.distillation import distil
from paceline.learn.executor import Executor
from paceline.learn.recipe import LocalSGD
from paceline.learn.reference import ReferenceTrainer
from paceline.ledger import Ledger
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.settings import make_settings
from paceline.runs.until import Until
from paceline.system import AlwaysOn, Fleet, FreeServer
from paceline.system.availability import Leave
from paceline.system.server import ConstantServer
from paceline.worlds.absence import SKIP, WAIT
from paceline.worlds.problem import Problem
from paceline.worlds.simulation.machines import simulate
from tests.algorithms.test_psfl import quadratic_world
from tests.worlds.worlds import SPACE, FixedLinks, Table, dry_world, follow, follow_while_there, spans

TL, TC, TW, TG = 19.0, 6.0, 38.0, 19.0


class FirstVanish:
    """In every visit the same two devices vanish as soon as they have the model."""

    def next_online(self, device, now):
        return now

    def online_until(self, device, now):
        return math.inf

    def leaves(self, device, visit, start, seconds):
        return Leave(start, start + TW) if device < 2 else None


def paper_world(*, stragglers=True, server=TG, times=TL, devices=10, availability=None, absence=SKIP):
    fleet = Fleet(
        size=devices,
        compute=Table([times] * devices if isinstance(times, float) else times),
        links=FixedLinks(TC / 2),
        availability=availability or (FirstVanish() if stragglers else AlwaysOn()),
        server=ConstantServer(server) if server else FreeServer(),
    )
    return simulate(fleet, Problem(SPACE, "none", nominal=10), 0, Ledger(), learning=False, absence=absence)


FEDAVG = PSFL(rounds=6, width=10, length=1, sampler="uniform")


@pytest.mark.parametrize(
    ("algorithm", "per_round"),
    [
        (FEDAVG, TL + TC + TW + TG),
        (DGA(rounds=6), TL + TC + TW + TG),
        (SPFL(rounds=6), max(TL + TC + TW, TG)),
    ],
    ids=["fedavg", "dga", "spfl"],
)
def test_rounds_take_what_the_closed_form_says(algorithm, per_round):
    times = follow(paper_world(absence=WAIT), algorithm)
    assert np.diff(times) == pytest.approx([per_round] * 5)
    assert times[0] <= per_round


def test_mifa_waits_for_stragglers_in_the_first_round_only():
    times = follow(paper_world(), MIFA(rounds=6))
    assert times[0] == pytest.approx(TL + TC + TW + TG)
    assert np.diff(times) == pytest.approx([TL + TC + TG] * 5)


def test_a_slow_server_sets_the_pace_of_spfl():
    """NI-E2: max(T_l + T_c + T_w, T_g), not max(T_l + T_c, T_g) + T_w."""
    times = follow(paper_world(server=100.0, absence=WAIT), SPFL(rounds=5))
    assert np.diff(times) == pytest.approx([100.0] * 4)


def test_in_spfl_the_server_works_while_devices_train():
    world = paper_world(stragglers=False, absence=WAIT)
    follow(world, SPFL(rounds=3))
    works = spans(world, "start", "end", kinds=["work"])
    assert works == [(25.0, 44.0), (50.0, 69.0)]  # in the second and third round, from their beginning


def cycle(world, rounds=400):
    """Mean virtual time between two uploads of a device."""
    follow(world, APFL(rounds=rounds))
    ends = defaultdict(list)
    for site, end in spans(world, "site", "end", kinds=["train"]):
        ends[site].append(end)
    return np.mean([np.diff(v[5:]).mean() for v in ends.values()])


@pytest.mark.parametrize(("a", "g", "simulated"), [(25.0, 10.0, 25.1), (25.0, 19.0, 28.6), (25.0, 40.0, 40.1)])
def test_the_cycle_of_apfl_lies_between_its_bounds(a, g, simulated):
    """NI-E7: max(a, g) <= cycle <= max(a, 2g); near the values of an independent event simulation."""
    rng = np.random.default_rng(0)
    jittered = [list(rng.normal(a - TC, 0.4, 200)) for _ in range(10)]
    found = cycle(paper_world(stragglers=False, server=g, times=jittered))
    assert max(a, g) - 0.2 <= found <= max(a, 2 * g)
    assert found == pytest.approx(simulated, abs=1.5)


def test_devices_in_step_are_aggregated_together():
    """Arrivals at one instant are coalesced: ten equal devices make one aggregation a cycle."""
    world = paper_world(stragglers=False, server=10.0)
    times = follow(world, APFL(rounds=5))
    assert np.diff(times) == pytest.approx([25.0] * 4)
    assert world.chronicle.counts["staleness"] == Counter({0: 10, 10: 40})


def test_a_held_device_is_booked_as_waiting_for_the_server():
    world = paper_world(stragglers=False, server=60.0)
    follow(world, APFL(rounds=4))
    waits = spans(world, "site", "peer", kinds=["wait"])
    assert (3, -1) in waits


def test_a_device_that_vanishes_rejoins_with_the_present_model():
    """NI-8: it is away for 38 s, in which the others get on; what it trains then is no older than a visit."""
    world = paper_world(server=0.5)
    follow(world, APFL(rounds=200))
    trained = Counter(site for (site,) in spans(world, "site", kinds=["train"]))
    assert trained[0] > 3
    assert trained[5] > trained[0]
    # Nine others contact the server at most once in the 25 s of a visit, and once more at its edges.
    assert max(world.chronicle.counts["staleness"]) <= 2 * 9


def test_mifa_waits_for_absent_devices_in_its_first_round_only():
    """Device 1 comes at 5 s and leaves in the second round, for good: its first update counts until the end."""

    class Late:
        def next_online(self, device, now):
            return now if device == 0 or 5 <= now < 6.5 else 5.0 if now < 5 else math.inf

        def online_until(self, device, now):
            return math.inf if device == 0 else 6.5

        def leaves(self, device, visit, start, seconds):
            return Leave(6.5, math.inf) if device and visit else None

    world = dry_world([1.0, 1.0], availability=Late())
    assert follow(world, MIFA(rounds=4)) == [6.0, 7.0, 8.0, 9.0]
    assert spans(world, "start", "end", kinds=["train"])[:5] == [(0, 1), (5, 6), (6, 6.5), (6, 7), (7, 8)]
    assert world.chronicle.counts["staleness"] == {0: 5, 1: 1, 2: 1, 3: 1}


def test_when_nobody_is_there_mifa_waits():
    """All vanish together: without waiting, rounds would pass in no time and add the same memory again and again."""

    class AllVanish(FirstVanish):
        def leaves(self, device, visit, start, seconds):
            return Leave(start, start + TW)

    world = paper_world(availability=AllVanish())
    times = follow(world, MIFA(rounds=6))
    assert min(np.diff(times)) >= TG
    assert times[-1] > 2 * TW


@pytest.mark.parametrize("algorithm", [APFL(rounds=50), MIFA(rounds=50)], ids=["apfl", "mifa"])
def test_a_run_ends_when_everybody_is_gone(algorithm):
    class Gone(FirstVanish):
        def next_online(self, device, now):
            return now if now < 200 else float("inf")

        def leaves(self, device, visit, start, seconds):
            return Leave(start + seconds / 2, float("inf")) if start > 100 else None

    times, end = follow_while_there(paper_world(availability=Gone()), algorithm)
    assert 0 < len(times) < 50
    assert re.fullmatch(rf"every client has left for good at t=.* s; {len(times)} of 50 rounds are done", end)


def test_devices_that_train_on_in_dga_are_not_booked_as_waiting():
    world = paper_world(stragglers=False, times=[5.0, 7.0, 11.0, 17.0], devices=4, absence=WAIT)
    follow(world, DGA(rounds=4))
    by_site = defaultdict(list)
    for site, kind, start, end in spans(world, "site", "kind", "start", "end"):
        if site >= 0 and kind in ("train", "wait") and end > start:
            by_site[site].append((start, end))
    for intervals in by_site.values():
        intervals.sort()
        assert all(a[1] <= b[0] + 1e-9 for a, b in itertools.pairwise(intervals))


@given(
    times=st.lists(st.floats(0.5, 30.0), min_size=2, max_size=8),
    server=st.sampled_from([0.0, 0.3, 5.0, 60.0]),
)
def test_at_most_one_unaggregated_upload_per_device(times, server):
    """NI-6 under random schedules; the clock counts every upload once."""
    seen = []

    class Watched(Buffer):
        def put(self, upload):
            waiting = [one.device for one in self.pending]
            assert upload.device not in waiting
            super().put(upload)
            seen.append(upload.device)

    import paceline.algorithms.apfl as module

    original, module.Buffer = module.Buffer, Watched
    try:
        world = paper_world(stragglers=False, server=server, times=[float(t) for t in times], devices=len(times))
        follow(world, APFL(rounds=30))
    finally:
        module.Buffer = original
    assert 30 <= sum(world.chronicle.counts["staleness"].values()) <= len(seen)


def values(world, algorithm):
    """The models of all Progress, computed one at a time."""

    async def main():
        models = []
        async for progress in algorithm.run(world):
            world.progress += 1
            models.append(progress.model)
        return models

    models = world.loop.run_until_complete(main())
    world.loop.stop_tasks()
    Executor(ReferenceTrainer()).run(models)
    return [model.value.numpy() for model in models]


CENTRES = np.random.default_rng(1).normal(size=(4, 3))
LOCAL = LocalSGD(lr=0.3, batch=1, steps=1, loss="squared")


def test_spfl_is_one_round_late():
    """w(t+1) = w(t) + mean of -lr (w(t-1) - c_i), w(1) = w(0) (Eq. 3, Eq. 7)."""
    world = quadratic_world(CENTRES)
    before = now = world.initial_model().value.numpy()
    expected = []
    for t in range(7):
        if t:
            before, now = now, now - 0.3 * (before - CENTRES.mean(axis=0))
        expected.append(now)
    got = values(world, SPFL(rounds=7, local=LOCAL))
    assert np.stack(got) == pytest.approx(np.stack(expected), abs=1e-12)


def test_averaging_models_makes_two_chains_that_never_meet():
    """NI-E6: with aggregate="models", even and odd rounds are two FedAvg runs from the same start."""
    world = quadratic_world(CENTRES)
    x = world.initial_model().value.numpy()
    chain = [x]
    for _ in range(4):
        chain.append(chain[-1] - 0.3 * (chain[-1] - CENTRES.mean(axis=0)))
    got = values(world, SPFL(rounds=8, local=LOCAL, aggregate="models"))
    assert np.stack(got[0::2]) == pytest.approx(np.stack(chain[:4]), abs=1e-12)
    assert np.stack(got[1::2]) == pytest.approx(np.stack(chain[1:5]), abs=1e-12)


def test_apfl_divides_by_the_number_of_devices():
    """Four equal devices, free server: each cycle adds a quarter of every update, made from the model before."""
    world = quadratic_world(CENTRES)
    first, second = values(world, APFL(rounds=2, local=LOCAL))
    x = world.initial_model().value.numpy()
    step = -0.3 * (x - CENTRES.mean(axis=0))
    assert first == pytest.approx(x + step, abs=1e-12)
    assert second == pytest.approx(first + step, abs=1e-12)  # replied before they were aggregated: from x again


def test_with_a_table_apfl_is_the_mean_of_all_devices_last_models():
    """NI-E12, as the reference code; devices that have not uploaded yet count as having the first model."""
    world = quadratic_world(CENTRES, times=[1.0, 10.0, 10.5, 11.0])
    x = world.initial_model().value.numpy()
    table, start, expected = np.stack([x] * 4), x, []
    for _ in range(9):  # only device 0, which gets the model before its last upload: it replies before it aggregates
        table[0] = start - 0.3 * (start - CENTRES[0])
        start, latest = (expected[-1] if expected else x), table.mean(axis=0)
        expected.append(latest)
    got = values(world, APFL(rounds=9, local=LOCAL, table=True))
    assert np.stack(got) == pytest.approx(np.stack(expected), abs=1e-12)


@pytest.mark.parametrize("table", [False, True])
def test_lone_uploads_are_distilled_with_the_last_models_of_all_if_there_is_a_table(table, monkeypatch):
    """NI-E12: three devices that never meet; updates alone make every distillation that of one teacher, itself."""
    seen = []

    def watched(rule, space, start, given, x, key):
        seen.append(len(given))
        return distil(rule, space, start, given, x, key)

    monkeypatch.setattr("paceline.algorithms.aggregate.distil", watched)
    words = ["clients=3", "partition=iid", "public=0.1", "rounds=8", "local.epochs=1", "apfl.aggregation.rule=distil"]
    words += ["apfl.aggregation.distillation.steps=5", f"apfl.table={str(table).lower()}"]
    one = make_run(make_settings("apfl", words))
    drive([one], make_executor(one.settings.executor))
    assert one.failure is None, one.failure
    assert seen == sorted(seen) and set(seen) == ({2, 3} if table else set())
    aggregation, model = one.settings.algorithm.aggregation, one.world.initial_model()
    (*_, (last,)) = spans(one.world, "flops", kinds=["work"])
    assert last == aggregation.flops(one.world, model, 3 if table else 1)


def test_weights_of_late_updates_are_refused_with_a_table():
    with pytest.raises(SettingError, match=r"staleness is 'polynomial:0.5' with table=true.*wanted staleness=none"):
        APFL(staleness="polynomial:0.5", table=True).check(10)


@pytest.mark.parametrize(
    ("uploads", "devices", "staleness", "holds"),
    [(1001, 10, 1, True), (1000, 10, 1, False), (16_001, 10, 2, True), (15_999, 10, 2, False), (10**7, 10, 10, True)],
)
def test_theorem_7_needs_many_uploads_and_little_staleness(uploads, devices, staleness, holds):
    """NI-E11: T > N^3 and staleness <= T^(1/4)/N^(3/4), by hand; a staleness of N needs N^7 uploads."""
    found = Asynchrony(uploads=uploads, devices=devices, staleness=staleness)
    assert found.holds is holds
    assert ("theorem (NI-E11) hold for" if holds else "theorem (NI-E11) do not hold for") in found.event().text
    assert found.event().figures["holds"] is holds


def test_a_run_of_apfl_tells_whether_theorem_7_speaks_of_it():
    """Ten equal devices in step: five aggregations of ten, each but the first from the model ten uploads before."""
    world = paper_world(stragglers=False, server=10.0)
    follow(world, APFL(rounds=5))
    (told,) = world.chronicle.events
    assert told.figures == {
        "uploads": 50,
        "devices": 10,
        "staleness": 20,
        "most_staleness": pytest.approx(50**0.25 / 10**0.75),
        "holds": False,
    }
    assert "T = 50 <= 1,000 = N^3" in told.text and "staleness 20 > 0.473" in told.text


def test_a_lone_device_is_never_stale():
    world = paper_world(stragglers=False, devices=1, server=0.0)
    follow(world, APFL(rounds=50), rounds=20)  # also where a target ends it
    (told,) = world.chronicle.events
    assert (told.figures["uploads"], told.figures["staleness"], told.figures["holds"]) == (20, 2, True)


def test_the_remark_on_theorem_7_stands_in_the_log_of_a_run_that_its_time_ends():
    one = make_run(make_settings("apfl", ["clients=4", "partition=iid"]), dry=True, until=Until(time=20.0))
    drive([one], make_executor(one.settings.executor))
    texts = [told.text for told in one.world.chronicle.events]
    assert [text for text in texts if "NI-E11" in text] == texts[-1:]


class FirstLeaves(FirstVanish):
    """Device 0 leaves for good in its second visit."""

    def leaves(self, device, visit, start, seconds):
        return Leave(start + seconds / 2, math.inf) if device == 0 and visit >= 1 else None


@pytest.mark.parametrize(
    ("schedule", "rescale", "factors"),
    [
        ("constant", True, (1, 1, 1)),
        ("inverse:1", True, (1, 1 / 2, 1 / 3)),  # Gu et al.: what was memorised counts with the present rate
        ("inverse:1", False, (1, 1, 1)),
    ],
)
def test_mifa_adds_the_mean_of_all_memories(schedule, rescale, factors):
    """The first update of a device that has left counts again and again."""
    world = quadratic_world(CENTRES, availability=FirstLeaves())
    local = replace(LOCAL, schedule=schedule)
    got = values(world, MIFA(rounds=3, local=local, rescale=rescale))
    x = world.initial_model().value.numpy()
    first, expected = LOCAL.lr * (CENTRES[0] - x), []
    for round, factor in enumerate(factors):
        updates = local.lr_at(round) * (CENTRES - x)
        updates[0] = factor * first
        x = x + updates.mean(axis=0)
        expected.append(x)
    assert np.stack(got) == pytest.approx(np.stack(expected), abs=1e-12)


def test_dga_corrects_its_own_contribution():
    """w = server's model + own extra steps; what is uploaded is all own movement since the last upload."""
    world = quadratic_world(CENTRES, links=FixedLinks(1.0))  # an extra visit fits into the transfers
    x = world.initial_model().value.numpy()
    extra = np.zeros_like(CENTRES)
    expected = []
    for _ in range(3):
        w = x + extra
        trained = w - 0.3 * (w - CENTRES)
        own = trained - x
        extra = -0.3 * ((x + own) - CENTRES)
        x = x + own.mean(axis=0)
        expected.append(x)
    assert np.stack(values(world, DGA(rounds=3, local=LOCAL))) == pytest.approx(np.stack(expected), abs=1e-12)


def test_a_visit_of_dga_that_is_under_way_when_the_average_comes_is_the_next_rounds():
    """NI-E10: transfers take half a visit, so from the second round on all are made without the last average."""
    world = quadratic_world(CENTRES, links=FixedLinks(0.25))
    x = world.initial_model().value.numpy()
    expected, own = [], -0.3 * (x - CENTRES)
    for _ in range(3):
        x, own = x + own.mean(axis=0), -0.3 * ((x + own) - CENTRES)
        expected.append(x)
    assert np.stack(values(world, DGA(rounds=3, local=LOCAL))) == pytest.approx(np.stack(expected), abs=1e-12)
    assert world.chronicle.counts["staleness"] == Counter({0: 4, 1: 8})
    assert world.now() == pytest.approx(0.25 + 3 * 1.0 + 0.25)


@given(times=st.lists(st.floats(1.0, 10.0), min_size=1, max_size=6), links=st.sampled_from([0.0, 0.4, 2.0, 9.0]))
def test_no_round_of_dga_is_longer_than_fedavgs(times, links):
    """NI-E10: whatever the spread of the devices' times; the barrier of old made it up to twice as long."""

    def ends(algorithm):
        return np.array(follow(dry_world(times, FixedLinks(links), absence=WAIT), algorithm))

    fedavg = np.arange(1, 7) * (max(times) + 2 * links)
    assert np.all(ends(DGA(rounds=6)) <= fedavg + 1e-9)
    assert ends(DGA(rounds=6, extra=False)) == pytest.approx(fedavg)


def test_in_dga_uploads_begin_device_by_device():
    """Nobody waits for others before sending, and the fast make their extra visits while the slow ones train."""
    world = dry_world([1.0, 2.0, 10.0], FixedLinks(0.5), absence=WAIT)
    assert follow(world, DGA(rounds=1)) == [11.0]
    sent = [pair for pair in spans(world, "site", "start", kinds=["send"]) if pair[0] >= 0]
    assert sorted(sent) == [(0, 1.5), (1, 2.5), (2, 10.5)]
    trained = spans(world, "site", "start", "end", kinds=["train"])
    assert sorted(trained) == [(0, 0.5, 1.5), (0, 1.5, 2.5), (1, 0.5, 2.5), (1, 2.5, 4.5), (2, 0.5, 10.5)]


def test_without_anything_to_wait_for_dga_is_fedavg():
    """Equal devices, free links and server: the average is there at once, and no extra visit begins."""
    fedavg = PSFL(rounds=3, width=4, length=1, sampler="uniform", local=LOCAL)
    free = values(quadratic_world(CENTRES), DGA(rounds=3, local=LOCAL))
    assert np.stack(free) == pytest.approx(np.stack(values(quadratic_world(CENTRES), fedavg)), abs=1e-12)


def test_without_extra_steps_dga_is_fedavg():
    fedavg = PSFL(rounds=3, width=4, length=1, sampler="uniform", local=LOCAL)
    plain = values(quadratic_world(CENTRES), DGA(rounds=3, local=LOCAL, extra=False))
    assert np.stack(plain) == pytest.approx(np.stack(values(quadratic_world(CENTRES), fedavg)), abs=1e-12)


@pytest.mark.parametrize(
    ("text", "steps", "weight"),
    [("none", 5, 1.0), ("polynomial:0.5", 3, 0.5), ("constant:0.3", 2, 0.3), ("constant:0.3", 0, 1.0)],
)
def test_staleness_weights(text, steps, weight):
    assert staleness_weight(text, steps) == pytest.approx(weight)


@pytest.mark.parametrize("text", ["linear", "polynomial", "polynomial:x", "constant:-1", "none:2"])
def test_unknown_staleness_is_refused(text):
    with pytest.raises(SettingError, match="staleness is"):
        APFL(staleness=text).check(10)
