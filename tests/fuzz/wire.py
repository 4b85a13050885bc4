"""Fuzzing of what travels in a federation: what nodes do with a server's messages, and a server with nodes' answers.

``python -m tests.fuzz.wire SECONDS [SEED]`` has small federations talk in memory, changes what they say, and has
it answered: by nodes, by the server's part that reads answers, and by whole runs. It ends with 1, and the seed of
the example, at whatever nobody has explained: an error of Python, a text that is long or moves the terminal, a file
that is opened outside of a node's directory, or a word of one that is told.
"""

import json
import logging
import re
import resource
import signal
import sys
import tempfile
import time
from copy import deepcopy
from pathlib import Path
from random import Random
from types import SimpleNamespace

import torch

from paceline.clock import WallClock
from paceline.errors import PacelineError, WireError
from paceline.federation.config import Limits
from paceline.federation.courier import Courier, Letter
from paceline.federation.errands import Errand
from paceline.federation.folding import make_ask
from paceline.federation.members import Members
from paceline.federation.nodes import Nodes
from paceline.federation.records import WORDS, from_records, to_records
from paceline.federation.terms import problem_of
from paceline.learn.codecs import Masked, codec_from
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.job import Probed, Trained
from paceline.runs.driver import drive, make_executor
from paceline.runs.local import make_local_run
from paceline.runs.recorder import describe
from paceline.runs.replay import ALONE
from paceline.runs.settings import make_settings
from paceline.worlds.local.checks import Checks, figure_of
from paceline.worlds.local.frames import packed
from paceline.worlds.local.hosts import Scene
from paceline.worlds.local.scoring import _score_of
from paceline.worlds.local.writing import DENSE, read
from tests.federation.memory import MemoryGrid
from tests.fuzz.hostile import HARD

MOST = 1 << 20
"""Bytes of a message that is read."""
LONGEST, WHOLE = 120, 600
"""Seconds that one example may take: much more than any does on a busy machine."""
COMMON = ["clients=3", "partition=iid", "model=mlp:8", "rounds=2", "local.steps=2"]
RUNS = {
    "fedavg": [],
    "apfl": ["rounds=4", "every=2"],
    "da-dpfl": ["da-dpfl.pruning.threshold=1000", "da-dpfl.neighbours.degree=2"],
    "beer": ["beer.degree=2"],
    "fedbuff": ["fedbuff.buffer=2", "fedbuff.concurrency=3"],
    "p-fedavg": ["p-fedavg.topology=ring:3", "p-fedavg.participants=1"],
}
CANARY = "sunk-4711"
FORGED = "fine\x1b[2J\x1b]0;x\x07\r\n2026 [run] done\u202e\x9b"
NAMES = ["paceline.reading:read_text", "paceline.learn.graph:Model", "paceline.data.own:load_own", "os:remove"]
NAMES += ["paceline.algorithms.sparse:_times", "paceline.learn.sparsity:rigl", "evil.module:make", "evil.csv"]
NUMBERS = [-1, 0, 1, 2, 7, -(1 << 63), 1 << 64, 10**400, 0.5, -0.0, 1e-320, 1e308]
NUMBERS += [float("nan"), float("inf"), True, False]
LARGE = re.compile(r"\d{4}")
OPENED = []
sys.addaudithook(lambda name, words: OPENED.append(words[0]) if name == "open" else None)


