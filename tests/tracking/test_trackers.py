"""What the real trackers have after a run, read back with their own packages."""

import json
import socket

import pytest

import paceline

pytestmark = [
    pytest.mark.trackers,
    # Of these packages, not of ours.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"),
]
SMALL = {"clients": 6, "rounds": 4, "partition": "iid"}


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Whoever would speak to another machine fails; W&B speaks to its own process on this one."""
    connect = socket.socket.connect

    def refuse(self, address):
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"a connection to {address}")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", refuse)


def stop_at_three(name, seed, row):
    if row["round"] == 3:
        raise KeyboardInterrupt


def run_in_two_parts(out, tracker):
    with pytest.raises(KeyboardInterrupt):
        paceline.run("fedavg", **SMALL, out=out, track=tracker, callbacks=[stop_at_three])
    paceline.resume(out)


def metrics(directory):
    return [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]


def accumulated(directory):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(directory / "tensorboard"), size_guidance={"scalars": 0}).Reload()


@pytest.mark.parametrize("in_parts", [False, True])
def test_tensorboard(tmp_path, in_parts):
    out = tmp_path / "run"
    if in_parts:
        run_in_two_parts(out, "tensorboard")
    else:
        paceline.run("fedavg", **SMALL, out=out, track="tensorboard")
    found = accumulated(out)
    for name in ("accuracy", "loss", "bytes", "idle_share"):
        told = [(event.step, event.wall_time, event.value) for event in found.Scalars(name)]
        wanted = [(row["round"], row["time"], pytest.approx(row[name], rel=1e-6)) for row in metrics(out)]
        assert told == wanted
    (summary,) = found.Scalars("summary/visits")
    assert summary.value == 24
    assert "_hparams_/session_start_info" in found.summary_metadata


def test_tensorboard_after_half_an_event(tmp_path):
    """Whoever is killed leaves half of what it was writing; that row comes again, whole."""
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        paceline.run("fedavg", **SMALL, out=out, track="tensorboard", callbacks=[stop_at_three])
    (file,) = (out / "tensorboard").iterdir()
    file.write_bytes(file.read_bytes()[:-5])
    paceline.resume(out)
    assert [event.step for event in accumulated(out).Scalars("accuracy")] == [1, 2, 3, 4]


@pytest.mark.parametrize("in_parts", [False, True])
def test_mlflow(tmp_path, in_parts):
    from mlflow.tracking import MlflowClient

    out = tmp_path / "run"
    if in_parts:
        run_in_two_parts(out, "mlflow")
    else:
        paceline.run("fedavg", **SMALL, out=out, track="mlflow")
    client = MlflowClient(tracking_uri=f"sqlite:///{out / 'mlflow.db'}")
    (experiment,) = [one for one in client.search_experiments() if one.name != "Default"]
    (run,) = client.search_runs([experiment.experiment_id])
    for name in ("accuracy", "loss", "bytes", "time"):
        history = sorted(client.get_metric_history(run.info.run_id, name), key=lambda one: one.step)
        told = [(one.step, one.timestamp, one.value) for one in history]
        assert told == [(row["round"], round(1000 * row["time"]), row[name]) for row in metrics(out)]
    assert run.data.params["clients"] == "6"
    assert run.data.params["fleet.times"] == "discrete"
    assert (run.info.status, run.data.metrics["summary/visits"]) == ("FINISHED", 24)


@pytest.mark.parametrize("in_parts", [False, True])
def test_wandb(tmp_path, in_parts):
    from paceline.tracking.wandb_book import records

    out = tmp_path / "run"
    if in_parts:
        run_in_two_parts(out, "wandb")
    else:
        paceline.run("fedavg", **SMALL, out=out, track="wandb")
    files = sorted(out.glob("wandb/offline-run-*/*.wandb"))
    assert len({file.name for file in files}) == 1, "one run, in as many parts as there were"
    assert len(files) == 1 + in_parts
    found = [record for file in files for record in records(file)]
    rows = [
        {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        for record in found
        if record.WhichOneof("record_type") == "history"
    ]
    assert [row["_step"] for row in rows] == [0, 1, 2, 3]
    assert [(row["time"], row["accuracy"]) for row in rows] == [
        (row["time"], row["accuracy"]) for row in metrics(out)
    ]
    begun = next(record.run for record in found if record.WhichOneof("record_type") == "run")
    config = {item.key or ".".join(item.nested_key): item.value_json for item in begun.config.update}
    assert json.loads(config["clients"]) == "6"
    summaries = [record.summary for record in found if record.WhichOneof("record_type") == "summary"]
    last = {item.key or ".".join(item.nested_key): item.value_json for one in summaries for item in one.update}
    assert (json.loads(last["status"]), json.loads(last["visits"])) == ("done", 24)


def test_all_at_once_for_two_runs(tmp_path):
    out = tmp_path / "both"
    paceline.compare(["fedavg", "fedbuff"], **SMALL, dry=True, out=out, track=["tensorboard", "mlflow", "wandb"])
    assert len(list(out.glob("*/tensorboard/*"))) == len(list(out.glob("wandb/offline-run-*"))) == 2
    assert (out / "mlflow.db").exists()
    assert not [path for path in out.rglob("*") if path.is_symlink()], "a directory with links in it is not resumed"
    assert len(paceline.load(out).runs) == 2, "what trackers write is not taken for runs"
