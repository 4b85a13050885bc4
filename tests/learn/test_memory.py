"""A limit on memory: what is counted, what may be taken, and that parts give the same bits as the whole."""

import warnings
import weakref
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from paceline.errors import SettingError
from paceline.learn import memory, notices
from paceline.learn.codecs import Dense
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.executor import Executor
from paceline.learn.footprint import Need, model_bytes, outputs, sample_bytes
from paceline.learn.graph import Model, Sum, Visit, by_rows, combine, mean, packed
from paceline.learn.job import Score, Shards, Trained, TrainJob
from paceline.learn.memory import MIB, Budget, ground, rounded_down, row_bytes
from paceline.learn.promises import Comparison, Measure
from paceline.learn.recipe import LocalSGD
from paceline.learn.register import Register, registering
from paceline.learn.space import Space
from paceline.learn.sums import RunningSum, weighted
from paceline.seeds import stream

CPU = torch.device("cpu")
SPACE = Space("linear", lambda: nn.Linear(7, 9), (7,))
SHARDS = Shards(torch.ones(40, 7), torch.zeros(40, dtype=torch.int64), np.arange(40), np.arange(41))
RECIPE = LocalSGD(batch=5)
NEED = Need(SPACE, RECIPE, 5, 5)


@pytest.fixture(autouse=True)
def usual_ground(monkeypatch):
    """A process that takes no more than is usual."""
    monkeypatch.setattr(memory, "resident", lambda: 0)


def value(number):
    rng = stream(number, "memory")
    return Model(SPACE, torch.from_numpy(rng.normal(size=SPACE.size).astype(np.float32)))


def visit(start, client):
    operation = Visit("train", SHARDS, client, RECIPE, 0.1, client + 7, (), "A", 0, 0.0)
    return Model(SPACE, None, operation, (start,))


class Mover:
    """A trainer that moves a model by its client's number, and remembers how many it was given."""

    device = CPU

    def __init__(self):
        self.sizes, self.scored = [], 0

    def train(self, jobs):
        self.sizes.append(len(jobs))
        return [Trained(job.start * 1.1 + job.client / 3, torch.tensor(0.0)) for job in jobs]

    def evaluate(self, jobs):
        self.scored += len(jobs)
        return [Score(float(job.value.mean()), float(job.value.sum()), 10) for job in jobs]


class Tight(Budget):
    """So many visits, and rows, at a time."""

    def __init__(self, most):
        super().__init__(1e12, CPU)
        self.most = most

    def visits(self, need, besides=0):
        return self.most

    def stacked(self, space, parents):
        return self.most


# -- the accounts ----------------------------------------------------------------------------------------------------


def test_what_is_held_counts_as_long_as_it_is_held_and_once():
    budget = Budget(1e9, CPU)
    one, other = value(1), value(2)
    same = Model(SPACE, one.value)
    budget.note(one)
    budget.note(other)
    budget.note(same)
    assert budget.held() == 2 * model_bytes(SPACE) == 2 * 4 * SPACE.size
    del one
    assert budget.held() == 2 * model_bytes(SPACE)
    del same
    assert budget.held() == model_bytes(SPACE)


def test_what_is_computed_counts():
    budget, ends = Budget(1e12, CPU), [visit(value(0), k) for k in range(3)]
    Executor(Mover(), budget=budget).run(ends)
    assert budget.held() >= 3 * model_bytes(SPACE)


def test_of_many_models_only_those_still_held_are_remembered(monkeypatch):
    monkeypatch.setattr(memory, "PRUNED", 8)
    budget = Budget(1e9, CPU)
    budget._pruned_at = 8
    kept = [value(k) for k in range(4)]
    for k in range(1000):
        budget.note(kept[k] if k < 4 else value(0))
    assert len(budget._held) <= 17
    assert budget.held() == 4 * model_bytes(SPACE)


def test_data_count_once_whoever_reads_them():
    budget = Budget(1e9, CPU)
    x, y = torch.ones(100, 7), torch.ones(100)
    budget.see(x, y)
    budget.see(x.to(torch.float32), y)
    assert budget.data == 100 * 8 * 4
    budget.see(x.double())
    assert budget.data == 100 * 8 * 4 + 100 * 7 * 8


def test_room_is_what_is_left_less_a_reserve():
    budget = Budget(memory.RESERVED + 1000 * model_bytes(SPACE), CPU)
    assert budget.room() == memory.USABLE * 1000 * model_bytes(SPACE)
    held = [value(k) for k in range(100)]
    for model in held:
        budget.note(model)
    assert budget.room(besides=100 * model_bytes(SPACE)) == memory.USABLE * 800 * model_bytes(SPACE)


