"""From a module to a program: which one it becomes, that it is right, and what is refused.

Shapes: C clients, B batch.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from paceline.errors import ModelError
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.dropout import address_dropout
from paceline.learn.job import Shards, TrainJob
from paceline.learn.programs.layers import MaxPool, Rectifier
from paceline.learn.programs.program import Batch, LayerProgram, Node
from paceline.learn.programs.reading import Unknown, _pool_first, compile_program, layer_program
from paceline.learn.programs.vmapped import VmapProgram
from paceline.learn.recipe import LocalSGD
from paceline.learn.reference import ReferenceTrainer, loss_of
from paceline.learn.space import Space
from paceline.seeds import stream

CLIENTS, BATCH, CLASSES = 3, 4, 3


class Forward(nn.Module):
    """A module whose forward is a function of itself and x, so that a test can say it in one line."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x):
        return self.function(self, x)


def space_of(factory, shape=(6,)):
    return Space("mine", factory, shape, torch.float64)


def numbers(*shape, name="trace"):
    return torch.from_numpy(stream(0, name, str(shape)).normal(size=shape))


def gradients(program, clients=CLIENTS):
    """What a program finds: each client's loss and gradient. Buffers begin as NaN, so what is not written shows."""
    space = program.space
    flats = [space.initial(client) for client in range(clients)]
    params = program.pack(flats)
    grads = [torch.full_like(p, torch.nan) for p in params]
    x = numbers(clients * BATCH, *space.shape)
    y = torch.arange(clients * BATCH) % CLASSES
    weight_CB = torch.full((clients, BATCH), 1 / BATCH, dtype=torch.float64)
    with torch.no_grad():
        loss_C = program.gradients(params, grads, Batch(x, y, weight_CB), "cross_entropy")
        outputs = program.outputs(params, x)
    return loss_C, torch.stack(program.unpack(grads)), outputs


def by_autograd(space, clients=CLIENTS):
    """The same by plain PyTorch, one client after the other."""
    x, y = numbers(clients * BATCH, *space.shape), torch.arange(clients * BATCH) % CLASSES
    losses, found, outputs = [], [], []
    for client in range(clients):
        part = slice(client * BATCH, (client + 1) * BATCH)
        weights = {name: w.clone().requires_grad_() for name, w in space.unflatten(space.initial(client)).items()}
        loss = loss_of(space.module.train(), weights, x[part].clone(), y[part], "cross_entropy")
        grads = torch.autograd.grad(loss, list(weights.values()), allow_unused=True, materialize_grads=True)
        losses.append(loss.detach())
        found.append(torch.cat([g.reshape(-1) for g in grads]))
        with torch.no_grad():
            outputs.append(torch.func.functional_call(space.module.eval(), weights, (x[part].clone(),)))
    return torch.stack(losses), torch.stack(found), torch.cat(outputs)


def assert_right(space, clients=CLIENTS):
    program = compile_program(space)
    for have, want in zip(gradients(program, clients), by_autograd(space, clients), strict=True):
        torch.testing.assert_close(have, want, rtol=1e-10, atol=1e-12)
    return program


# -- which program, and that it is right --------------------------------------------------------------------------

IMAGE = (2, 6, 6)

