"""A worker: a process that hosts devices, owns their data, keeps a trainer warm, and computes what it is told.

It is started by the orchestrator with a socket, and told in words (``frames``): it never receives code, and what it
holds is written to its own directory, so that it is there again after a restart.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from paceline.errors import WireError
from paceline.learn.codecs import codec_from
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.executor import Executor
from paceline.learn.graph import Model
from paceline.learn.job import EvalJob, Probed, Shards, Trained, TrainJob
from paceline.learn.recipe import LocalSGD, one_step
from paceline.learn.space import Space
from paceline.worlds.local.expressions import Words, rebuilt
from paceline.worlds.local.frames import Frame, read, write
from paceline.worlds.local.writing import DENSE, Writer, is_lossy
from paceline.worlds.local.writing import read as read_model
from paceline.worlds.problem import Problem

HANDLE = re.compile(r"[\w.-]{1,200}", re.ASCII)
"""What a device may be told to call a model: no path leads out of its directory."""


class Device:
    """One client: its rows of the data, and the models that it holds."""

    def __init__(self, space: Space, shards: Shards, directory: Path, writer: Writer) -> None:
        self.space = space
        self.shards = shards
        self._directory = directory
        self._writer = writer
        self._held: dict[str, Model] = {}
        directory.mkdir(parents=True, exist_ok=True)

    def hold(self, handle: str, model: Model, written: bytes | None = None) -> None:
        """Keep a model by this name, on disk too; with the bytes it is sent as, if these cannot be made again."""
        assert model.value is not None
        self._held[handle] = model
        self._file(handle).write_bytes(DENSE.encode(self.space, model.value))
        if written is not None:
            self._writer.remember(model, written)
            self._file(handle, "sent").write_bytes(written)

    def get(self, handle: str) -> Model:
        """The model of this name; one from before a restart is read again."""
        if handle not in self._held:
            model = Model(self.space, DENSE.decode(self.space, self._file(handle).read_bytes()))
            if (sent := self._file(handle, "sent")).exists():
                self._writer.remember(model, sent.read_bytes())
            self._held[handle] = model
        return self._held[handle]

    def forget(self, handle: str) -> None:
        """Nobody will ask for it any more."""
        self._held.pop(handle, None)
        for kind in ("model", "sent"):
            self._file(handle, kind).unlink(missing_ok=True)

    def _file(self, handle: str, kind: str = "model") -> Path:
        if not HANDLE.fullmatch(handle):
            raise WireError(f"{handle!r} names no model; wanted letters, digits, dots and signs")
        return self._directory / f"{handle}.{kind}"


class Worker:
    """All devices of one process."""

    def __init__(self, problem: Problem, words: Words) -> None:
        self._trainer = CohortTrainer("cpu", 1, 1)
        self._executor = Executor(self._trainer)
        self._writer = Writer(self._executor)
        self._tests = _without_samples(problem)
        self._initial = [problem.initial_model(problem.seed, kind) for kind in range(len(problem.spaces))]
        self._acts: dict[str, Callable[[Device, Frame], tuple[Words, Sequence[bytes]]]] = {
            "receive": self._receive,
            "visit": self._visit,
            "send": self._send,
            "bring": self._bring,
            "score": self._score,
        }
        self._devices = {
            client: Device(
                problem.spaces[problem.kind(client)],
                _own(problem.shards(), client),
                Path(words["directory"]) / str(client),
                self._writer,
            )
            for client in words["clients"]
        }

    def answer(self, frame: Frame) -> Frame:
        """Do what a frame asks of a device, and answer."""
        device, forgot = self._devices[frame.words["client"]], self.forget(frame)
        begin = time.perf_counter()
        words, blobs = self._acts[frame.words["do"]](device, frame)
        return Frame({**words, "forgot": forgot, "seconds": time.perf_counter() - begin}, tuple(blobs))

    def forget(self, frame: Frame) -> bool:
        """Drop the models that a frame lists as no longer needed. Return whether it lists any."""
        for handle in (handles := frame.words.get("forget", ())):
            self._devices[frame.words["client"]].forget(handle)
        return bool(handles)

    # -- what can be asked ------------------------------------------------------------------------------------------

    def _receive(self, device: Device, frame: Frame) -> tuple[Words, Sequence[bytes]]:
        """Models that were sent here; one may be read with the one before it."""
        models = self._models(device, frame)
        before: Tensor | None = None
        for part, data in zip(frame.words["parts"], frame.blobs[: len(frame.words["parts"])], strict=True):
            codec = None if part["codec"] is None else codec_from(part["codec"])
            known = before if part["known"] is None else self._writer.value(models[part["known"]])
            needs = part["context"]
            value = read_model(device.space, data, codec, known if needs else None)
            device.hold(part["handle"], Model(device.space, value))
            before = value
        return {}, ()

    def _visit(self, device: Device, frame: Frame) -> tuple[Words, Sequence[bytes]]:
        """Local training or a probe, and perhaps a gradient at what is made of the result."""
        words, models = frame.words, self._models(device, frame)
        recipe = LocalSGD(**words["recipe"])
        extras = {name: self._writer.value(models[place]) for name, place in words["extras"].items()}
        start = self._writer.value(models[words["start"]])
        job = TrainJob(device.space, start, recipe, words["lr"], device.shards, 0, words["key"], **extras)
        found: Trained | Probed
        found = self._trainer.train([job])[0] if words["act"] == "train" else self._trainer.probe([job])[0]
        device.hold(words["result"], Model(device.space, found.value))
        figure = found.loss if isinstance(found, Trained) else found.variance
        if (then := words.get("then")) is not None:
            self._gradient(device, frame, then, recipe)
        return {"figure": float(figure), "finite": bool(torch.isfinite(found.value).all())}, ()

    def _gradient(self, device: Device, frame: Frame, then: Words, recipe: LocalSGD) -> None:
        point = self._models(device, Frame({**frame.words, "nodes": then["nodes"]}, frame.blobs))[then["at"]]
        step = one_step(recipe)
        value = self._writer.value(point)
        job = TrainJob(device.space, value, step, then["lr"], device.shards, 0, then["key"])
        moved = Model(device.space, self._trainer.train([job])[0].value)
        gradient = Model(device.space, value) - moved
        self._writer.value(gradient)
        device.hold(then["result"], gradient)

    def _send(self, device: Device, frame: Frame) -> tuple[Words, Sequence[bytes]]:
        """Models as bytes, each by its codec."""
        models = self._models(device, frame)
        blobs, lossy = [], {}
        for part in frame.words["parts"]:
            codec = None if part["codec"] is None else codec_from(part["codec"])
            context = None if part["context"] is None else models[part["context"]]
            blobs.append(self._writer.write(models[part["model"]], codec, context))
            if is_lossy(codec):
                lossy[part["model"]] = blobs[-1]
        self._hold_results(device, frame, models, lossy)
        return {}, blobs

    def _bring(self, device: Device, frame: Frame) -> tuple[Words, Sequence[bytes]]:
        """A value for whoever observes the run."""
        models = self._models(device, frame)
        model = models[frame.words["wanted"]]
        data = DENSE.encode(model.space, self._writer.value(model))
        self._hold_results(device, frame, models, {})
        return {}, [data]

    def _score(self, device: Device, frame: Frame) -> tuple[Words, Sequence[bytes]]:
        """How good a model is on this client's own test rows."""
        models, test = self._models(device, frame), self._tests.test
        model, rows = models[frame.words["wanted"]], self._tests.personal_rows[frame.words["client"]]
        assert test is not None
        (score,) = self._trainer.evaluate([EvalJob(model.space, self._writer.value(model), *test, rows)])
        self._hold_results(device, frame, models, {})
        return asdict(score), ()

    # -- models -----------------------------------------------------------------------------------------------------

    def _models(self, device: Device, frame: Frame) -> list[Model]:
        def leaf(words: Words) -> Model | None:
            if "held" in words:
                return device.get(words["held"])
            if "initial" in words:
                return self._initial[words["initial"]]
            if "blob" in words:
                return Model(device.space, DENSE.decode(device.space, frame.blobs[words["blob"]]))
            return None

        return rebuilt(frame.words.get("nodes", ()), leaf)

    def _hold_results(
        self, device: Device, frame: Frame, models: Sequence[Model], lossy: Mapping[int, bytes]
    ) -> None:
        """What was computed is kept under new names, and not computed again."""
        for place, handle in frame.words["results"]:
            self._writer.value(models[place])
            device.hold(handle, models[place], lossy.get(place))