def test_a_process_that_takes_more_than_is_usual_leaves_less(monkeypatch):
    monkeypatch.setattr(memory, "resident", lambda: 1000 * MIB)
    assert Budget(1e12, CPU).ground == ground(1000 * MIB) == 1152 * MIB
    assert Budget(1e12, torch.device("cuda")).ground == 0  # there it is the device's memory that counts


@given(st.floats(0, 1e7), st.floats(0, 1e7))
def test_sizes_are_rounded_down_and_never_below_one(count, other):
    assert 1 <= rounded_down(count) <= max(1, count)
    assert rounded_down(min(count, other)) <= rounded_down(max(count, other))
    assert rounded_down(count) > count / 2 or count <= 1


@given(st.floats(0, 1e10), st.integers(1, 4), st.integers(1, 5000))
def test_what_may_be_taken_fits(limit, threads, longest):
    budget = Budget(memory.RESERVED + limit, CPU, threads)
    need = NEED._replace(longest=longest)
    visits, cohort, (models, samples) = budget.visits(need), budget.cohort(need), budget.scored(SPACE)
    if (rows := budget.stacked(SPACE, 3)) > 1:
        assert rows * row_bytes(SPACE, 3) <= limit
    if visits > 1:
        assert visits * (model_bytes(SPACE) + need.draws) + threads * need.step <= limit
    if cohort > 1:
        assert threads * cohort * need.step <= limit
    if models > 1 or samples > memory.FEWEST:
        assert threads * (models * 2 * model_bytes(SPACE) + samples * sample_bytes(SPACE)) <= limit
    assert samples >= memory.FEWEST * models  # a product with one row has other last bits


def test_a_step_takes_vectors_and_the_outputs_of_a_batch():
    """Four vectors and what the recipe adds, of 72 weights; 7 + 9 numbers of each sample, three times."""
    more = LocalSGD(batch=5, momentum=0.9, prox=0.1, sam=0.1)
    assert NEED.step == 4 * (4 * 72 + 5 * 3 * 16)
    assert NEED._replace(recipe=more, extras=1).step == 4 * (10 * 72 + 5 * 3 * 16)


def test_outputs_of_every_layer_are_counted():
    net = Space(
        "net", lambda: nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 4)), (1, 8, 8)
    )
    assert outputs(net) == [64, 108, 108, 108, 4]


@pytest.mark.parametrize(("dtype", "unfolds"), [(torch.float32, False), (torch.float64, True)])
def test_windows_are_read_in_place_in_single_precision_on_a_cpu(dtype, unfolds):
    def small():
        return nn.Sequential(nn.Conv2d(1, 3, 3), nn.Flatten(), nn.Linear(108, 4))

    space = Space("net", small, (1, 8, 8), dtype)
    numbers = 3 * 108 + unfolds * int(space.flops / 32)
    assert sample_bytes(space) == numbers * dtype.itemsize


