"""Deferred models: algebra that is right however it is folded, and a graph that stays small and lets go."""

import gc
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from paceline.learn import graph
from paceline.learn.codecs import Masked
from paceline.learn.executor import Executor
from paceline.learn.graph import Ghost, Model, Sum, Visit, by_rows, combine, mean, once, packed, total
from paceline.learn.job import Score, Shards, Trained
from paceline.learn.promises import Measure, Reading
from paceline.learn.recipe import LocalSGD
from paceline.learn.space import Space

SPACE = Space("three", lambda: nn.Linear(2, 1), (2,), torch.float64)
SHARDS = Shards(torch.zeros(1, 2), torch.zeros(1, dtype=torch.int64), np.array([0]), np.array([0, 1]))
BASES = np.array([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0], [-4.0, 0.0, 2.0]])


class AddOne:
    """A trainer whose visits add 1 to every parameter."""

    device = torch.device("cpu")

    def train(self, jobs):
        return [Trained(job.start + 1.0, torch.zeros(())) for job in jobs]

    def evaluate(self, jobs):
        raise AssertionError("nothing to evaluate here")


def value(numbers):
    return Model(SPACE, torch.tensor(numbers, dtype=torch.float64))


def visit(start, client=0):
    return Model(SPACE, None, Visit("train", SHARDS, client, LocalSGD(), 0.1, 0, (), None, 0, 0.0), (start,))


def compute(*models):
    Executor(AddOne()).run(models)
    return [model.value.numpy() for model in models]


# -- algebra ------------------------------------------------------------------------------------------------------

FACTORS = st.floats(-3, 3)
LEAVES = st.tuples(st.sampled_from(["value", "visit"]), st.integers(0, len(BASES) - 1))
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inside: st.one_of(
        st.tuples(st.just("+"), inside, inside),
        st.tuples(st.just("-"), inside, inside),
        st.tuples(st.just("*"), inside, FACTORS),
        st.tuples(st.just("mean"), st.lists(inside, min_size=1, max_size=4)),
        st.tuples(st.just("train"), inside),
    ),
    max_leaves=12,
)


def in_numpy(expression):
    match expression:
        case ("value", k):
            return BASES[k]
        case ("visit", k):
            return BASES[k] + 1
        case ("+", a, b):
            return in_numpy(a) + in_numpy(b)
        case ("-", a, b):
            return in_numpy(a) - in_numpy(b)
        case ("*", a, factor):
            return in_numpy(a) * factor
        case ("mean", parts):
            return np.mean([in_numpy(part) for part in parts], axis=0)
        case ("train", a):
            return in_numpy(a) + 1


def in_models(expression):
    match expression:
        case ("value", k):
            return value(BASES[k])
        case ("visit", k):
            return visit(value(BASES[k]))
        case ("+", a, b):
            return in_models(a) + in_models(b)
        case ("-", a, b):
            return in_models(a) - in_models(b)
        case ("*", a, factor):
            return factor * in_models(a)
        case ("mean", parts):
            return mean([in_models(part) for part in parts])
        case ("train", a):
            return visit(in_models(a))


