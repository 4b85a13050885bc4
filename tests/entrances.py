"""Every way by which settings come in, and what they bring: code that tells of its import, a file to be read."""

import contextlib
import io
import json
import os
import shutil
import sys
from itertools import count
from pathlib import Path
from urllib.parse import urlencode

import paceline
from paceline import FedBuff
from paceline.cli.main import main
from paceline.federation.config import NodeConfig
from paceline.federation.resident import Resident
from paceline.federation.terms import FORMAT, problem_of, terms_of
from paceline.plans.fleet_check import simulated_rounds
from paceline.runs.replay import replay
from paceline.ui.guarding import Gate
from paceline.ui.planning import Planner
from paceline.worlds.local.frames import Frame
from tests.ui.conftest import serve

EVIL = """
from pathlib import Path
import paceline
from torch import nn

Path({marker!r}).touch()

def net(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))

def data():
    return paceline.data.load("digits")
"""
BASE = {"clients": 3, "rounds": 1, "partition": "iid"}
SECRET = "a,label\nsecret,of somebody else\n"
_NUMBERS = count()
_OPENED: list[str] = []


def _note(event, arguments):
    if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
        name = os.fsdecode(arguments[0])
        if "decoy" in name:
            _OPENED.append(name)


sys.addaudithook(_note)


