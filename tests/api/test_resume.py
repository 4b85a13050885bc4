"""``paceline.resume``: what was handed over as objects is handed over again."""

import json
import shutil
from dataclasses import dataclass, field

import numpy as np
import pytest
from torch import nn

import paceline
from paceline.errors import SettingError
from paceline.ledger import lock
from paceline.runs.keeper import Keeper
from tests.contract.test_resume import Cut, cutting


@dataclass(frozen=True, kw_only=True)
class Patient(paceline.Algorithm):
    """One client after the other, round by round."""

    rounds: int = 4
    local: paceline.LocalSGD = field(default_factory=lambda: paceline.LocalSGD(steps=2, batch=5, lr=0.1))

    async def run(self, world):
        model = world.initial_model()
        for r in range(self.rounds):
            client = r % len(world.clients)
            model = await paceline.visit(world, client, model, self.local)
            yield paceline.Progress(model)


def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 3))


def data(seed=0):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(80, 6)).astype(np.float32), rng.integers(0, 3, 80)
    return (x[:60], y[:60]), (x[60:], y[60:])


@pytest.fixture
def cut(tmp_path, monkeypatch):
    """The directory of a run with things at hand that was cut off at its third stop."""
    words = {"data": data(), "model": net, "clients": 6, "partition": "iid", "flush": 1}
    with monkeypatch.context() as patched:
        cutting(patched, tmp_path / "first", tmp_path / "cut", 2, 3)
        with pytest.raises(Cut):
            paceline.run(Patient(rounds=5), out=tmp_path / "first", **words)
    whole = paceline.run(Patient(rounds=5), out=tmp_path / "whole", **words)
    return tmp_path / "cut", whole


def test_things_at_hand_are_handed_over_again(cut):
    directory, whole = cut
    told = []
    found = paceline.resume(
        directory, algorithms=[Patient(rounds=5)], data=data(), model=net, callbacks=[lambda *row: told.append(row)]
    )
    (label,), (other,) = found.labels, whole.labels
    assert found.rows(label) == whole.rows(other)
    assert [row["round"] for _, _, row in told] == [4, 5]  # what is new
    assert (found.model(label)["1.weight"] == whole.model(other)["1.weight"]).all()


def test_what_is_lacking_is_named(cut):
    directory, _ = cut
    with pytest.raises(SettingError, match=r"dataset of these runs was handed over in Python .*data=\.\.\."):
        paceline.resume(directory, algorithms=[Patient(rounds=5)], model=net)
    with pytest.raises(SettingError, match=r"model of these runs was handed over in Python .*model=\.\.\."):
        paceline.resume(directory, algorithms=[Patient(rounds=5)], data=data())


def test_other_data_are_found_out(cut):
    directory, _ = cut
    with pytest.raises(SettingError, match="data of given:data"):
        paceline.resume(directory, algorithms=[Patient(rounds=5)], data=data(1), model=net)


def test_a_checkpoint_interval_can_be_said(tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(Keeper, "save", lambda self: kept.append(self._stop))
    words = {"clients": 6, "partition": "iid", "rounds": 4, "flush": 1}
    paceline.run("fedavg", out=tmp_path / "often", checkpoint=0, **words)
    assert kept
    kept.clear()
    paceline.run("fedavg", out=tmp_path / "never", checkpoint="never", **words)
    paceline.run("fedavg", **words)
    assert kept == []
    manifest = json.loads((tmp_path / "often" / "paceline.json").read_text())
    assert manifest["status"] == "done" and not (tmp_path / "often" / lock.FILE).exists()
    shutil.rmtree(tmp_path / "often")
