"""The weights in a run's directory as what torch calls a state dictionary."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from paceline.config import Tree, apply, read_json
from paceline.data.registry import parse_name
from paceline.errors import DataError
from paceline.ledger.weights import read_weights
from paceline.references import refuse_untrusted
from paceline.runs.problem import make_spaces
from paceline.runs.settings import Settings


def state_dict(directory: Path, client: int | None, *, trust: bool) -> dict[str, Tensor]:
    """One model's tensors by name."""
    kept = read_json(directory / "settings.json")
    words: Tree = {name: kept[name] for name in ("dataset", "model", "executor") if name in kept}
    if not trust:
        refuse_untrusted({**words, "executor": None}, str(directory))  # of which none is joined
    said = apply(Settings(), words, f"{directory}: ")
    weights = read_weights(directory)
    name = "model" if client is None else f"client {client}"
    if name not in weights:
        wanted = "one of its clients: client=0, say" if "model" not in weights else "the one model: leave client out"
        raise DataError(f"{directory} has no weights called {name!r}; ask for {wanted}")
    spec, _ = parse_name(said.dataset)
    spaces = make_spaces(said.model, spec.shape, spec.classes, said.executor.dtype)
    space = spaces[(client or 0) % len(spaces)]
    return {slot: tensor.clone() for slot, tensor in space.unflatten(weights[name]).items()}
