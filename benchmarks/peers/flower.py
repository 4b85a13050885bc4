"""Flower's simulation: a ``ServerApp`` and a ``ClientApp`` on its Ray backend, with one core for each client.

One core for each client is the fastest here: as many workers as cores, one thread each. Workers live through the
whole simulation and keep the data, so a message carries weights only. Flower's FedAvg draws participants itself;
here its ``configure_train`` is given the workload's, which is the documented way to choose them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Any

from benchmarks.peers.telling import Teller

teller = Teller("flwr", "ray", "torch", "numpy")
# Neither counts users nor looks for newer versions: that takes time and wants a network.
os.environ.update(FLWR_TELEMETRY_ENABLED="0", FLWR_DISABLE_UPDATE_CHECK="1", RAY_USAGE_STATS_ENABLED="0")

import torch  # noqa: E402
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict  # noqa: E402
from flwr.clientapp import ClientApp  # noqa: E402
from flwr.serverapp import Grid, ServerApp  # noqa: E402
from flwr.serverapp.strategy import FedAvg  # noqa: E402
from flwr.simulation import run_simulation  # noqa: E402

from benchmarks.peers.networks import held, score, train  # noqa: E402

PATH = str(teller.path)


class Listed(FedAvg):
    """FedAvg with the workload's participants."""

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """A message for each participant, which says what it is to learn from."""
        places = held(PATH).work.federation.participants
        while len(nodes := sorted(grid.get_node_ids())) < held(PATH).work.federation.clients:
            time.sleep(0.05)  # they are registered while the server begins
        for place in range(places):
            client = int(held(PATH).work.participants[server_round - 1, place])
            told = ConfigRecord({"round": server_round - 1, "place": place})
            content = RecordDict({"arrays": arrays, "config": told})
            yield Message(content=content, message_type=MessageType.TRAIN, dst_node_id=nodes[client])


def client_app(path: str) -> ClientApp:
    """What every client does."""
    app = ClientApp()

    @app.train()
    def visit(message: Message, context: Context) -> Message:
        here = held(path)
        here.module.load_state_dict(message.content["arrays"].to_torch_state_dict())
        told: Any = message.content["config"]
        batches = here.work.batches[told["round"], told["place"]]
        train(here.module, here.x, here.y, batches, here.work.federation.lr)
        metrics = MetricRecord({"num-examples": batches.size})
        content = RecordDict({"arrays": ArrayRecord(here.module.state_dict()), "metrics": metrics})
        return Message(content=content, reply_to=message)

    return app


def server_app() -> ServerApp:
    """Rounds of FedAvg, scored by the server."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        here = held(PATH)
        tests = torch.from_numpy(here.work.x_test), torch.from_numpy(here.work.y_test)

        def evaluate(round: int, arrays: ArrayRecord) -> MetricRecord | None:
            if round == 0:
                return None
            here.module.load_state_dict(arrays.to_torch_state_dict())
            loss, accuracy = score(here.module, *tests)
            teller.round(loss, accuracy)
            return MetricRecord({"loss": loss, "accuracy": accuracy})

        Listed(fraction_evaluate=0.0).start(
            grid=grid,
            initial_arrays=ArrayRecord(here.module.state_dict()),
            num_rounds=here.work.federation.rounds,
            evaluate_fn=evaluate,
        )

    return app


if __name__ == "__main__":
    run_simulation(
        server_app=server_app(),
        client_app=client_app(PATH),
        num_supernodes=held(PATH).work.federation.clients,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    teller.tell("Ray backend, one core a client")