def test_a_limit_that_is_too_low_is_refused_with_what_is_needed():
    budget = Budget(500 * MIB, CPU, 2)
    big = Space("big", lambda: nn.Linear(1000, 4000), (1000,))
    budget.see(torch.ones(10 * MIB // 4))
    budget.require([NEED])
    with pytest.raises(SettingError) as refused:
        budget.require([Need(big, RECIPE, 5, 5)] * 3)
    text = str(refused.value)
    assert text.startswith("executor.memory (--memory) is 500 MiB, but these runs need ")
    assert "448 MiB for Python and torch, 10 MiB for data, 91.6 MiB for the runs' own models" in text
    assert "to train one client a thread" in text
    assert "executor.threads=1" in text


def test_that_models_take_all_is_told_once(monkeypatch):
    monkeypatch.setattr(notices, "_told", set())
    budget = Budget(memory.RESERVED + 10, CPU)
    held = value(1)
    budget.note(held)
    with pytest.warns(notices.SlowerWay, match="nothing is left"):
        assert budget.visits(NEED) == 1
    budget.note(more := value(2))  # another sum of bytes, but no other news
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert budget.visits(NEED) == 1
    assert budget.held() == held.value.nbytes + more.value.nbytes


def test_memory_is_given_back_once_much_was_freed(monkeypatch):
    calls = []
    monkeypatch.setattr(memory, "_trim", lambda: calls.append)
    budget = Budget(memory.RESERVED + 100 * MIB, CPU)
    assert budget.ground == memory.RESERVED
    for taken in (memory.RESERVED, memory.RESERVED + 70 * MIB, memory.RESERVED + 80 * MIB):
        monkeypatch.setattr(memory, "resident", lambda taken=taken: taken)
        budget.give_back()
    assert calls == [0]
    budget.give_back(above=0.9)
    assert calls == [0]
    monkeypatch.setattr(memory, "resident", lambda: memory.RESERVED + 60 * MIB)
    budget.give_back(coming=10 * MIB)
    assert calls == [0]
    budget.give_back(coming=20 * MIB)
    assert calls == [0, 0]


# -- sums ------------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-3, 3, width=32), min_size=2, max_size=12), st.randoms(use_true_random=False))
def test_a_running_sum_has_the_bits_of_the_sum(coefficients, random):
    """In whatever order its terms become known, and also if it is given back on the way."""
    known = [value(k) for k in range(len(coefficients))]
    whole = weighted([model.value for model in known], coefficients)
    parents = tuple(Model(SPACE) for _ in coefficients)
    total = Model(SPACE, None, Sum(tuple(coefficients)), parents)
    running = RunningSum(total)
    assert total.parents == ()
    order, back = random.sample(range(len(parents)), len(parents)), random.randrange(len(parents) + 1)
    for k in order[:back]:
        parents[k].value = known[k].value
        running.add_known()
    running.give_back()
    for k in order[back:]:
        parents[k].value = known[k].value
    again = [parent.value for parent in total.parents]
    assert torch.equal(weighted(again, total.operation.coefficients), whole)
    assert torch.equal(RunningSum(total).finish(), whole)


def test_what_is_given_back_is_no_model_of_the_schedule():
    register = Register()
    with registering(register):
        terms = [value(1), Model(SPACE)]
        running = RunningSum(combine([(1.0, terms[0]), (2.0, terms[1])]))
        running.add_known()
        before = register.made
        running.give_back()
    assert register.made == before


# -- the executor ----------------------------------------------------------------------------------------------------


def graph(random, nodes):
    """A random graph of sums, rows and visits, with values to begin with."""
    made = [value(k) for k in range(3)]
    for k in range(nodes):
        kind = random.choice(["sum", "sum", "visit", "rows"])
        if kind == "sum":
            terms = random.choices(made, k=random.randint(1, 5))
            made.append(combine([(random.uniform(-1, 1), model) for model in terms], passing=random.random() < 0.3))
        elif kind == "visit":
            made.append(visit(random.choice(made), k % 40))
        else:
            made.append(by_rows(torch.sin, random.choice(made)))
    return made[3:]


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 7))
def test_every_graph_has_the_same_bits_in_portions(seed, nodes, most):
    whole, parts = graph(Random(seed), nodes), graph(Random(seed), nodes)
    random = Random(seed)
    wanted = random.sample(range(nodes), random.randint(1, nodes))
    Executor(Mover()).run([whole[k] for k in wanted])
    trainer = Mover()
    Executor(trainer, budget=Tight(most)).run([parts[k] for k in wanted])
    for one, other in zip(whole, parts, strict=True):
        assert (one.value is None) == (other.value is None)
        assert one.value is None or torch.equal(one.value, other.value)
    assert max(trainer.sizes, default=0) <= most


def test_each_mean_is_finished_before_the_next_is_trained_and_its_terms_are_let_go():
    alive = weakref.WeakSet()

    class Watcher(Mover):
        most = 0

        def train(self, jobs):
            self.most = max(self.most, sum(model.value is not None for model in alive))
            return super().train(jobs)

    def rounds():
        model, trained = value(0), []
        for r in range(3):
            ends = [visit(model, 10 * r + k) for k in range(10)]
            trained += ends
            model = mean(ends)
        alive.update(trained)
        return model

    ends = [rounds() for _ in range(4)]
    trainer = Watcher()
    Executor(trainer, budget=Tight(3)).run(ends)
    assert sum(trainer.sizes) == 120 and max(trainer.sizes) == 3 and len(trainer.sizes) <= 44
    assert trainer.most == 0  # whatever was trained was added, and was nobody's any more


