"""A power cut at a federation's server: what devices were told, it still knows."""

import pytest

from paceline.ledger.directory import EXPERIMENT, SETTINGS
from paceline.runs.experiment import make_experiment
from paceline.runs.performing import Hosting, perform, read_resumption
from paceline.runs.replay import replay
from paceline.worlds.local.checks import Checks
from tests.contract.test_power import Disk
from tests.contract.test_resume_locally import WORDS, cut_off
from tests.federation.memory import MemoryGrid


@pytest.mark.parametrize(("name", "entries"), [("fedavg", 14), ("apfl", 17), ("da-dpfl", 14)])
def test_the_run_goes_on(name, entries, tmp_path, monkeypatch):
    words = {"workers": 1, "federation": True, "keep_models": True}
    experiment = make_experiment([name], overrides=WORDS, out=tmp_path / "one", **words)
    grid = MemoryGrid(tmp_path / "nodes", experiment.settings[0].clients)
    hosting = Hosting(grid.hosts(), 60.0, Checks())
    with monkeypatch.context() as patched:
        Disk(patched)
        copy = cut_off(
            patched, lambda: perform(experiment, None, None, hosting), tmp_path / "one", tmp_path / "two", entries
        )
    assert len((copy / "journal.jsonl").read_text().splitlines()) == entries
    resumption = read_resumption(copy)
    assert perform(resumption.experiment, None, resumption, hosting).failures == []
    found = replay(copy)
    assert found.equal and found.acts_elsewhere == 0


def test_what_is_complete_is_on_the_disk_before_its_recovery_folder_goes(tmp_path, monkeypatch):
    words = {"workers": 1, "federation": True, "keep_models": True}
    experiment = make_experiment(["fedavg"], overrides=WORDS, out=tmp_path / "out", **words)
    grid = MemoryGrid(tmp_path / "nodes", experiment.settings[0].clients)
    disk = Disk(monkeypatch)
    assert perform(experiment, None, None, Hosting(grid.hosts(), 60.0, Checks())).failures == []
    assert not (tmp_path / "out" / "checkpoints").exists()
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    left = {path.name: disk.left_of(path) == path.read_bytes() for path in files}
    assert all(left.values()), left
    assert {EXPERIMENT, SETTINGS, "metrics.jsonl", "summary.json", "model.safetensors"} <= left.keys()
    assert any(path.parent.name == "spans" for path in files)
    grid.stop()
