"""What must be the same for a run to go on as it began: versions, the device, data, files, code of the user's own."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from paceline.errors import SettingError
from paceline.learn.job import Trainer
from paceline.ledger.directory import versions
from paceline.runs.outside import code_digest, named_outside
from paceline.runs.run import Run

Same = dict[str, str]
DATA = "data of "
"""How the names of digests of data begin."""


def circumstances(runs: Sequence[Run], trainer: Trainer) -> Same:
    """What results depend on besides settings, by name."""
    device = trainer.device
    found = {f"version of {name}": version for name, version in versions().items()}
    found["device"] = torch.cuda.get_device_name(device) if device.type == "cuda" else str(device.type)
    found["threads"] = str(getattr(trainer, "threads", 1))
    found["visits before learning is computed"] = ", ".join(str(run.learner.flush_limit) for run in runs)
    found["code paceline"] = _own_code()
    return found | named_outside(run.recorder.described for run in runs)


@cache
def _own_code() -> str:
    """Of this program: its version says little where somebody works on it."""
    return code_digest("paceline")


def data_digests(runs: Sequence[Run]) -> Same:
    """Digests of the data that runs learn from; each once, since many runs share them."""
    found: Same = {}
    for run in runs:
        problem = run.problem
        name = f"{DATA}{problem.dataset}"
        if name not in found and problem.train_shards is not None and problem.test is not None:
            parts = (problem.train_shards.x, problem.train_shards.y, *problem.test)
            found[name] = _digest([part.numpy() for part in parts])
    return found


def refuse_changed(then: Mapping[str, str], now: Mapping[str, str], accepted: Sequence[str]) -> None:
    """Raise ``SettingError`` if something is another than it was, naming it, unless it is accepted."""
    changed = [name for name in then if name in now and now[name] != then[name] and not _accepted(name, accepted)]
    gone = [name for name in then if name not in now and not _accepted(name, accepted)]
    if changed or gone:
        lines = [f"  {name}: was {_short(then[name])}, is {_short(now[name])}" for name in changed]
        lines += [f"  {name}: was {_short(then[name])}, and is not there" for name in gone]
        raise SettingError(
            "what results depend on is not what it was when the run began:\n"
            + "\n".join(lines)
            + f"\nput it back, or go on all the same with --accept {_word((changed + gone)[0])!r} (or --accept all):"
            " results may then differ from those of an uninterrupted run"
        )


def _accepted(name: str, accepted: Sequence[str]) -> bool:
    return any(word == "all" or word in (name, _word(name)) for word in accepted)


def _word(name: str) -> str:
    """What a user says for it: the last word, which is a package, a file or a dataset."""
    return name.rpartition(" ")[2]


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:12]}..."


def _digest(arrays: Sequence[np.ndarray[Any, Any]]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data.cast("B"))
    return digest.hexdigest()
