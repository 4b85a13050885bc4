"""Synthetic(α, β) of Li et al. 2018 (FedProx): softmax regression whose clients differ by two dials."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from paceline.data.dataset import Dataset
from paceline.seeds import stream

FEATURES, CLASSES = 60, 10


def synthetic(alpha: float = 1.0, beta: float = 1.0, clients: int = 30) -> Dataset:
    """Clients of log-normal sizes (50 to 20,000), each with its own linear model and its own inputs.

    Client k: u_k ~ N(0, α), W_k and b_k ~ N(u_k, 1) entrywise; B_k ~ N(0, β), v_k ~ N(B_k, 1) entrywise,
    x ~ N(v_k, Σ) with Σ_jj = j^-1.2; y = argmax(W_k x + b_k). α says how far the models differ, β how far the
    inputs do; both are standard deviations, as in the authors' code. A tenth of each client is for testing.
    """
    sizes = np.minimum(stream(0, "synthetic", "sizes").lognormal(4, 2, clients).astype(np.int64) + 50, 20_000)
    drawn = [_client(k, int(size), alpha, beta) for k, size in enumerate(sizes)]
    held = sizes // 10
    group_train, group_test = np.repeat(np.arange(clients), sizes - held), np.repeat(np.arange(clients), held)
    return Dataset(
        name=f"synthetic:{alpha:g},{beta:g},{clients}",
        x_train=np.concatenate([x[n:] for (x, _), n in zip(drawn, held, strict=True)]),
        y_train=np.concatenate([y[n:] for (_, y), n in zip(drawn, held, strict=True)]),
        x_test=np.concatenate([x[:n] for (x, _), n in zip(drawn, held, strict=True)]),
        y_test=np.concatenate([y[:n] for (_, y), n in zip(drawn, held, strict=True)]),
        classes=CLASSES,
        mean=(0.0,),
        std=(1.0,),
        group_train=group_train,
        group_test=group_test,
    )


def _client(k: int, size: int, alpha: float, beta: float) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    rng = stream(0, "synthetic", "client", k)
    # The dials scale the same draws, so a sweep over α moves one world rather than drawing new ones.
    model_centre, input_centre = alpha * rng.standard_normal(), beta * rng.standard_normal()
    weight = rng.normal(model_centre, 1, (FEATURES, CLASSES))
    bias = rng.normal(model_centre, 1, CLASSES)
    place = rng.normal(input_centre, 1, FEATURES)
    spread = np.arange(1, FEATURES + 1) ** -0.6  # standard deviation: the square root of j^-1.2
    x = (place + spread * rng.standard_normal((size, FEATURES))).astype(np.float32)
    return x, np.argmax(x @ weight + bias, axis=1).astype(np.int64)