def _own(shards: Shards, client: int) -> Shards:
    """Return one client's samples alone."""
    rows = torch.from_numpy(shards.rows(client))
    x, y = shards.x[rows], shards.y[rows]
    return Shards(x, y, np.arange(len(y)), np.array([0, len(y)]))


def _without_samples(problem: Problem) -> Problem:
    """What says which test rows are whose; others' training samples are not held for that."""
    return replace(problem, train_shards=replace(problem.shards(), x=problem.shards().x[:0]))


def answered(worker: Worker, frame: Frame) -> Frame:
    """What a worker answers, or why it cannot."""
    try:
        return worker.answer(frame)
    except Exception as problem:  # told to the orchestrator, which knows whose run it is
        return Frame({"error": f"{type(problem).__name__}: {problem}", "errno": getattr(problem, "errno", None)})


def serve(connection: socket.socket, prepare: Callable[[Words], Problem]) -> None:
    """Answer until the orchestrator hangs up; its first words say what the problem is."""
    hello = read(connection)
    if hello is None:
        return
    worker = Worker(prepare(hello.words), hello.words)
    write(connection, {"task": 0})
    while (frame := read(connection)) is not None:
        reply = answered(worker, frame)
        write(connection, {**reply.words, "task": frame.words["task"]}, reply.blobs)