def toml(value):
    """A value as TOML has it; the same texts are words of a command and of a form."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(one)}" for key, one in value.items()) + "}"
    return json.dumps(value)


class Place:
    """A folder with a module that nobody should import, a file that is nobody's business, and a run's directory."""

    def __init__(self, folder):
        self.folder, self.name = folder, f"evil{next(_NUMBERS)}"
        self.marker, self.decoy = folder / "imported", folder / "decoy.csv"
        (folder / f"{self.name}.py").write_text(EVIL.format(marker=str(self.marker)))
        self.decoy.write_text(SECRET)
        self.root = folder / "runs"
        self.kept = folder / "kept"
        paceline.run("fedavg", out=self.kept, **BASE)
        self.opened = _OPENED
        self.opened.clear()
        self._numbers = count()

    def fresh(self):
        return self.folder / f"out{next(self._numbers)}"

    def run(self, tree, status="done"):
        """The directory of a run whose settings are these instead."""
        shutil.rmtree(self.root, ignore_errors=True)
        run = shutil.copytree(self.kept, self.root / "one")
        kept = json.loads((run / "settings.json").read_text()) | tree
        (run / "settings.json").write_text(json.dumps(kept))
        manifest = json.loads((run / "paceline.json").read_text())
        manifest |= {"settings": [kept], "status": status, "same": {}}
        (run / "paceline.json").write_text(json.dumps(manifest))
        return run


def told(*words):
    """What a command says on standard error."""
    said = io.StringIO()
    silent = (contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said))
    with silent[0], silent[1], contextlib.suppress(SystemExit):
        main([*map(str, words)])
    return said.getvalue()


def _dry(place, *words, trust=False):
    return told(*words, *["--trust"] * trust, "--dry-run", "--quiet", "--out", place.fresh(), "--no-spans")


def by_words(place, tree, trust):
    tree = BASE | tree
    sets = [word for key, value in tree.items() if key != "algorithm" for word in ("--set", f"{key}={toml(value)}")]
    return _dry(place, "run", tree.get("algorithm", "fedavg"), *sets, trust=trust)


def by_python(place, tree, trust):
    words = BASE | tree
    paceline.run(words.pop("algorithm", "fedavg"), dry=True, **words)


def _settings_file(place, tree):
    lines = [f"{json.dumps(key)} = {toml(value)}\n" for key, value in (BASE | tree).items()]
    (place.folder / "settings.toml").write_text("".join(lines), encoding="utf-8", errors="replace")
    return place.folder / "settings.toml"


def by_file(place, tree, trust):
    return _dry(place, "run", "fedavg", "--config", _settings_file(place, tree), trust=trust)


def by_directory(place, tree, trust):
    return _dry(place, "run", "fedavg", "--config", place.run(tree), "--set", "seed=1", trust=trust)


def by_showing(place, tree, trust):
    return told("settings", "fedavg", "--config", _settings_file(place, tree))


def by_resume(place, tree, trust):
    return told("resume", place.run(tree, "interrupted"), "--quiet", *["--trust"] * trust)


def by_resume_with_objects(place, tree, trust):
    paceline.resume(place.run(tree, "interrupted"), algorithms=[FedBuff], trust=trust)


def by_replay(place, tree, trust):
    replay(place.run(tree), trust=trust)


def by_fleet_of_a_run(place, tree, trust):
    (place.folder / "fleet.csv").write_text("device,seconds\na,1\nb,2\nc,3\n")
    simulated_rounds(place.run(tree), place.folder / "fleet.csv", 1, trust=trust)


def by_load(place, tree, trust):
    paceline.load(place.run(tree), trust=trust).model("fedavg")


def by_reading(place, tree, trust):
    run = place.run(tree)
    return told("report", run, "--out", place.fresh()) + told("trace", run, "--out", place.fresh())


class Pretends(Planner):
    """A planner that starts no process."""

    async def _made(self, asked):
        return ""


def by_pages(place, tree, trust):
    place.run(tree)
    with serve(place.root) as client:
        for path in ("/", "/news?run=one&from=0", "/live?run=one", "/compare?run=one"):
            assert client.get(path).status_code < 500


def by_form(place, tree, trust):
    with serve(place.root, planner=Pretends(), gate=Gate("127.0.0.1", "secret")) as client:
        lines = "\n".join(f"{key}={toml(value)}" for key, value in tree.items())
        fields = {key: value if isinstance(value, str) else toml(value) for key, value in tree.items()}
        for form in ({"more": lines}, fields):
            said = urlencode({"secret": "secret", "algorithm": "fedavg"} | form, errors="surrogatepass")
            answer = client.post("/plan", content=said)
            assert answer.status_code in (200, 422)


def by_fleet_file(place, tree, trust):
    file = place.folder / "fleet.toml"
    words = {"seconds": 1.0} | {{"model": "availability", "dataset": "device"}.get(k, k): v for k, v in tree.items()}
    file.write_text("[[device]]\n" + "".join(f"{json.dumps(key)} = {toml(value)}\n" for key, value in words.items()))
    return _dry(place, "run", "fedavg", "--set", f"fleet.file={file}", "--set", "partition=iid")


def by_task(place, tree, trust):
    terms = terms_of(json.loads((place.kept / "settings.json").read_text())) | tree
    config = NodeConfig(state=str(place.fresh()), insecure=True, trust=trust)
    frame = Frame({"format": FORMAT, "do": "hello", "run": "a", "terms": terms})
    return str(Resident(config, problem_of).answer(frame).words.get("error", ""))


ENTRANCES = {
    "words of a command": by_words,
    "arguments in Python": by_python,
    "`--config` with a settings file": by_file,
    "`--config` with a run's directory": by_directory,
    "`settings --config`": by_showing,
    "`resume`": by_resume,
    "`resume` with objects handed over": by_resume_with_objects,
    "`replay`": by_replay,
    "`plan fleet` with a run's directory": by_fleet_of_a_run,
    "`load(…).model(…)`": by_load,
    "`report`, `figure`, `trace`": by_reading,
    "`ui`: pages of runs": by_pages,
    "`ui`: the form of plans": by_form,
    "a fleet file": by_fleet_file,
    "a federation's task, at a node": by_task,
}


def table():
    """What SECURITY.md says of each: whether code is imported, and whether files are read."""
    lines = (Path(__file__).parents[1] / "SECURITY.md").read_text(encoding="utf-8").splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("| entrance |")) + 2
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[begin:] if line.startswith("|")]
    return {name: (code, files) for name, code, files in rows[: len(ENTRANCES) + 1] if name}