class Mutator:
    """Changes messages: most of one stays as it was, so that it is read for a while."""

    def __init__(self, random, path):
        self.random = random
        paths = [path, f"{path}.csv", f"csv:{path}.csv", "../../up", "../canary"]
        self.leaves = [
            HARD,
            NAMES,
            NUMBERS,
            NUMBERS,
            paths,
            [FORGED, FORGED * 2000],
            [None, [], {}, [[]], {"held": 1}],
        ]

    def leaf(self):
        return deepcopy(self.random.choice(self.random.choice(self.leaves)))

    def tree(self, tree, parts=()):
        """The same with one to three changes; ``parts`` are what may be put in other places."""
        tree = json.loads(json.dumps(tree))
        for _ in range(self.random.choice((1, 1, 2, 3))):
            places = list(_places(tree))
            group, key = self.random.choice(places)
            other, name = self.random.choice(places)
            act = self.random.choice((0, 0, 1, 1, 2, 3, 4, 5))
            if act < 2:
                group[key] = self.leaf()
            elif act == 2:
                group[key] = json.loads(json.dumps(other[name] if not parts else self.random.choice(parts)))
            elif act == 3:
                del group[key]
            elif act == 4 and isinstance(group, list):
                group.insert(key, group[key])
            elif isinstance(group, dict):
                group[str(self.leaf())[:50]] = group[key]
            if not isinstance(tree, dict) or not tree:
                break
        return tree

    def blobs(self, blobs):
        blobs = list(blobs)
        for _ in range(self.random.choice((0, 0, 1, 1, 2)) if blobs else self.random.choice((0, 0, 0, 1))):
            place = self.random.randrange(len(blobs) + 1)
            data = bytearray(blobs[place - 1] if blobs else b"PACE" + bytes(12))
            act = self.random.randrange(6)
            where = self.random.randrange(min(len(data), 40) if act < 3 else len(data)) if data else 0
            if act < 2 and data:
                data[where] = self.random.randrange(256)
            elif act == 2:
                data[where : where + 4] = self.random.choice((b"\0\0\xc0\x7f", b"\xff\xff\xff\xff", b"", b"\0" * 9))
            elif act == 3:
                data = data[:where]
            elif act == 4:
                data *= self.random.choice((0, 2, 40))
            if act == 5 or not blobs:
                blobs.insert(place, bytes(data))
            else:
                blobs[place - 1] = bytes(data)
        return blobs

    def content(self, words, blobs):
        """As Flower has it."""
        try:
            content = to_records(words, blobs)
        except (ValueError, TypeError):  # half a character, say, in what is only sent on
            content = to_records({}, blobs)
        if self.random.random() < 0.02:
            text = content[WORDS]["json"]
            others = (text[:-1], "[" * 5000, "9" * 5000, f'{{"do": {"9" * 4000}}}', "3")
            content[WORDS]["json"] = self.random.choice(others)
        return content


def _places(tree):
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield tree, key
        if isinstance(value, dict | list):
            yield from _places(value)


def clean(text, most=700):
    assert len(text) <= most, f"a text of {len(text)} letters"
    assert all(letter.isprintable() for letter in text), f"{text[:300]!r} is shown"


class Slow(BaseException):
    """An example that takes too long: nobody takes this for an error of their own."""


def slow(*_):
    raise Slow


def quick(trainer, jobs):
    """Training is not what is looked at; a server may ask for much."""
    return [Trained(job.start, torch.tensor(0.5)) for job in jobs]


def probed(trainer, jobs):
    return [Probed(job.start, torch.tensor(0.5)) for job in jobs]


def modest(terms, data):
    """What is learned; a server may also ask for large networks."""
    if LARGE.search(terms.model) or terms.clients > 1000:
        raise WireError("so large a one is not tried")
    return problem_of(terms, data)


class Talk:
    """A federation that has run, and what was said in it."""

    def __init__(self, name, folder):
        self.grid, self.folder, self.said = MemoryGrid(folder, 3), folder, []
        self.settings = make_settings(name, [*COMMON, *RUNS[name]])

        def changed(number, frame, content):
            self.said.append((number - 100, frame, from_records(content, 1 << 40)))
            return content

        self.grid.changed = changed
        self.run = make_local_run(self.settings, workers=1, make_hosts=self.grid.hosts(), checks=Checks())
        drive([self.run], make_executor(ALONE))
        assert self.run.failure is None
        self.space = next(iter(self.grid.nodes[100].resident._worker._devices.values())).space
        for node in self.grid.nodes.values():
            node.resident._prepare = modest
        self.asks = [ask["words"] for _, frame, _ in self.said for ask in frame.words.get("asks", ())]
        self.kinds = {}
        for said in self.said:
            asks = said[1].words.get("asks")
            self.kinds.setdefault(asks[-1]["words"]["do"] if asks else "hello", []).append(said)
        scene = Scene(WallClock(), describe(self.settings), 3, folder / "server", lambda client, there: None)
        self.trips = []
        self.nodes = Nodes(
            self.grid, "run", Limits(bytes=MOST), scene, Members(folder / "seen.json"), on_trip=self.trips.append
        )
        self.courier = Courier(self.grid, MOST, lambda there: None, lambda why: None)

    def one(self, random):
        """A message and its answer; of every kind as many."""
        return random.choice(self.kinds[random.choice(list(self.kinds))])


