"""A run that was cut off anywhere and resumed is the run that was not: rows, weights, counts and spans."""

import errno
import json
import shutil

import numpy as np
import pyarrow.dataset as ds
import pytest
import torch

from paceline.algorithms.registry import ALGORITHMS
from paceline.errors import DataError, SettingError
from paceline.learn.job import Score
from paceline.learn.promises import Measure, Reading
from paceline.ledger import lock
from paceline.ledger.directory import EXPERIMENT, SETTINGS
from paceline.ledger.spans import Ledger
from paceline.runs.experiment import make_experiment
from paceline.runs.keeper import Keeper, Keeping
from paceline.runs.learned import Stop, require_fit
from paceline.runs.performing import perform, read_resumption, resume
from paceline.runs.stopping import Stopped, Stopping
from tests.contract.test_places import SMALL

WORDS = [*SMALL, "flush=5", "every=1"]
NEVER = Keeping(every=1e9)


class Cut(BaseException):
    """The process ends here."""


def cutting(monkeypatch, directory, copy, kept, cut):
    """Have the next drive keep a checkpoint at one stop and end at another; its files are copied as they are then."""
    stops, stopped = [], Keeper.stopped

    def until(self):
        stopped(self)
        stops.append(self._stop)
        if len(stops) == kept:
            self.save()
        if len(stops) == cut:
            shutil.copytree(directory, copy, ignore=shutil.ignore_patterns(lock.FILE))
            raise Cut

    monkeypatch.setattr(Keeper, "stopped", until)
    return stops


def experiment(names, out, words=WORDS, **options):
    return make_experiment(names, overrides=list(words), out=out, keeping=NEVER, keep_models=True, **options)


def kept_files(directory):
    """All that a run leaves, but for real seconds."""
    summary = json.loads((directory / "summary.json").read_text())
    seconds = summary.pop("seconds")
    assert seconds > 0
    weights = (directory / "model.safetensors").read_bytes()
    parts = sorted((directory / "spans").glob("*.parquet"))
    spans = repr(ds.dataset(parts, format="parquet").to_table().to_pydict())  # as text: NaN equals NaN
    return summary, (directory / "metrics.jsonl").read_text(), weights, spans


def uninterrupted(monkeypatch, names, out, words=WORDS, **options):
    """The outcome of an experiment, and how many stops it had."""
    with monkeypatch.context() as patched:
        stops = cutting(patched, None, None, None, None)
        outcome = perform(experiment(names, out, words, **options))
    return outcome, len(stops)


def cut_off(monkeypatch, names, tmp_path, kept, cut, words=WORDS, **options):
    """The directory that a process leaves which is killed at a stop, and kept a checkpoint at one before."""
    with monkeypatch.context() as patched:
        cutting(patched, tmp_path / "first", tmp_path / "cut", kept, cut)
        with pytest.raises(Cut):
            perform(experiment(names, tmp_path / "first", words, **options))
    return tmp_path / "cut"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_cut_off_and_resumed(name, tmp_path, monkeypatch):
    whole, stops = uninterrupted(monkeypatch, [name], tmp_path / "whole")
    assert stops >= 2 and whole.failures == []
    rng = np.random.default_rng(sum(name.encode()))
    kept = int(rng.integers(1, max(2, stops - 1)))
    directory = cut_off(monkeypatch, [name], tmp_path, kept, int(rng.integers(kept, max(kept + 1, stops))))
    with monkeypatch.context() as patched:  # once more, during or after the replay
        cutting(patched, directory, tmp_path / "twice", None, int(rng.integers(1, max(2, stops))))
        with pytest.raises(Cut):
            resume(read_resumption(directory))
    outcome = resume(read_resumption(tmp_path / "twice"))
    assert outcome.failures == []
    assert kept_files(tmp_path / "twice") == kept_files(tmp_path / "whole")
    assert outcome.statistics == whole.statistics
    assert not (tmp_path / "twice" / "checkpoints").exists()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", ALGORITHMS)
