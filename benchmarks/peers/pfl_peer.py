"""pfl: ``FederatedAveraging`` on a ``SimulatedBackend`` in one process, with torch.

Its distributed mode splits a cohort among processes that all-reduce by Horovod or torch; on two cores, with visits of
a few milliseconds, one process is the natural choice. A user of this dataset is one visit of the workload, so the
samples come in the order of its batches; pfl cuts them without shuffling.
"""

from __future__ import annotations

import logging
from typing import Any

from benchmarks.peers.telling import Teller

teller = Teller("pfl", "torch", "numpy")

import numpy as np  # noqa: E402
import torch  # noqa: E402
from pfl.aggregate.simulate import SimulatedBackend  # noqa: E402
from pfl.aggregate.weighting import WeightByDatapoints  # noqa: E402
from pfl.algorithm.base import NNAlgorithmParams  # noqa: E402
from pfl.algorithm.federated_averaging import FederatedAveraging  # noqa: E402
from pfl.callback.base import TrainingProcessCallback  # noqa: E402
from pfl.data.dataset import Dataset  # noqa: E402
from pfl.data.federated_dataset import FederatedDataset  # noqa: E402
from pfl.hyperparam.base import NNTrainHyperParams  # noqa: E402
from pfl.metrics import Metrics  # noqa: E402
from pfl.model.pytorch import PyTorchModel  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from benchmarks.peers.networks import Held, held, score  # noqa: E402


class Network(torch.nn.Module):
    """A module with the two methods that pfl asks for."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def loss(self, x: Any, y: Any) -> Any:
        """What is minimised."""
        return F.cross_entropy(self.module(x), y)

    def metrics(self, x: Any, y: Any) -> dict[str, Any]:
        """Nothing: the server scores, by the same function as for the plain loop."""
        return {}


class Scores(TrainingProcessCallback):
    """Scores the model after every round; all cores for that, one for training, as in the plain loop."""

    def __init__(self, here: Held) -> None:
        self._here, self._cores = here, torch.get_num_threads()
        self._tests = torch.from_numpy(here.work.x_test), torch.from_numpy(here.work.y_test)
        torch.set_num_threads(1)

    def after_central_iteration(
        self, metrics: Metrics, model: Any, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """A round is over."""
        torch.set_num_threads(self._cores)
        teller.round(*score(self._here.module, *self._tests))
        torch.set_num_threads(1)
        return False, Metrics()


def users(here: Held) -> FederatedDataset:
    """The workload's visits, one after the other."""
    visits = iter(np.ndindex(here.work.participants.shape))

    def data(visit: Any) -> Dataset:
        rows = torch.from_numpy(here.work.batches[tuple(visit)].reshape(-1))
        return Dataset([here.x[rows], here.y[rows]], user_id=str(visit))

    return FederatedDataset(data, lambda: next(visits))


def main() -> None:
    """Rounds of FedAvg; the server's SGD with rate 1 takes the mean of the users' models."""
    logging.disable(logging.WARNING)
    here = held(str(teller.path))
    told, network = here.work.federation, Network(here.module)
    model = PyTorchModel(network, torch.optim.SGD, torch.optim.SGD(network.parameters(), lr=1.0))
    data = users(here)
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=told.rounds,
            evaluation_frequency=told.rounds + 1,
            train_cohort_size=told.participants,
            val_cohort_size=0,
        ),
        SimulatedBackend(training_data=data, val_data=data, postprocessors=[WeightByDatapoints()]),
        model,
        NNTrainHyperParams(local_num_epochs=told.epochs, local_learning_rate=told.lr, local_batch_size=told.batch),
        callbacks=[Scores(here)],
        send_metrics_to_platform=False,
    )
    teller.tell("one process; one thread in training")


if __name__ == "__main__":
    main()