KNOWN = {
    "linear": (lambda: nn.Sequential(nn.Linear(6, 3)), (6,)),
    "no bias": (lambda: nn.Sequential(nn.Linear(6, 3, bias=False)), (6,)),
    "mlp": (lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), (6,)),
    "a single column": (lambda: nn.Sequential(nn.Linear(6, 1), nn.Linear(1, 3)), (6,)),
    "nested": (
        lambda: nn.Sequential(nn.Sequential(nn.Linear(6, 5), nn.Tanh()), nn.Identity(), nn.Linear(5, 3)),
        (6,),
    ),
    "dead layers in front": (lambda: nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Linear(72, 3)), IMAGE),
    "convolution": (
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3)),
        IMAGE,
    ),
    "dilated, lopsided": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, (3, 2), stride=(1, 2), padding=(2, 0), dilation=(2, 1), bias=False),
            nn.Flatten(),
            nn.Linear(54, 3),
        ),
        IMAGE,
    ),
    "same padding": (
        lambda: nn.Sequential(nn.Conv2d(2, 2, 3, padding="same"), nn.Flatten(), nn.Linear(72, 3)),
        IMAGE,
    ),
    "two convolutions and pools": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1),
            nn.Conv2d(3, 4, 2), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4, 3),
        ),
        IMAGE,
    ),
    "average pool": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
        ),
        IMAGE,
    ),
    "group norm": (
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)),
        IMAGE,
    ),
    "group norm without scale": (
        lambda: nn.Sequential(nn.Linear(6, 4), nn.GroupNorm(2, 4, affine=False), nn.Linear(4, 3)),
        (6,),
    ),
    "residual": (
        lambda: Forward(
            lambda m, x: m.c(torch.relu(m.a(x)) + x + m.b(x)), a=nn.Linear(6, 6), b=nn.Linear(6, 6), c=nn.Linear(6, 3)
        ),
        (6,),
    ),
    "the same value twice": (
        lambda: Forward(lambda m, x: m.b((h := m.a(x)) + h), a=nn.Linear(6, 4), b=nn.Linear(4, 3)),
        (6,),
    ),
    "functions and methods": (
        lambda: Forward(
            lambda m, x: m.c(F.relu(m.b(torch.sigmoid(m.a(torch.flatten(x, 1))).relu().flatten(1)))),
            a=nn.Linear(72, 4), b=nn.Linear(4, 4), c=nn.Linear(4, 3),
        ),
        IMAGE,
    ),
}  # fmt: skip

GENERAL = {
    "a layer that is the whole network": (lambda: nn.Linear(6, 3), (6,)),
    "an unknown function": (
        lambda: Forward(lambda m, x: m.b(torch.sin(m.a(x))), a=nn.Linear(6, 4), b=nn.Linear(4, 3)),
        (6,),
    ),
    "an unknown module": (lambda: nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4), nn.Linear(4, 3)), (6,)),
    "a module used twice": (
        lambda: Forward(lambda m, x: m.b(torch.relu(m.a(torch.relu(m.a(x))))), a=nn.Linear(6, 6), b=nn.Linear(6, 3)),
        (6,),
    ),
    "tied weights": (lambda: tied("weight"), (6,)),
    "a parameter that is never used": (
        lambda: Forward(lambda m, x: m.a(x), a=nn.Linear(6, 3), b=nn.Linear(6, 6)),
        (6,),
    ),
    "circular padding": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), nn.Flatten(), nn.Linear(108, 3)
        ),
        IMAGE,
    ),
    "same padding of an even kernel": (
        lambda: nn.Sequential(nn.Conv2d(2, 2, 2, padding="same"), nn.Flatten(), nn.Linear(72, 3)),
        IMAGE,
    ),
    "an output that is not the last value": (
        lambda: Forward(lambda m, x: [m.a(x), m.b(x)][0], a=nn.Linear(6, 3), b=nn.Linear(6, 3)),
        (6,),
    ),
}  # fmt: skip


def tied(part):
    """Two layers of one shape that share their weight or their bias."""
    first, second = nn.Linear(6, 6), nn.Linear(6, 6)
    setattr(second, part, getattr(first, part))
    return nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), nn.Linear(6, 3))


@pytest.mark.parametrize("clients", [1, CLIENTS])
@pytest.mark.parametrize("name", KNOWN)
def test_known_layers_become_a_layer_program(name, clients):
    factory, shape = KNOWN[name]
    assert isinstance(assert_right(space_of(factory, shape), clients), LayerProgram)


def test_a_network_with_dropout_becomes_a_layer_program():
    """One whose masks were others than the module's would go through vmap, which is as right, and slower."""
    space = space_of(lambda: address_dropout(nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3))))
    assert isinstance(compile_program(space), LayerProgram)


# torch warns that an even kernel needs a padded copy; it is right all the same.
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("clients", [1, CLIENTS])
@pytest.mark.parametrize("name", GENERAL)
def test_everything_else_goes_through_vmap(name, clients):
    factory, shape = GENERAL[name]
    assert isinstance(assert_right(space_of(factory, shape), clients), VmapProgram)


