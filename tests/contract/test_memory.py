"""Under a limit on memory every algorithm has the rows, the weights and the spans that it has without one."""

import numpy as np
import pytest

from paceline.algorithms.registry import ALGORITHMS
from paceline.errors import SettingError
from paceline.learn import memory
from paceline.learn.memory import Budget
from paceline.runs.experiment import make_experiment
from paceline.runs.performing import perform, read_resumption, resume
from tests.contract.test_resume import FOUR, WORDS, cut_off, experiment, kept_files, uninterrupted

LIMIT = "executor.memory=1GiB"


@pytest.fixture(autouse=True)
def hardly_any(monkeypatch):
    """Room for two visits, one row, and one model on sixteen samples at a time."""
    monkeypatch.setattr(memory, "resident", lambda: 0)
    monkeypatch.setattr(Budget, "visits", lambda self, need, besides=0: 2)
    monkeypatch.setattr(Budget, "cohort", lambda self, need: 1)
    monkeypatch.setattr(Budget, "stacked", lambda self, space, parents: 1)
    monkeypatch.setattr(Budget, "scored", lambda self, space: (1, memory.FEWEST))
    monkeypatch.setattr(Budget, "to_be_measured", lambda self, models: len(models) > 1)


def results(directory):
    """All that does not tell how it was computed."""
    summary, *rest = kept_files(directory)
    return summary["visits"], *rest


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_same_results_in_portions(name, tmp_path):
    words = [word for word in WORDS if not word.startswith("flush")]
    usual = perform(experiment([name], tmp_path / "usual", words))
    tight = perform(experiment([name], tmp_path / "tight", [*words, LIMIT]))
    assert usual.failures == tight.failures == []
    assert results(tmp_path / "tight") == results(tmp_path / "usual")
    assert tight.statistics.visits <= usual.statistics.visits
    assert tight.statistics.widest <= 2


def test_a_comparison_in_portions_has_the_results_of_one_without(tmp_path):
    perform(experiment(FOUR, tmp_path / "usual", seeds=2))
    perform(experiment(FOUR, tmp_path / "tight", [*WORDS, LIMIT], seeds=2))
    folders = [path.name for path in (tmp_path / "usual").iterdir() if path.is_dir()]
    assert len(folders) == 2 * len(FOUR)
    for folder in folders:
        _, *tight = results(tmp_path / "tight" / folder)
        _, *usual = results(tmp_path / "usual" / folder)
        assert tight == usual


@pytest.mark.parametrize("name", ["fedavg", "mifa"])
def test_cut_off_and_resumed_with_the_limit(name, tmp_path, monkeypatch):
    words = [*WORDS, LIMIT]
    whole, stops = uninterrupted(monkeypatch, [name], tmp_path / "whole", words)
    middle = max(1, stops // 2)
    directory = cut_off(monkeypatch, [name], tmp_path, middle, middle, words)
    resumption = read_resumption(directory)
    assert resumption.experiment.settings[0].executor.memory == "1GiB"
    outcome = resume(resumption)
    assert kept_files(directory) == kept_files(tmp_path / "whole")
    assert outcome.statistics == whole.statistics


def test_what_a_checkpoint_gives_back_counts(tmp_path, monkeypatch):
    words = [*WORDS, LIMIT]
    directory = cut_off(monkeypatch, ["mifa"], tmp_path, 2, 2, words)
    noted, note = [], Budget.note
    monkeypatch.setattr(Budget, "note", lambda self, model: (noted.append(model.number), note(self, model))[1])
    resume(read_resumption(directory))
    assert len(noted) > len(np.unique(noted)) or len(noted) > 8  # every client's last update among them


def test_a_limit_that_is_too_low_is_refused_before_a_directory_is_made(tmp_path):
    wrong = {"100MiB": "but these runs need", "4 gibibytes": "wanted a number of bytes", "-1GB": "above 0"}
    for text, said in wrong.items():
        with pytest.raises(SettingError, match=said):
            perform(experiment(["fedavg"], tmp_path / "out", [*WORDS, f"executor.memory={text}"]))
    with pytest.raises(SettingError, match="cohort alone"):
        experiment(["fedavg"], tmp_path / "out", [LIMIT, "executor.name=reference"])
    with pytest.raises(SettingError, match="--memory is for simulations"):
        make_experiment(["fedavg"], overrides=[LIMIT], workers=1)
    assert not (tmp_path / "out").exists()