class Fuzzer:
    """All of it, in one folder."""

    def __init__(self, folder):
        self.folder = folder
        self.canary = folder / "canary"
        for path in (self.canary, Path(f"{self.canary}.csv")):
            path.write_text(f"{CANARY} {CANARY}\n" * 30)
        self.talks = [Talk(name, folder / name) for name in RUNS]
        self.count = 0
        here = str(Path(__file__).parents[2])
        self.homes = (str(folder), sys.prefix, sys.base_prefix, here, "/proc/", "/sys/", "/dev/")
        CohortTrainer.train, CohortTrainer.probe = quick, probed
        self.log = Log()
        logging.getLogger("paceline").addHandler(self.log)

    # -- a server's messages, at a node ---------------------------------------------------------------------------

    def ask(self, random):
        """A node answers in words whatever it is asked, and opens nothing that is not its own."""
        mutator, talk = Mutator(random, str(self.canary)), random.choice(self.talks)
        client, frame, _ = talk.one(random)
        words = mutator.tree(frame.words, talk.asks if random.random() < 0.2 else ())
        if isinstance(words.get("asks"), list) and random.random() < 0.7:  # not what is answered from what is kept
            self.count += 1
            for place, ask in enumerate(words["asks"]):
                if isinstance(ask, dict) and random.random() < 0.9:
                    ask["id"] = f"new{self.count}-{place}"
        if words.get("do") == "hello" and words.get("run") == "run" and random.random() < 0.9:
            words["run"] = f"run{random.randrange(5)}"  # one that has not begun
        try:
            frame = from_records(mutator.content(words, mutator.blobs(frame.blobs)), MOST)
        except WireError as problem:
            clean(str(problem))
            return
        resident = talk.grid.nodes[100 + client].resident
        OPENED.clear()
        reply = resident.answer(frame)
        opened = [str(path) for path in OPENED]
        assert CANARY.encode() not in packed(reply), "a file's content is told"
        for path in opened:
            assert not path.startswith(str(self.canary)), f"{path} was opened"
            assert path.startswith(self.homes) or not Path(path).is_absolute(), f"{path} was opened"
        for words in (reply.words, *(answer["words"] for answer in reply.words.get("answers", ()))):
            if "error" in words:
                clean(words["error"])

    # -- nodes' answers, at a server --------------------------------------------------------------------------------

    def answer(self, random):
        """A server takes an answer for what was asked, or refuses it by name."""
        mutator, talk = Mutator(random, str(self.canary)), random.choice(self.talks)
        client, frame, reply = talk.one(random)
        told = talk.courier._read(self.message(mutator, reply))
        letter = Letter(100 + client, frame.words, frame.blobs, 1.0, lambda letter, reply: None)
        if frame.words["do"] == "hello":
            talk.nodes._look({100 + client: random.choice((b"one", b"two", b""))})
            talk.nodes._greeted(letter, told)
        else:
            self.tell(talk, client, frame, letter, told)
        for trip in talk.trips:
            clean(json.dumps(trip, ensure_ascii=False), 5000)
        talk.trips.clear()
        self.log.look()

    def message(self, mutator, reply):
        if mutator.random.random() < 0.05:
            error = SimpleNamespace(code=mutator.random.choice((0, 1, 5, 8, -2, 1 << 60)), reason=FORGED * 100)
            return SimpleNamespace(has_error=lambda: True, error=error)
        content = mutator.content(mutator.tree(reply.words), mutator.blobs(reply.blobs))
        return SimpleNamespace(has_error=lambda: False, content=content)

    def tell(self, talk, client, frame, letter, told):
        asked, answers = frame.words["asks"][-1], []
        ask = make_ask(asked["words"], frame.blobs[len(frame.blobs) - asked["blobs"] :])._replace(number=asked["id"])
        errand = Errand(client, ask, answers.append, time.monotonic(), tries=1)
        with talk.nodes._lock:
            talk.nodes._node[client] = letter.node
            talk.nodes._errands[client].append(errand)
        talk.nodes._replied(errand, letter, told)
        if not errand.done:  # it will be sent again
            talk.nodes._errands[client].remove(errand)
            return
        (found,) = answers
        for name in ("error", "why"):
            clean(str(found.words.get(name, "")))
        if "error" not in found.words and "lost" not in found.words:
            self.believe(talk, asked["words"], found)

    def believe(self, talk, words, found):
        """As those do who asked."""
        ones = torch.ones(talk.space.size)
        codecs = [part["codec"] and codec_from(part["codec"]) for part in words.get("parts", ())]
        readers = {
            "visit": lambda: figure_of(found.words),
            "score": lambda: _score_of(found),
            "bring": lambda: [DENSE.decode(talk.space, blob) for blob in found.blobs],
            "send": lambda: [
                read(talk.space, blob, codec, ones if isinstance(codec, Masked) else None)
                for codec, blob in zip(codecs, found.blobs, strict=False)
            ],
            "receive": lambda: None,
        }
        try:
            readers[words["do"]]()
        except WireError as problem:
            clean(str(problem))

    # -- whole runs -------------------------------------------------------------------------------------------------

    def run(self, random):
        """Nodes that answer anything drop out, and the run goes on to its end."""
        self.count += 1
        folder = self.folder / f"whole{self.count}"
        mutator, grid = Mutator(random, str(self.canary)), MemoryGrid(folder, 3)
        share, bad = random.choice((0.1, 0.5, 1.0)), 100 + random.randrange(3)

        def changed(number, frame, content):
            if number != bad or frame.words["do"] == "hello" or random.random() > share:
                return content
            reply = from_records(content, 1 << 40)
            return mutator.content(mutator.tree(reply.words), mutator.blobs(reply.blobs))

        grid.changed = changed
        name = random.choice(list(RUNS))
        run = make_local_run(
            make_settings(name, [*COMMON, *RUNS[name]]), workers=1, directory=folder / "run",
            make_hosts=grid.hosts(Limits(bytes=MOST)), checks=Checks(1e3), grace=1.0,
        )  # fmt: skip
        drive([run], make_executor(ALONE))
        grid.stop()
        if run.failure is not None:
            assert isinstance(run.failure, PacelineError), repr(run.failure)
            said = str(run.failure)
            assert not re.search(r"failed at|[a-z]Error: (?!Wire)", said), said
            clean(said, 2000)
        for event in run.world.chronicle.events:
            clean(event.text, 1000)
        self.log.look()


