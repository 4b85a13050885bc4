"""A limit on a GPU's memory reaches torch, also for a device that has no number."""

from types import SimpleNamespace

import pytest
import torch

from paceline.learn.cohort.trainer import CohortTrainer


@pytest.mark.parametrize(("device", "index"), [("cuda", None), ("cuda:1", 1)])
def test_torch_is_told_a_number_or_nothing(monkeypatch, device, index):
    """Torch refuses a device without a number there, and takes the current one for None."""
    told = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=1 << 30))
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda *words: told.append(words))
    CohortTrainer(device, limit=1 << 29)
    assert told == [(0.5, index)]
