"""fluke: its ``CentralizedFL`` with ready ``Client`` and ``Server`` objects, in one process as fluke always is.

The server is given the workload's participants, and before a visit a client is given a ``FastDataLoader`` (fluke's
own, faster than torch's) with its samples in the order of the workload's batches. fluke's evaluation is off: after
every round the model is scored by the same function as for the plain loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.peers.stubs import without, without_torchvision
from benchmarks.peers.telling import Teller

teller = Teller("fluke-fl", "torch", "numpy")

import torchmetrics  # noqa: E402, F401  # looks whether there is torchvision, so it comes before the stand-in

without_torchvision()
without("clearml", "datasets", "wandb", "torch.utils.tensorboard")

import torch  # noqa: E402
from fluke import FlukeENV  # noqa: E402
from fluke.algorithms import CentralizedFL  # noqa: E402
from fluke.client import Client  # noqa: E402
from fluke.config import OptimizerConfigurator  # noqa: E402
from fluke.data import FastDataLoader  # noqa: E402
from fluke.server import Server  # noqa: E402
from fluke.utils import FederationObserver  # noqa: E402

from benchmarks.peers.networks import Held, held, score  # noqa: E402


class Listed(Server):
    """fluke's server with the workload's participants."""

    here: Held
    round = 0

    def get_eligible_clients(self, eligible_perc: float) -> Sequence[Client]:
        """This round's clients, with their samples."""
        chosen = [self.clients[k] for k in self.here.work.participants[self.round]]
        for place, client in enumerate(chosen):
            client.train_set = loader(self.here, self.here.work.batches[self.round, place])
        self.round += 1
        return chosen


class Federation(CentralizedFL):
    """fluke's algorithm without the models that it sends to everybody at the end."""

    def finalize(self) -> None:
        """Nothing."""


class Scores(FederationObserver):
    """Scores the model after every round; all cores for that, one for training, as in the plain loop."""

    def __init__(self, here: Held, server: Server) -> None:
        self._server, self._cores = server, torch.get_num_threads()
        self._tests = torch.from_numpy(here.work.x_test), torch.from_numpy(here.work.y_test)
        torch.set_num_threads(1)

    def end_round(self, round: int) -> None:
        """A round is over."""
        torch.set_num_threads(self._cores)
        teller.round(*score(self._server.model, *self._tests))
        torch.set_num_threads(1)


def loader(here: Held, batches: Any) -> FastDataLoader:
    """Samples in the order of these batches."""
    rows = torch.from_numpy(batches.reshape(-1))
    batch = here.work.federation.batch
    return FastDataLoader(here.x[rows], here.y[rows], num_labels=10, batch_size=batch, shuffle=False)


def main() -> None:
    """Rounds of FedAvg."""
    here = held(str(teller.path))
    told = here.work.federation
    FlukeENV().set_eval_cfg(server=False)
    optimiser = OptimizerConfigurator({"name": "SGD", "lr": told.lr})
    loss = torch.nn.CrossEntropyLoss()
    clients = [
        Client(k, loader(here, here.work.rows[k]), None, optimiser, loss, told.epochs) for k in range(told.clients)
    ]
    server = Listed(here.module, None, clients)
    server.here = here
    federation = Federation(told.clients, None, {}, clients, server)
    federation.set_callbacks([Scores(here, server)])
    federation.run(told.rounds, told.participants / told.clients)
    teller.tell("one process; one thread in training")


if __name__ == "__main__":
    main()