class Log(logging.Handler):
    """What is said meanwhile."""

    def __init__(self):
        super().__init__()
        self.said = []

    def emit(self, record):
        self.said.append(record.getMessage())

    def look(self):
        for line in self.said:
            clean(line, 1000)
        self.said.clear()


def main(seconds="60", seed=""):
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))  # whoever asks for more is refused it
    signal.signal(signal.SIGALRM, slow)
    torch.set_num_threads(1)
    logging.getLogger("paceline").propagate = False
    first = int(seed) if seed else time.time_ns() % 10**9
    tried, end = {"ask": 0, "answer": 0, "run": 0}, time.monotonic() + float(seconds)
    with tempfile.TemporaryDirectory() as place:
        fuzzer = Fuzzer(Path(place))
        number = first
        while time.monotonic() < end and not (seed and number > first):
            kind = "run" if number % 400 == 0 else ("ask", "answer")[number % 2]
            signal.alarm(WHOLE if kind == "run" else LONGEST)
            try:
                getattr(fuzzer, kind)(Random(number))
            except BaseException:
                print(f"found with seed {number}: python -m tests.fuzz.wire {seconds} {number}", flush=True)
                raise
            tried[kind] += 1
            number += 1
        signal.alarm(0)
    print(f"nothing found from seed {first}: {tried}")


if __name__ == "__main__":
    main(*sys.argv[1:])