@given(EXPRESSIONS, st.sampled_from([0, 1, 2, 1000]))
def test_algebra_is_numpy_s_however_much_is_folded(expression, fused):
    """Twelve leaves with factors up to 3 stay below 1e7, and rounding below 1e-9 of that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph, "FUSED", fused)
        (found,) = compute(in_models(expression))
    np.testing.assert_allclose(found, in_numpy(expression), rtol=1e-9, atol=1e-9)


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=8), st.data())
def test_a_mean_ignores_order_to_rounding(numbers, data):
    weights = data.draw(st.lists(st.floats(0.01, 10), min_size=len(numbers), max_size=len(numbers)))
    order = data.draw(st.permutations(range(len(numbers))))
    models = [value([x, -x, 2 * x]) for x in numbers]
    plain, shuffled, weighted, both = compute(
        mean(models),
        mean([models[k] for k in order]),
        mean(models, weights),
        mean([models[k] for k in order], [weights[k] for k in order]),
    )
    np.testing.assert_allclose(plain, shuffled, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(weighted, both, rtol=1e-12, atol=1e-9)
    assert plain[0] == pytest.approx(np.mean(numbers), rel=1e-12, abs=1e-9)
    assert weighted[0] == pytest.approx(np.average(numbers, weights=weights), rel=1e-12, abs=1e-9)


def test_weights_are_normalised():
    (found,) = compute(mean([value([0, 0, 0]), value([4, 8, 12])], [3, 1]))
    assert found.tolist() == [1, 2, 3]


def test_weights_that_make_no_average():
    models = [value([1, 2, 3])] * 2
    for weights in ([0, 0], [1, -1]):
        with pytest.raises(ValueError, match="positive sum"):
            mean(models, weights)
    with pytest.raises(ValueError, match="zip"):
        mean(models, [1.0])


def test_one_model_may_appear_twice():
    pending = visit(value([1, 2, 3]))
    sums = [pending + pending, pending - pending, mean([pending, pending])]
    assert [found.tolist() for found in compute(*sums)] == [[4, 6, 8], [0, 0, 0], [2, 3, 4]]


def test_operands_are_left_alone():
    a, b = value([1, 2, 3]), value([4, 5, 6])
    compute(a + b, a * 2.0, a - b)
    assert a.value.tolist() == [1, 2, 3]
    assert b.value.tolist() == [4, 5, 6]


def test_models_of_different_spaces_do_not_meet():
    other = Space("other", lambda: nn.Linear(2, 1), (2,), torch.float64)
    with pytest.raises(TypeError, match="three with other"):
        mean([value([1, 2, 3]), Model(other, torch.zeros(3))])


# -- folding ------------------------------------------------------------------------------------------------------


def test_differences_and_scalings_are_folded():
    a, b, c = (visit(value(base)) for base in BASES)
    step = c + 0.5 * (a - b)
    assert step.parents == (c, a, b)
    assert step.operation.coefficients == (1.0, 0.5, -0.5)


def test_what_is_long_computed_or_trained_is_not_folded():
    parts = [visit(value(base)) for base in BASES]
    long = mean(parts)
    assert (long * 2.0).parents == (long,)
    computed, total = parts[0] - parts[1], parts[0] + parts[1]
    compute(computed)
    assert (computed * 2.0).parents == (computed,)
    assert (total * 2.0).parents == (total,)
    assert (parts[0] * 2.0).parents == (parts[0],)


def fedasync_step(x, y, a):
    return combine([(1 - a, x), (a, y)])


def fedasync_operators(x, y, a):
    return x * (1 - a) + y * a


def fedasync_difference(x, y, a):
    return x + (y - x) * a


@pytest.mark.parametrize("step", [fedasync_step, fedasync_operators, fedasync_difference])
def test_a_long_asynchronous_chain(step):
    """x = (1-a) x + a y with y one visit from x is x + a, 10,000 times; no sum outgrows two of the folded size."""
    nodes, a = 10_000, 1 / 1024
    x = value([0.0, 1.0, -1.0])
    for k in range(nodes):
        x = step(x, visit(x, k), a)
        assert len(x.parents) <= 2 * graph.FUSED
    executor = Executor(AddOne())
    executor.run([x])
    np.testing.assert_allclose(x.value.numpy(), np.array([0.0, 1.0, -1.0]) + nodes * a, rtol=1e-9, atol=1e-9)
    assert executor.statistics.visits == nodes


@pytest.mark.parametrize("step", [fedasync_step, fedasync_operators])
def test_a_long_chain_of_algebra_alone(step):
    """Towards a fixed y the distance shrinks by (1-a) a step."""
    nodes, a = 10_000, 1e-3
    x, y = value([0.0, 2.0, -1.0]), value([1.0, 1.0, 1.0])
    start = x.value.numpy()
    for _ in range(nodes):
        x = step(x, y, a)
        assert len(x.parents) <= 2 * graph.FUSED
    np.testing.assert_allclose(compute(x)[0], 1 + (1 - a) ** nodes * (start - 1), rtol=1e-9, atol=1e-12)


def test_a_long_chain_that_nobody_wants_any_more():
    """A run that is stopped drops its pending graph: that must not recurse to the end of the stack."""
    x = value([0.0, 0.0, 0.0])
    first = weakref.ref(x)
    for k in range(20_000):  # a thousand would end the stack
        x = combine([(0.9, x), (0.1, visit(x, k))])
    del x
    gc.collect()
    assert first() is None


# -- letting go ---------------------------------------------------------------------------------------------------


def test_a_computed_node_forgets_its_parents():
    start = value([1, 2, 3])
    trained = visit(start)
    total = mean([trained, start, trained])
    assert isinstance(total.operation, Sum)
    compute(total)
    for model in (total, trained):
        assert model.operation is None
        assert model.parents == ()
        assert "value" in repr(model)


def test_what_nobody_can_reach_is_freed_without_the_collector():
    gc.disable()
    try:
        start = value([1, 2, 3])
        middle = visit(start)
        end = visit(mean([middle, start, start]))
        references = [weakref.ref(start), weakref.ref(middle)]
        del start, middle
        assert all(reference() is not None for reference in references), "pending nodes are needed"
        compute(end)
        assert all(reference() is None for reference in references)
        assert end.value is not None
    finally:
        gc.enable()


def test_a_measure_lets_go_of_its_models():
    model = value([1, 2, 3])
    measure = Measure([model], torch.zeros(1, 2), torch.zeros(1, dtype=torch.int64))
    reference = weakref.ref(model)
    measure.settle(Score(0.5, 1.0, 1))
    del model
    assert reference() is None
    assert measure.result == Score(0.5, 1.0, 1)


# -- ghosts -------------------------------------------------------------------------------------------------------


def test_a_ghost_has_a_size_and_nothing_else():
    ghost = Ghost(SPACE)
    assert ghost.nbytes == 4 * SPACE.size == value([1, 2, 3]).nbytes
    assert ghost.value is None


def test_algebra_on_ghosts_makes_no_nodes():
    ghost, real = Ghost(SPACE), value([1, 2, 3])
    results = [
        ghost + real,
        ghost - real,
        2 * ghost,
        ghost * 0.5,
        real + ghost,
        mean([real, ghost]),
        mean([ghost] * 3),
    ]
    assert all(result is ghost for result in results)


def test_nodes_by_rows_are_computed_together_and_each_by_itself():
    calls = []

    def scaled(x_CP, m_CP, *, factor):
        calls.append(len(x_CP))
        return x_CP * m_CP * factor

    models = [Model(SPACE, torch.full((SPACE.size,), float(k), dtype=torch.float64)) for k in range(5)]
    mask = Model(SPACE, torch.ones(SPACE.size, dtype=torch.float64))
    nodes = [by_rows(scaled, model + model, mask, factor=3.0) for model in models]
    other = by_rows(scaled, models[1], mask, factor=2.0)
    Executor(AddOne()).run([*nodes, other])
    assert sorted(calls) == [1, 5]
    assert [node.value[0].item() for node in nodes] == [0, 6, 12, 18, 24] and other.value[0].item() == 2
    assert nodes[0].value.untyped_storage().nbytes() == SPACE.size * 8


def test_a_reading_is_what_a_function_finds():
    reading = Reading([Model(SPACE, torch.full((SPACE.size,), 2.0)) * 3.0], lambda values: float(values[0].sum()))
    Executor(AddOne()).run([], [reading])
    assert reading.result == 6.0 * SPACE.size and not reading.models


def test_a_packed_model_has_its_own_size_and_the_same_value():
    model = Model(SPACE, torch.arange(SPACE.size, dtype=torch.float32))
    small = packed(model * 2.0, Masked(3))
    total = small + model
    Executor(AddOne()).run([total, small])
    assert small.nbytes == 12.0 and total.nbytes == SPACE.nbytes
    assert torch.equal(total.value, 3.0 * model.value) and torch.equal(small.value, 2.0 * model.value)
    assert packed(Ghost(SPACE), Masked(2)).nbytes == 8.0 and packed(Ghost(SPACE), Masked(2), charge=7.0).nbytes == 7.0


# -- operators are combinations ------------------------------------------------------------------------------------


def same_sum(one, other):
    """Whether two models are the same combination of the same parents."""
    return one.parents == other.parents and (one.operation.coefficients, one.operation.passing) == (
        other.operation.coefficients,
        other.operation.passing,
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (lambda a, b, c: a + b, lambda a, b, c: combine([(1.0, a), (1.0, b)])),
        (lambda a, b, c: a + 0.1 * b, lambda a, b, c: combine([(1.0, a), (0.1, b)])),
        (lambda a, b, c: 0.9 * a + 0.1 * b, lambda a, b, c: combine([(0.9, a), (0.1, b)])),
        (lambda a, b, c: a + 0.3 * (b - c), lambda a, b, c: combine([(1.0, a), (0.3, b), (-0.3, c)])),
        (lambda a, b, c: total([a, 0.1 * b, -c]), lambda a, b, c: combine([(1.0, a), (0.1, b), (-1.0, c)])),
        (lambda a, b, c: once(a - b), lambda a, b, c: combine([(1.0, a), (-1.0, b)])),
        (lambda a, b, c: once(1 / 3 * (a - b)), lambda a, b, c: combine([(1 / 3, a), (-1 / 3, b)])),
        (lambda a, b, c: a + once(b - c), None),
    ],
)
def test_operators_build_the_combination_that_they_say(written, meant):
    three = [visit(value(BASES[k]), k) for k in range(3)]
    found = written(*three)
    if meant is not None:
        assert same_sum(found, meant(*three))
    else:  # what is to be computed once is a parent of its own
        assert found.parents[0] is three[0] and found.parents[1].parents == tuple(three[1:])


def test_operators_on_a_model_without_weights_are_itself():
    ghost = Ghost(SPACE)
    assert all(one is ghost for one in (total([ghost, 0.5 * ghost, -ghost]), once(ghost - ghost), -ghost))
