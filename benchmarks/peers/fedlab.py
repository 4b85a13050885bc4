"""FedLab: ``SyncServerHandler`` and ``SGDSerialClientTrainer`` in its ``StandalonePipeline``.

That is FedLab's simulation in one process; its other modes send weights between processes. The data set hands a
client's batches over in the workload's order, and the server's participants are the workload's.
"""

from __future__ import annotations

import logging
from typing import Any

from benchmarks.peers.stubs import without_torchvision
from benchmarks.peers.telling import Teller

teller = Teller("fedlab", "torch", "numpy")
without_torchvision()

import torch  # noqa: E402
from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer  # noqa: E402
from fedlab.contrib.algorithm.basic_server import SyncServerHandler  # noqa: E402
from fedlab.core.standalone import StandalonePipeline  # noqa: E402

from benchmarks.peers.networks import Held, held, score, started  # noqa: E402


class Listed(SyncServerHandler):
    """FedLab's server with the workload's participants."""

    here: Held

    def sample_clients(self) -> list[int]:
        """This round's clients."""
        found: list[int] = self.here.work.participants[self.round].tolist()
        return found


class Batches:
    """What FedLab calls a dataset: a loader for each client."""

    def __init__(self, here: Held, server: Listed) -> None:
        self._here, self._server = here, server

    def get_dataloader(self, client: int, batch_size: int) -> Any:
        """The batches of a client's visit in this round."""
        for rows in torch.from_numpy(self._here.work.batches_of(client, self._server.round)):
            yield self._here.x[rows], self._here.y[rows]


class Scored(StandalonePipeline):
    """Scores the model after every round; all cores for that, one for training, as in the plain loop."""

    def start(self, here: Held) -> None:
        """Take the test samples, then go."""
        self._cores = torch.get_num_threads()
        self._tests = torch.from_numpy(here.work.x_test), torch.from_numpy(here.work.y_test)
        torch.set_num_threads(1)
        self.main()

    def evaluate(self) -> None:
        """A round is over."""
        torch.set_num_threads(self._cores)
        teller.round(*score(self.handler.model, *self._tests))
        torch.set_num_threads(1)


def main() -> None:
    """Rounds of FedAvg."""
    logging.disable(logging.WARNING)
    here = held(str(teller.path))
    told = here.work.federation
    server = Listed(here.module, told.rounds, told.participants / told.clients)
    server.here = here
    trainer = SGDSerialClientTrainer(started(here.work), told.clients)
    trainer.setup_dataset(Batches(here, server))
    trainer.setup_optim(told.epochs, told.batch, told.lr)
    Scored(server, trainer).start(here)
    teller.tell("standalone, one process; one thread in training")


if __name__ == "__main__":
    main()
