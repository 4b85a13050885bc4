"""One client at a time with a plain module and autograd: slow, obvious, and the specification.

Every other trainer must agree with this file (``tests/contract``).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from paceline.learn.draws import PAD, Crops, draw_batches, draw_crops, draw_parts, dropout_key
from paceline.learn.dropout import set_keys
from paceline.learn.job import EvalJob, Probed, Score, Trained, TrainJob
from paceline.learn.space import Space


class ReferenceTrainer:
    """Train and score visits one after the other on the CPU."""

    device = torch.device("cpu")

    def prepare(self, space: Space) -> None:
        """Whatever is a module can be run."""

    def fills(self, space: Space, batch: int) -> bool:
        """Nothing runs together here, whatever its size."""
        return False

    def train(self, jobs: list[TrainJob]) -> list[Trained]:
        """Run each visit on its own."""
        return [train_one(job) for job in jobs]

    def probe(self, jobs: list[TrainJob], width: int | None = None) -> list[Probed]:
        """Probe each client on its own."""
        return [probe_one(job) for job in jobs]

    def evaluate(self, jobs: list[EvalJob]) -> list[Score]:
        """Score each model on its own."""
        return [evaluate_one(job) for job in jobs]


def train_one(job: TrainJob) -> Trained:
    """One visit of local SGD, as ``LocalSGD`` defines it."""
    recipe, space = job.recipe, job.space
    model = space.module.train()
    start = job.start.clone() if job.mask is None else job.start * job.mask
    weights = {name: w.clone().requires_grad_() for name, w in space.unflatten(start).items()}
    flat = list(weights.values())
    anchor = space.unflatten(start if job.anchor is None else job.anchor)
    correction = None if job.correction is None else space.unflatten(job.correction)
    mask = None if job.mask is None else space.unflatten(job.mask)
    optimiser = torch.optim.SGD(flat, lr=job.lr, momentum=recipe.momentum, weight_decay=recipe.weight_decay)

    key = torch.tensor([job.key])
    batches = draw_batches([job.key], [job.size], recipe)
    rows = job.shards.rows(job.client)
    losses = []
    for step in range(batches.steps_C[0]):
        places = batches.index_CSB[0, step][batches.real_CSB[0, step]]
        chosen = torch.from_numpy(rows[places])
        x, y = job.shards.x[chosen].to(space.dtype), job.shards.y[chosen]
        if recipe.augment == "crop-flip":
            x = crop_and_flip_one_by_one(x, draw_crops(key, step, recipe.batch))
        set_keys(model, dropout_key(key, step)[0])

        loss = loss_of(model, weights, x, y, recipe.loss)
        gradients = torch.autograd.grad(loss, flat, allow_unused=True, materialize_grads=True)
        if recipe.sam:
            gradients = _sam_gradients(model, weights, x, y, gradients, job)
        with torch.no_grad():
            for (name, w), gradient in zip(weights.items(), gradients, strict=True):
                w.grad = gradient + recipe.prox * (w - anchor[name])
                if correction is not None:
                    w.grad += correction[name]
                if mask is not None:
                    w.grad *= mask[name]
        if recipe.clip is not None:
            nn.utils.clip_grad_norm_(flat, recipe.clip)
        optimiser.step()
        if mask is not None:
            with torch.no_grad():
                for name, w in weights.items():
                    w *= mask[name]
        losses.append(loss.detach())
    return Trained(space.flatten(weights), torch.stack(losses).mean())


def probe_one(job: TrainJob) -> Probed:
    """The gradient of a client's whole loss (no dropout, no augmentation), and the variance of its samples' (PS-9).

    The samples are cut at random into M parts. A part of m out of n samples has a gradient whose squared distance
    from the full one is σ²/m (n-m)/(n-1) in expectation, so that Σ m ‖g_part - g‖² is σ² n (M-1)/(n-1).
    """
    space, n = job.space, job.size
    model = space.module.eval()
    weights = {name: w.clone().requires_grad_() for name, w in space.unflatten(job.start).items()}
    rows = job.shards.rows(job.client)
    parts = draw_parts([job.key], [n])
    found = []
    for part in range(parts.steps_C[0]):
        chosen = torch.from_numpy(rows[parts.index_CSB[0, part][parts.real_CSB[0, part]]])
        x, y = job.shards.x[chosen].to(space.dtype), job.shards.y[chosen]
        loss = loss_of(model, weights, x, y, job.recipe.loss)
        gradients = torch.autograd.grad(loss, list(weights.values()), allow_unused=True, materialize_grads=True)
        found.append((len(chosen), torch.cat([g.reshape(-1) for g in gradients])))
    full = sum((m * g for m, g in found), start=torch.zeros_like(found[0][1])) / n
    apart = sum(
        (m * (g - full).double().square().sum() for m, g in found), start=torch.zeros((), dtype=torch.float64)
    )
    return Probed(full, apart * (n - 1) / (n * max(1, len(found) - 1)))


def _sam_gradients(
    model: nn.Module,
    weights: dict[str, Tensor],
    x: Tensor,
    y: Tensor,
    gradients: tuple[Tensor, ...],
    job: TrainJob,
) -> tuple[Tensor, ...]:
    """The gradient at w + rho g/|g| (Foret et al. 2021)."""
    norm = torch.sqrt(sum((g.square().sum() for g in gradients), start=torch.zeros((), dtype=x.dtype)))
    scale = job.recipe.sam / (norm + 1e-12)
    there = {
        name: (w + scale * g).detach().requires_grad_()
        for (name, w), g in zip(weights.items(), gradients, strict=True)
    }
    loss = loss_of(model, there, x, y, job.recipe.loss)
    return torch.autograd.grad(loss, list(there.values()), allow_unused=True, materialize_grads=True)


def loss_of(model: nn.Module, weights: dict[str, Tensor], x: Tensor, y: Tensor, loss: str) -> Tensor:
    """The mean loss of one batch."""
    output: Tensor = torch.func.functional_call(model, weights, (x,))
    if loss == "squared":
        return 0.5 * (output - y).square().sum(dim=1).mean()
    return F.cross_entropy(output, y)


def crop_and_flip_one_by_one(x: Tensor, crops: Crops) -> Tensor:
    """Augment sample by sample; ``draws.crop_and_flip`` does the same at once."""
    height, width = x.shape[2:]
    out = []
    for place, image in enumerate(F.pad(x, (PAD, PAD, PAD, PAD))):
        dy, dx = int(crops.dy_CB[0, place]), int(crops.dx_CB[0, place])
        cut = image[:, dy : dy + height, dx : dx + width]
        out.append(cut.flip(2) if crops.flip_CB[0, place] else cut)
    return torch.stack(out)


@torch.no_grad()
def evaluate_one(job: EvalJob) -> Score:
    """Accuracy and mean cross-entropy (or half squared error) of one model."""
    x, y = (job.x, job.y) if job.rows is None else (job.x[job.rows], job.y[job.rows])
    model = job.space.module.eval()
    output = torch.func.functional_call(model, job.space.unflatten(job.value), (x.to(job.space.dtype),))
    if y.is_floating_point():
        return Score(float("nan"), float(0.5 * (output - y).square().sum(dim=1).mean()), len(y))
    hits = (output.argmax(dim=1) == y).sum()
    return Score(float(hits) / len(y), float(F.cross_entropy(output, y)), len(y))
