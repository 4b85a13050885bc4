"""FedJAX: its own ``federated_averaging`` with the backend ``jit``, its default and its choice for one CPU.

The other backend, ``pmap``, wants several devices. Each client's samples are handed over in the order of the
workload's batches, and FedJAX is told not to shuffle them (``skip_shuffle``).
"""

from __future__ import annotations

from typing import Any

from benchmarks.peers.telling import Teller

teller = Teller("fedjax", "jax", "jaxlib", "numpy")

import fedjax  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from fedjax.algorithms import fed_avg  # noqa: E402
from jax import lax  # noqa: E402

from benchmarks.peers.workload import Workload, read  # noqa: E402

Params = dict[str, Any]


def dense(params: Params, layer: int, x: Any) -> Any:
    """One linear layer; torch keeps its weights transposed."""
    return x @ params[f"{layer}.weight"].T + params[f"{layer}.bias"]


def stage(params: Params, layer: int, x: Any, padding: int) -> Any:
    """Convolution, ReLU, max-pooling."""
    weight, bias = params[f"{layer}.weight"], params[f"{layer}.bias"]
    x = lax.conv_general_dilated(
        x, weight, (1, 1), [(padding, padding)] * 2, dimension_numbers=("NCHW", "OIHW", "NCHW")
    )
    x = jax.nn.relu(x + bias[:, None, None])
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def forward(model: str, params: Params, x: Any) -> Any:
    """The two networks of networks.py."""
    if model == "mlp":
        return dense(params, 3, jax.nn.relu(dense(params, 1, x.reshape(len(x), -1))))
    x = stage(params, 0, x, 2 if x.shape[2] < 32 else 0)
    x = stage(params, 3, x, 0).reshape(len(x), -1)
    return dense(params, 11, jax.nn.relu(dense(params, 9, jax.nn.relu(dense(params, 7, x)))))


def losses(guess: Any, labels: Any) -> Any:
    """Cross-entropy of each sample."""
    return -jnp.take_along_axis(jax.nn.log_softmax(guess), labels[:, None], axis=1)[:, 0]


def algorithm_for(work: Workload) -> fedjax.FederatedAlgorithm:
    """FedJAX's FedAvg; the server's SGD with rate 1 takes the mean of the clients' models."""
    told = work.federation

    def gradient(params: Params, batch: Any, rng: Any) -> Params:
        return jax.grad(lambda p: losses(forward(told.model, p, batch["x"]), batch["y"]).mean())(params)

    return fed_avg.federated_averaging(
        gradient,
        fedjax.optimizers.sgd(told.lr),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(batch_size=told.batch, num_epochs=1, skip_shuffle=True),
    )


def cohort(work: Workload, round: int) -> list[Any]:
    """A round's clients with their samples in the order of the batches."""
    found = []
    for place, client in enumerate(work.participants[round]):
        rows = work.batches[round, place].reshape(-1)
        data = fedjax.ClientDataset({"x": work.x_train[rows], "y": work.y_train[rows]})
        found.append((int(client), data, jax.random.PRNGKey(0)))
    return found


def main() -> None:
    """Rounds of FedAvg."""
    work = read(teller.path)
    parts = max(1, len(work.y_test) // 1000)
    tests = list(zip(np.split(work.x_test, parts), np.split(work.y_test, parts), strict=True))

    @jax.jit
    def score(params: Params, x: Any, y: Any) -> Any:
        guess = forward(work.federation.model, params, x)
        return losses(guess, y).sum(), (guess.argmax(1) == y).sum()

    algorithm = algorithm_for(work)
    state = algorithm.init({name: jnp.asarray(value) for name, value in work.weights.items()})
    for round in range(work.federation.rounds):
        state, _ = algorithm.apply(state, cohort(work, round))
        scores = np.array([score(state.params, x, y) for x, y in tests], np.float64).sum(0)
        teller.round(*(scores / len(work.y_test)))
    teller.tell("backend jit")


if __name__ == "__main__":
    main()
