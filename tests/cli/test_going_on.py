"""The command that goes on, as it must be typed."""

from pathlib import Path

import pytest

from paceline.cli.performing import _resuming
from paceline.runs.experiment import make_experiment

NET = "from torch import nn\n\ndef make():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"


@pytest.mark.parametrize(
    ("model", "command"), [("mlp", "paceline resume 'my study'"), ("net:make", "paceline resume 'my study' --trust")]
)
def test_code_of_one_s_own_needs_trust(tmp_path, monkeypatch, model, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NET)
    experiment = make_experiment(["fedavg"], overrides=[f"model={model}"], out=Path("my study"))
    assert _resuming(experiment) == command