def test_the_reason_is_named():
    with pytest.raises(Unknown, match=r"module 1 \(LayerNorm\)"):
        layer_program(space_of(*GENERAL["an unknown module"]))
    for act in (lambda x: x.cumsum(1), lambda x: x.flatten(0)):
        with pytest.raises(Unknown, match=r"cumsum|flatten"):
            layer_program(space_of(lambda act=act: Forward(lambda m, x: m.a(act(x)), a=nn.Linear(6, 3))))
    with pytest.raises(Unknown, match="unused or used twice"):
        layer_program(space_of(*GENERAL["a module used twice"]))


def test_a_grouped_convolution_is_never_batched_over_clients():
    """It is right for one client, so a cohort must not be larger; the trainer keeps to that."""
    space = space_of(
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3, groups=2), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)), IMAGE
    )
    program = assert_right(space, clients=1)
    assert isinstance(program, LayerProgram)
    assert not program.groupable
    jobs = jobs_for(space, LocalSGD(batch=3, momentum=0.9, epochs=2))
    for have, want in zip(CohortTrainer(cohort=3).train(jobs), ReferenceTrainer().train(jobs), strict=True):
        torch.testing.assert_close(have.value, want.value, rtol=1e-10, atol=1e-12)


def test_a_batch_may_be_a_single_sample():
    jobs = jobs_for(space_of(*KNOWN["group norm"]), LocalSGD(batch=1, steps=2))[:1]
    (have,), (want,) = (trainer.train(jobs) for trainer in (CohortTrainer(), ReferenceTrainer()))
    torch.testing.assert_close(have.value, want.value, rtol=1e-10, atol=1e-12)


def jobs_for(space, recipe):
    x, y = numbers(CLIENTS * BATCH, *space.shape), torch.arange(CLIENTS * BATCH) % CLASSES
    shards = Shards(x, y, torch.arange(len(y)).numpy(), torch.arange(0, len(y) + 1, BATCH).numpy())
    return [TrainJob(space, space.initial(k), recipe, 0.1, shards, k, k + 5) for k in range(CLIENTS)]


# -- pooling before rectifying ------------------------------------------------------------------------------------


def chain(*layers):
    return [Node(layer, (k,), True) for k, layer in enumerate(layers)]


POOL = MaxPool((2, 2), (2, 2), (0, 0), (1, 1), False)


def test_a_rectifier_and_its_pool_change_places():
    kinds = [type(node.layer) for node in _pool_first(chain(Rectifier(), POOL, Rectifier(), Rectifier(), POOL))]
    assert kinds == [MaxPool, Rectifier, Rectifier, MaxPool, Rectifier]


def test_a_rectifier_that_someone_else_reads_stays():
    nodes = [*chain(Rectifier(), POOL), Node(Rectifier(), (1,), True)]
    assert [node.layer for node in _pool_first(nodes)] == [node.layer for node in nodes]


@pytest.mark.parametrize("pool", [(2, 2, 0), (3, 2, 1), (3, 1, 0), (2, 1, 1)])
def test_the_exchange_keeps_function_and_gradient_exactly(pool):
    """Whole numbers from -6 to 2 give ties, zeros and windows without a positive number; equality is exact."""
    kernel, stride, padding = pool
    x = torch.from_numpy(stream(0, "pool").integers(-6, 3, (64, 2, 6, 6))).double().requires_grad_()
    before = F.max_pool2d(x.relu(), kernel, stride, padding)
    windows = F.max_pool2d(x.detach(), kernel, stride, padding)
    assert (windows < 0).any() and (windows == 0).any() and (windows > 0).any()
    layers = [node.layer for node in _pool_first(chain(Rectifier(), MaxPool(*[(k, k) for k in (*pool, 1)], False)))]
    assert isinstance(layers[0], MaxPool)
    value, saved = x.detach(), []
    for layer in layers:
        value, kept = layer.forward(None, value)
        saved.append(kept)
    assert torch.equal(value, before)
    flowing = numbers(*before.shape)
    (expected,) = torch.autograd.grad(before, x, flowing)
    for layer, kept in zip(layers[::-1], saved[::-1], strict=True):
        (flowing,) = layer.backward(None, kept, flowing, True)
    assert torch.equal(flowing, expected)