def test_on_a_gpu(name, tmp_path, monkeypatch):
    words = [*WORDS, "executor.device=cuda", "model=mlp:64", "local.steps=3"]
    whole, stops = uninterrupted(monkeypatch, [name], tmp_path / "whole", words)
    assert whole.failures == []
    directory = cut_off(monkeypatch, [name], tmp_path, max(1, stops // 2), max(1, stops - 1), words)
    assert resume(read_resumption(directory)).failures == []
    assert kept_files(directory) == kept_files(tmp_path / "whole")


FOUR = [*list(ALGORITHMS)[::9], "fedbuff@buffer=3"]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_comparison_with_seeds(share, tmp_path, monkeypatch):
    """Its runs meet in waves and end one after the other."""
    whole, stops = uninterrupted(monkeypatch, FOUR, tmp_path / "whole", seeds=3)
    cut = max(1, round(share * (stops - 1)))
    directory = cut_off(monkeypatch, FOUR, tmp_path, max(1, cut - 1), cut, seeds=3)
    outcome = resume(read_resumption(directory))
    assert outcome.failures == [] and outcome.statistics == whole.statistics
    folders = sorted(path.name for path in (tmp_path / "whole").iterdir() if path.is_dir())
    assert len(folders) == 12 and "fedbuff@buffer=3-seed1" in folders
    for folder in folders:
        assert kept_files(directory / folder) == kept_files(tmp_path / "whole" / folder)


def test_what_learning_counts_is_counted_once(tmp_path, monkeypatch):
    words = [*WORDS, "spfl.aggregation.rule=screen", "hostile=sign-flip:0.25", "rounds=4", "public=0.2"]
    _, stops = uninterrupted(monkeypatch, ["spfl"], tmp_path / "whole", words)
    directory = cut_off(monkeypatch, ["spfl"], tmp_path, stops - 1, stops - 1, words)
    resume(read_resumption(directory))
    found = kept_files(directory)
    assert found == kept_files(tmp_path / "whole")
    assert found[0]["distributions"]["rejected client"]


def test_a_run_that_diverged_before_is_not_tried_again(tmp_path, monkeypatch):
    names, words = ["fedavg@local.lr=1e38,local.steps=4", "fedavg"], [*WORDS, "rounds=6", "flush=8"]
    whole, stops = uninterrupted(monkeypatch, names, tmp_path / "whole", words)
    assert len(whole.failures) == 1
    directory = cut_off(monkeypatch, names, tmp_path, stops - 1, stops - 1, words)
    outcome = resume(read_resumption(directory))
    assert [str(run.failure) for run in outcome.failures] == [str(run.failure) for run in whole.failures]
    assert kept_files(directory / "fedavg-seed0") == kept_files(tmp_path / "whole" / "fedavg-seed0")


# -- what cannot be resumed ----------------------------------------------------------------------------------------


def changed(directory, **words):
    path = directory / EXPERIMENT
    path.write_text(json.dumps(json.loads(path.read_text()) | words))


def same(directory):
    return json.loads((directory / EXPERIMENT).read_text())["same"]


def test_what_is_complete_is_not_resumed(tmp_path):
    perform(experiment(["fedavg"], tmp_path / "x"))
    with pytest.raises(SettingError, match="is complete: there is nothing to resume"):
        read_resumption(tmp_path / "x")


def test_what_has_changed_is_named_and_can_be_accepted(tmp_path, monkeypatch):
    directory = cut_off(monkeypatch, ["fedavg"], tmp_path, 2, 2)
    assert {"device", "threads", "version of torch", "data of digits"} <= same(directory).keys()
    changed(directory, same=same(directory) | {"version of torch": "1.0", "data of digits": "0" * 64})
    before = sorted(path.name for path in directory.rglob("*"))
    with pytest.raises(SettingError, match=r"(?s)version of torch: was 1\.0, is .*data of digits: was 0000"):
        resume(read_resumption(directory, accept=["threads"]))
    assert sorted(path.name for path in directory.rglob("*")) == before
    assert resume(read_resumption(directory, accept=["torch", "digits"])).failures == []


def test_a_file_that_a_setting_names_must_be_what_it_was(tmp_path, monkeypatch):
    path = tmp_path / "fleet.csv"
    path.write_text("device,seconds\n" + "".join(f"d{k},{1 + k}\n" for k in range(8)))
    words = [word for word in WORDS if not word.startswith("fleet")] + [f"fleet.file={path}"]
    directory = cut_off(monkeypatch, ["fedavg"], tmp_path, 1, 1, words)
    path.write_text(path.read_text().replace("d3,4", "d3,5"))
    with pytest.raises(SettingError, match=r"file .*fleet\.csv: was "):
        resume(read_resumption(directory))


def test_other_settings_take_another_course(tmp_path, monkeypatch):
    directory = cut_off(monkeypatch, ["fedavg"], tmp_path, 3, 3)
    settings = json.loads((directory / EXPERIMENT).read_text())["settings"]
    settings[0]["fleet"]["times"] = "uniform:3,4"
    changed(directory, settings=settings)
    with pytest.raises(DataError, match="the schedule takes another course than before: at stop 1"):
        resume(read_resumption(directory))


def test_a_row_that_comes_out_otherwise_is_no_resumption(tmp_path, monkeypatch):
    directory = cut_off(monkeypatch, ["fedavg"], tmp_path, 1, 3)
    path = directory / "metrics.jsonl"
    path.write_text(path.read_text().replace('"round": 2', '"round": 22'))
    with pytest.raises(DataError, match=r"metrics\.jsonl, line 2, is not what comes out now"):
        resume(read_resumption(directory))


def test_a_damaged_checkpoint_is_passed_over(tmp_path, monkeypatch):
    directory = cut_off(monkeypatch, ["fedbuff"], tmp_path, 1, 1)
    with monkeypatch.context() as patched:
        cutting(patched, directory, tmp_path / "later", 2, 2)
        with pytest.raises(Cut):
            resume(read_resumption(directory))
    _, second = sorted((tmp_path / "later" / "checkpoints").glob("stop-*"))
    data = bytearray(second.read_bytes())
    data[-3] ^= 1
    second.write_bytes(data)
    outcome = resume(read_resumption(tmp_path / "later"))
    assert any("its digest is another" in said for said in outcome.kept.said), outcome.kept.said
    perform(experiment(["fedbuff"], tmp_path / "whole"))
    assert kept_files(tmp_path / "later") == kept_files(tmp_path / "whole")


def test_half_a_line_at_the_end_is_cut_off(tmp_path, monkeypatch):
    directory = cut_off(monkeypatch, ["fedavg"], tmp_path, 1, 3)
    path = directory / "metrics.jsonl"
    path.write_text(path.read_text()[:-20])
    perform(experiment(["fedavg"], tmp_path / "whole"))
    resume(read_resumption(directory))
    assert kept_files(directory) == kept_files(tmp_path / "whole")


def full_disk(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_that_is_full_in_the_middle_of_a_schedule_is_not_the_end_of_a_run(tmp_path, monkeypatch):
    """Long runs write spans while their schedules go on: that there is no room for these is no failure of theirs."""
    monkeypatch.setattr("paceline.ledger.spans.CHUNK", 16)
    perform(experiment(["fedavg"], tmp_path / "whole"))
    written, too_much = Ledger._write, iter([full_disk])  # what is smaller has room

    def write(self, *words):
        next(too_much, written)(self, *words)

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "_write", write)
        with pytest.raises(OSError, match="No space left"):
            perform(experiment(["fedavg"], tmp_path / "out"))
    assert json.loads((tmp_path / "out" / EXPERIMENT).read_text())["status"] == "interrupted"
    assert resume(read_resumption(tmp_path / "out")).failures == []
    assert kept_files(tmp_path / "out") == kept_files(tmp_path / "whole")


def test_a_stop_that_gives_no_score_where_one_is_wanted_is_refused():
    promises = [Measure([], None, None), Reading([], len)]

    def stop(*results):
        return Stop(made=0, times=[], results=[*results], counts=[], failures=[])

    for fit in (stop(Score(0.5, 1.0, 10), 0.5), stop(None, 0.5)):
        require_fit([], promises, fit)
    with pytest.raises(DataError, match="is no score"):
        require_fit([], promises, stop(0.5, 0.5))


@pytest.mark.parametrize("damage", [None, b"", b'{"algorithm": "fed'])
def test_settings_that_are_missing_or_damaged_are_written_again(tmp_path, monkeypatch, damage):
    """They are in the manifest too; all else of the run that is there is still its own."""
    perform(experiment(["fedavg"], tmp_path / "whole"))
    directory = cut_off(monkeypatch, ["fedavg"], tmp_path, 2, 3)
    described = (directory / SETTINGS).read_bytes()
    (directory / SETTINGS).unlink() if damage is None else (directory / SETTINGS).write_bytes(damage)
    assert resume(read_resumption(directory)).failures == []
    assert kept_files(directory) == kept_files(tmp_path / "whole")
    assert (directory / SETTINGS).read_bytes() == described


@pytest.mark.parametrize("lost", [False, True])
def test_weights_of_a_run_that_had_ended_are_told_to_be_missing(tmp_path, monkeypatch, lost):
    words = [*WORDS, "fedavg.rounds=6", "ditto.rounds=1"]
    _, stops = uninterrupted(monkeypatch, ["fedavg", "ditto"], tmp_path / "whole", words)
    directory = cut_off(monkeypatch, ["fedavg", "ditto"], tmp_path, stops - 1, stops, words)
    if lost:
        (directory / "ditto-seed0" / "model.safetensors").unlink()
    told = resume(read_resumption(directory)).kept.said
    assert [line.partition(" ")[0] for line in told] == [str(directory / "ditto-seed0" / "model.safetensors")] * lost


def test_who_is_asked_to_end_during_a_replay_keeps_the_sums_of_the_checkpoint(tmp_path, monkeypatch):
    words = [*WORDS, "rounds=8"]
    _, stops = uninterrupted(monkeypatch, ["fedavg"], tmp_path / "whole", words)
    directory = cut_off(monkeypatch, ["fedavg"], tmp_path, stops - 2, stops - 1, words)
    before = json.loads((directory / "summary.json").read_text())
    with monkeypatch.context() as patched:
        patched.setattr(Stopping, "check", stopped)
        with pytest.raises(Stopped):
            resume(read_resumption(directory))
    after = json.loads((directory / "summary.json").read_text())
    assert before["rounds"] > 1 and after == before | {"status": "interrupted", "error": "stopped by SIGINT"}
    resume(read_resumption(directory))
    assert kept_files(directory) == kept_files(tmp_path / "whole")


def stopped(_):
    raise Stopped
