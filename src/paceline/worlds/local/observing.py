"""Values of what devices hold, for whoever observes a run: outside its time, and no traffic of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from paceline.errors import DISK, PacelineError, SiteError, WireError
from paceline.learn.graph import Model
from paceline.learn.placeholders import PLACEHOLDER
from paceline.worlds.local.frames import Frame
from paceline.worlds.local.holdings import Holdings, Results, Sent
from paceline.worlds.local.hosts import Hosts
from paceline.worlds.local.together import together
from paceline.worlds.local.writing import DENSE

PATIENCE, AGAIN = 60.0, 0.2
"""Seconds for which somebody who observes waits for a device, and after which it asks again."""


class Question(NamedTuple):
    """What one device is asked for."""

    part: Model
    results: Results
    words: dict[str, Any]
    blobs: Sequence[bytes]


class Observer:
    """Asks devices for values, several at once where that makes no difference."""

    def __init__(self, holdings: Holdings, hosts: Hosts, gone: Callable[[int], bool], *, near: bool = True) -> None:
        self.patience = PATIENCE
        """Seconds for which a device that does not answer is waited for."""
        self._holdings = holdings
        self._hosts = hosts
        self._gone = gone
        """Whether a device has been away for longer than anybody waits."""
        self._near = near
        """Whether devices are with processes of this machine: then their disk is ours."""
        self._brought = count()

    def bring(self, models: Sequence[Model]) -> None:
        """Have the values of these models, as far as devices must be asked."""
        if self._go_apart(models):
            questions = [self._question(model) for model in models]
            replies = together([partial(self._try, question) for question in questions])
            self._settle_all(zip(questions, replies, strict=True))
        else:
            parts = (part for model in models for part in self._holdings.parts(model))
            self._settle_all((question, self._try(question)) for question in map(self._question, parts))

    def _try(self, question: Question) -> Frame | SiteError:
        """What a device answers, or that it does not."""
        try:
            return self.ask(question.words, question.blobs)
        except SiteError as problem:
            return problem

    def _settle_all(self, asked: Iterable[tuple[Question, Frame | SiteError]]) -> None:
        """Whoever does not answer keeps none of the others' values from coming."""
        missing: PacelineError | None = None
        for question, reply in asked:
            try:
                if isinstance(reply, SiteError):
                    raise reply
                self._settle(question, reply)
            except (SiteError, WireError) as problem:
                missing = missing or problem
        if missing is not None:
            raise missing

    def pass_over(self, models: Sequence[Model]) -> None:
        """What ``bring`` does, and what is then computed, but without values: they were seen before."""
        for model in models:
            for part in self._holdings.parts(model):
                self._results(part).keep()
                part.settle(PLACEHOLDER)
            _pretend(model)

    def look_again(self, models: Sequence[Model]) -> None:
        """Have the values after all."""
        self.admit(models)
        self.bring(models)

    def admit(self, models: Sequence[Model]) -> None:
        """Have pretended values no longer."""
        for model in models:
            _admit(model)

    def _go_apart(self, models: Sequence[Model]) -> bool:
        """Whether each is held as it is by another device: then it does not matter who is asked first."""
        homes = [self._holdings.home(model) for model in models if model.value is None]
        clients = {home[0] for home in homes if home is not None}
        return len(models) == len(homes) == len(clients) > 1

    def _results(self, part: Model) -> Results:
        return Results(self._holdings, self._holdings.client(part), [part], f"seen.{next(self._brought)}")

    def _question(self, part: Model) -> Question:
        client, results = self._holdings.client(part), self._results(part)
        sent = Sent(self._holdings, client)
        words = {"do": "bring", "wanted": sent.add(part), "nodes": sent.nodes, "results": results.words(sent)}
        return Question(part, results, {**words, "client": client}, sent.blobs)

    def _settle(self, question: Question, reply: Frame) -> None:
        if len(reply.blobs) != 1:
            raise WireError(f"client {question.words['client']} brought {len(reply.blobs)} models; wanted one")
        value = DENSE.decode(question.part.space, reply.blobs[0])
        question.results.keep()
        question.part.settle(value)

    def ask(self, words: dict[str, Any], blobs: Sequence[bytes]) -> Frame:
        """Ask a device and wait; one that is lost is asked again when it is back."""
        client, until = words["client"], time.monotonic() + self.patience
        while time.monotonic() < until and not self._gone(client):
            if (reply := self._hosts.of(client).ask_now(words, blobs)) is not None:
                if "error" in reply.words:
                    said = f"client {client} could not {words['do']}: {reply.words['error']}"
                    raise unable(reply, said) if self._near else SiteError(said)
                return reply
            time.sleep(AGAIN)
        raise SiteError(f"client {client} holds a model that is to be observed, and does not answer")


def unable(reply: Frame, said: str) -> OSError | SiteError:
    """Why a process of ours could not do something: what was for want of room can be done when there is some."""
    number = reply.words.get("errno")
    return OSError(number, said) if number in DISK else SiteError(said)


def _pretend(model: Model) -> bool:
    """Whether a model is made of what was passed over; then so is its value. What servers made can be made again."""
    if model.value is not None:
        return model.value is PLACEHOLDER
    pretended = [_pretend(parent) for parent in model.parents]  # of all of them, not up to the first
    if any(pretended):
        model.value = PLACEHOLDER
    return any(pretended)


def _admit(model: Model) -> None:
    """Take the values away that a model and its parents only pretend to have."""
    if model.value is PLACEHOLDER:
        model.value = None
        for parent in model.parents:
            _admit(parent)