# -- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda m, x: m.a(x) if x.sum() > 0 else m.a(-x),
        lambda m, x: m.a(x * float(x.mean())),
        lambda m, x: m.a(F.dropout(x, 0.5)),
    ],
    ids=["a branch on data", "a number out of data", "random numbers without an address"],
)
def test_what_cannot_be_batched_is_refused_before_any_work(function):
    with pytest.raises(ModelError) as caught:
        compile_program(space_of(lambda: Forward(function, a=nn.Linear(6, 3))))
    assert "model 'mine' cannot be batched over clients" in str(caught.value)
    assert "--set executor.name=reference" in str(caught.value)


def test_the_reference_runs_what_cannot_be_batched():
    """The hint of that error must be true."""
    space = space_of(lambda: Forward(lambda m, x: m.a(x) if x.sum() > 0 else m.a(-x), a=nn.Linear(6, 3)))
    for job, trained in zip(*[(jobs := jobs_for(space, LocalSGD())), ReferenceTrainer().train(jobs)], strict=True):
        assert torch.isfinite(trained.value).all()
        assert not torch.equal(trained.value, job.start)


# -- known to be wrong --------------------------------------------------------------------------------------------


def add(x, y):
    return x + y


class Optional(nn.Module):
    """A second argument that nobody gives; torch.fx traces the branch that uses it."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 3)

    def forward(self, x, more=None):
        return self.a(x if more is None else x + more)


def two(function, out=3):
    return lambda: Forward(function, a=nn.Linear(6, 3), b=nn.Linear(6, out))


WRONG = {
    "torch.add with alpha": (two(lambda m, x: torch.add(m.a(x), m.b(x), alpha=2)), (6,)),
    "a tied bias": (lambda: tied("bias"), (6,)),
    "an argument with a default": (Optional, (6,)),
    "a branch that leads nowhere": (two(lambda m, x: (m.b(x), m.a(x))[1]), (6,)),
    "a sum that broadcasts": (two(lambda m, x: m.a(x) + m.b(x), out=1), (6,)),
    "a linear layer over the last of three axes": (
        lambda: nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Flatten(), nn.Linear(20, 3)),
        (5, 6),
    ),
    "an activation in place": (
        lambda: nn.Sequential(nn.Linear(6, 4), nn.LeakyReLU(inplace=True), nn.Linear(4, 3)),
        (6,),
    ),
    "a rectifier in place that others see": (
        lambda: Forward(
            lambda m, x: m.b(add(h := m.a(x), m.r(h))), a=nn.Linear(6, 6), r=nn.ReLU(inplace=True), b=nn.Linear(6, 3)
        ),
        (6,),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_modules_that_look_like_known_ones(name):
    assert_right(space_of(*WRONG[name]))


@pytest.mark.parametrize(
    "function", [lambda m, x: (m.a(x), x), lambda m, x: {"scores": m.a(x)}], ids=["two", "a dict"]
)
def test_what_is_no_single_tensor_is_refused_with_a_reason(function):
    with pytest.raises(ModelError, match="class scores out"):
        compile_program(space_of(lambda: Forward(function, a=nn.Linear(6, 3))))


def test_the_reference_trains_a_module_with_an_unused_parameter():
    """The cohort does: an unused parameter has gradient 0 and stays (a weight decay apart)."""
    space = space_of(*GENERAL["a parameter that is never used"])
    jobs = jobs_for(space, LocalSGD(batch=2, weight_decay=0.1))
    for have, want in zip(CohortTrainer().train(jobs), ReferenceTrainer().train(jobs), strict=True):
        torch.testing.assert_close(have.value, want.value, rtol=1e-10, atol=1e-12)


def test_the_cohort_leaves_an_unused_parameter_where_it_was():
    space = space_of(*GENERAL["a parameter that is never used"])
    jobs = jobs_for(space, LocalSGD(batch=2, momentum=0.9))
    for job, trained in zip(jobs, CohortTrainer().train(jobs), strict=True):
        start, end = space.unflatten(job.start), space.unflatten(trained.value)
        assert torch.equal(start["b.weight"], end["b.weight"])
        assert not torch.equal(start["a.weight"], end["a.weight"])
