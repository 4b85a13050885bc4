"""Pipes in a run directory: whoever opens one waits for somebody who never writes, so nobody may."""

import os
import shutil
import threading
from contextlib import contextmanager, suppress

import pytest

import paceline
from paceline.cli.main import main
from paceline.errors import PacelineError
from tests.ui.conftest import serve

WORDS = {"clients": 3, "rounds": 2, "partition": "iid"}


@contextmanager
def trap(path):
    """A pipe that lets nobody wait, but tells who would have waited."""
    opened, ended = [], threading.Event()

    def write():
        while not ended.is_set():
            os.close(os.open(path, os.O_WRONLY))
            opened.append(path)

    path.unlink(missing_ok=True)
    os.mkfifo(path)
    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
        assert opened == []
    finally:
        ended.set()
        end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        thread.join()
        os.close(end)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("pipes") / "runs" / "one"
    paceline.run("fedavg", out=out, **WORDS)
    return out


def entrances(root, run):
    with serve(root) as client:
        for path in ("/", "/news?run=one&from=0", "/live?run=one", "/compare?run=one"):
            assert client.get(path).status_code < 500
    with suppress(SystemExit):
        main(["report", str(run), "--out", str(root.parent / "page.html")])
    with suppress(SystemExit):
        main(["trace", str(run), "--out", str(root.parent / "trace.gz")])
    with suppress(PacelineError):
        paceline.load(run).model("fedavg")
    with suppress(PacelineError):
        paceline.resume(run)


FILES = ("settings.json", "summary.json", "metrics.jsonl", "paceline.json", "model.safetensors", "running.lock",
         "command.txt", "spans/part-000000000000.parquet", "report.html", "trace.json.gz")  # fmt: skip


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("done", [True, False])
def test_a_pipe_is_never_waited_for(finished, tmp_path, name, done, capsys):
    run = shutil.copytree(finished, tmp_path / "runs" / "one")
    if not done:
        manifest = run / "paceline.json"
        manifest.write_text(manifest.read_text().replace('"done"', '"interrupted"'))
    with trap(run / name):
        entrances(tmp_path / "runs", run)
    assert "Traceback" not in capsys.readouterr().err
