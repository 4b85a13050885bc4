"""FedDF: students of several architectures, each averaged among its own and taught by all."""

import numpy as np
import pytest

from paceline.errors import SettingError
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.settings import make_settings

KINDS = "logistic+mlp:16+mlp:8,8"
WORDS = ["clients=12", "public=0.1", "feddf.participants=9", "rounds=4", "partition=iid", "local.epochs=2"]
WORDS += [f"model={KINDS}", "feddf.distillation.steps=40", "executor.dtype=float64"]


def done(*more, dry=False):
    run = make_run(make_settings("feddf", [*WORDS, *more]), dry=dry)
    drive([run], make_executor(run.settings.executor))
    assert run.failure is None, run.failure
    return run


def test_all_three_architectures_learn():
    last = done().rows[-1]
    for name in ("accuracy", "accuracy_2_mlp:16", "accuracy_3_mlp:8,8"):
        assert last[name] > 0.2


def test_students_learn_from_devices_of_other_kinds():
    """Eight devices of each kind, two classes each: taught by all 24, the students know more than each kind alone."""
    words = ["clients=24", "feddf.participants=24", "partition=pathological:2", "rounds=6", "local.lr=0.3"]
    taught = done(*words, "feddf.distillation.lr=0.01").rows[-1]
    alone = done(*words, "feddf.teach=false").rows[-1]
    mean = [
        np.mean([row[k] for k in ("accuracy", "accuracy_2_mlp:16", "accuracy_3_mlp:8,8")]) for row in (taught, alone)
    ]
    assert mean[0] > mean[1]


def test_cohorts_change_nothing():
    want = done("executor.name=reference").rows
    got = done("executor.cohort=5").rows
    assert [row["loss_2_mlp:16"] for row in got] == pytest.approx([row["loss_2_mlp:16"] for row in want], rel=1e-6)


def test_bytes_and_work_know_the_architecture():
    run = done(dry=True)
    sizes = {k: run.problem.spaces[k].nbytes for k in range(3)}
    rows = run.world.ledger.table().to_pylist()
    for row in rows:
        if row["kind"] == "send" and row["site"] >= 0:
            assert row["bytes"] == sizes[row["site"] % 3]
    assert sum(row["kind"] == "work" for row in rows) == 4 * 3
    assert all(row["flops"] > 0 for row in rows if row["kind"] == "work")


def test_one_architecture_is_plain_distillation():
    last = done("model=mlp:16").rows[-1]
    assert last["accuracy"] > 0.3
    assert not any(key.startswith("accuracy_") for key in last)


def test_algorithms_that_average_refuse_several_architectures():
    with pytest.raises(SettingError, match="use feddf, or give one model"):
        make_run(make_settings("fedavg", ["model=logistic+mlp:16"]))


def test_without_public_data_it_says_what_to_give():
    with pytest.raises(SettingError, match=r"public=0\.05"):
        make_run(make_settings("feddf", [*WORDS, "public=0.0"]))
    with pytest.raises(SettingError, match=r"public=0\.05"):
        make_run(make_settings("spfl", ["spfl.aggregation.rule=screen"]), dry=True)