def test_rows_give_back_first_and_shrink_as_their_results_are_held(monkeypatch):
    """A stack is one large piece, which does not fit into what training has freed."""
    events, nodes = [], [by_rows(torch.sin, value(k)) for k in range(20)]
    budget = Budget(memory.RESERVED + 40 * memory.row_bytes(SPACE, 1), CPU)
    monkeypatch.setattr(budget, "give_back", lambda above=1.0, *, coming=0: events.append(coming))
    monkeypatch.setattr(budget, "stacked", lambda *_: 8 - 2 * sum(node.value is not None for node in nodes) // 8)
    Executor(Mover(), budget=budget).run(nodes)
    each = memory.row_bytes(SPACE, 1)
    assert [coming // each for coming in events if coming] == [8, 6, 5, 1]
    assert torch.equal(nodes[3].value, torch.sin(value(3).value))


def test_gradients_are_compared_in_one_place():
    """However many there are: small results between large places that come and go leave gaps as large as these."""

    class Watcher(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            found = function(*args, **(kwargs or {}))
            if isinstance(found, torch.Tensor) and found.numel() == SPACE.size:
                large.append(found)  # held, so that no other has its place
            return found

    large, gradients = [], [value(k) for k in range(30)]
    for k, gradient in enumerate(gradients):
        gradient.figure = torch.tensor(float(k), dtype=torch.float64)
    compared = Comparison(gradients)
    with Watcher():
        Executor(Mover()).run([], [compared])
    assert len({one.data_ptr() for one in large}) <= 2
    values = torch.stack([gradient.value for gradient in gradients]).double()
    apart = (values - values.mean(dim=0)).square().sum(dim=1)
    assert compared.result.distance == pytest.approx(apart.tolist(), rel=1e-12)


def test_what_is_sent_to_many_is_there_once():
    """On the wire, and at each site that has it."""
    trained = visit(value(0), 3)
    sent = [packed(trained, Dense()) for _ in range(5)]
    there = [combine([(1.0, model)]) for model in sent]
    Executor(Mover()).run([*sent, *there, twice := 2.0 * trained])
    assert all(model.value is trained.value for model in (*sent, *there))
    assert torch.equal(twice.value, 2.0 * trained.value)


def test_an_error_on_the_way_leaves_what_can_be_computed_again():
    class Failing(Mover):
        def train(self, jobs):
            if len(self.sizes) == 2:
                raise RuntimeError("gone")
            return super().train(jobs)

    def made():
        ends = [visit(value(0), k) for k in range(9)]
        return ends, mean(ends)

    (_, whole), (ends, again) = made(), made()
    Executor(Mover()).run([whole])
    with pytest.raises(RuntimeError, match="gone"):
        Executor(Failing(), budget=Tight(2)).run([again])
    assert sum(end.value is None for end in ends) == 5
    Executor(Mover(), budget=Tight(2)).run([again])
    assert torch.equal(whole.value, again.value)


def test_many_is_more_than_an_eighth_of_the_limit():
    models = [value(k) for k in range(5)]
    budgets = [Budget(8 * 5 * model_bytes(SPACE) - less, CPU) for less in (0, 1)]
    assert [budget.to_be_measured([*models, visit(models[0], 1)]) for budget in budgets] == [False, True]


def test_models_that_only_wait_to_be_scored_are_scored_when_they_have_become_many():
    class Watcher(Mover):
        def train(self, jobs):
            seen.append(self.scored)
            return super().train(jobs)

    seen, x, y = [], torch.ones(4, 7), torch.zeros(4)
    budget = Tight(1)
    budget.limit = 3 * model_bytes(SPACE) / memory.MEASURED
    measures = [Measure([visit(value(k), k)], x, y) for k in range(10)]
    Executor(Watcher(), budget=budget).run([], measures)
    assert seen == [0, 0, 0, 0, 4, 4, 4, 4, 8, 8]
    assert all(measure.result is not None for measure in measures)


def test_cohorts_shrink_to_what_is_left():
    space = Space("wide", lambda: nn.Linear(512, 8), (512,))
    shards = Shards(torch.ones(64, 512), torch.zeros(64, dtype=torch.int64), np.arange(64), np.arange(0, 65, 2))
    start = space.initial(0)
    jobs = [TrainJob(space, start, LocalSGD(batch=2), 0.1, shards, k, k) for k in range(32)]
    usual = CohortTrainer("cpu", threads=1)
    need = Need(space, LocalSGD(batch=2), 2, 2)
    limit = memory.RESERVED + shards.x.nbytes + shards.y.nbytes + 5 * need.step / memory.IN_STEPS / memory.USABLE
    tight = CohortTrainer("cpu", threads=1, limit=limit)
    tight.hold(shards.x, shards.y, space)
    assert usual.rules.size(usual.program(space), jobs, 2) == 32
    assert tight.rules.size(tight.program(space), jobs, 2) == 5
    for one, other in zip(usual.train(jobs), tight.train(jobs), strict=True):
        assert torch.equal(one.value, other.value)
