"""The plain loop: one module, ``torch.optim.SGD``, one client after the other.

One thread for training, for with layers this small more threads are slower; all cores for scoring.
"""

from __future__ import annotations

from benchmarks.peers.telling import Teller

teller = Teller("torch", "numpy")

import torch  # noqa: E402

from benchmarks.peers.networks import score, started, train  # noqa: E402
from benchmarks.peers.workload import read  # noqa: E402


def main() -> None:
    """Rounds of FedAvg."""
    work = read(teller.path)
    x, y, x_test, y_test = map(torch.from_numpy, (work.x_train, work.y_train, work.x_test, work.y_test))
    module, cores = started(work), torch.get_num_threads()
    model = {name: value.clone() for name, value in module.state_dict().items()}
    for batches_KSB in work.batches:
        total = {name: torch.zeros_like(value) for name, value in model.items()}
        torch.set_num_threads(1)
        for batches in batches_KSB:
            module.load_state_dict(model)
            train(module, x, y, batches, work.federation.lr)
            for name, value in module.state_dict().items():
                total[name] += value
        model = {name: value / len(batches_KSB) for name, value in total.items()}
        module.load_state_dict(model)
        torch.set_num_threads(cores)
        teller.round(*score(module, x_test, y_test))
    teller.tell("one process; one thread in training")


if __name__ == "__main__":
    main()
