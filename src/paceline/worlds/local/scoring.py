"""Personal scores, told by the devices themselves: each scores its own model on test rows of its own.

So whoever observes a run needs neither these rows nor, for a score, the model. That is outside the run's time, and no
traffic of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from torch import Tensor

from paceline.bounds import is_number
from paceline.errors import SiteError, WireError
from paceline.learn.graph import Model
from paceline.learn.job import Score, mean_score
from paceline.reading import shown
from paceline.worlds.local.frames import Frame
from paceline.worlds.local.holdings import Holdings, Results, Sent
from paceline.worlds.local.observing import Observer
from paceline.worlds.local.together import together
from paceline.worlds.local.writing import DENSE


class Question(NamedTuple):
    """What a device is to score."""

    model: Model
    results: Results | None
    words: dict[str, Any]
    blobs: Sequence[bytes]


class Scorer:
    """Asks devices how good their models are."""

    def __init__(self, holdings: Holdings, observer: Observer, value: Callable[[Model], Tensor]) -> None:
        self._holdings = holdings
        self._observer = observer
        self._value = value
        """Has the value of what a server holds."""
        self._scored = count()

    def can(self, models: Sequence[Model]) -> bool:
        """Whether every client, in order, has what it is to score, or a server has it."""
        return all(self._holdings.clients(model) <= {client} for client, model in enumerate(models))

    def ask(self, models: Sequence[Model], lost: Callable[[int, str], None]) -> Score:
        """The mean over clients; one that does not answer for long is left out, and ``lost`` is told why."""
        questions = [self._question(client, model) for client, model in enumerate(models)]
        answers = together([partial(self._answer, question) for question in questions])
        scores = []
        for client, (question, answer) in enumerate(zip(questions, answers, strict=True)):
            if isinstance(answer, Score):
                _keep(question.model, question.results)
                scores.append(answer)
            else:
                lost(client, answer)
        if not scores:
            raise SiteError(f"no client has said how good its model is; client 0: {answers[0]}")
        return mean_score(scores)

    def pass_over(self, models: Sequence[Model]) -> None:
        """What ``ask`` does besides, for clients that were asked before."""
        for client, model in enumerate(models):
            _keep(model, self._results(client, model))

    def _results(self, client: int, model: Model) -> Results | None:
        if not self._holdings.clients(model):
            return None
        return Results(self._holdings, client, [model], f"scored.{next(self._scored)}")

    def _question(self, client: int, model: Model) -> Question:
        sent, results = Sent(self._holdings, client), self._results(client, model)
        words: dict[str, Any] = {"do": "score", "client": client, "wanted": 0, "nodes": [{"blob": 0}], "results": []}
        if results is None:  # a server's
            return Question(model, None, words, [DENSE.encode(model.space, self._value(model))])
        words |= {"wanted": sent.add(model), "nodes": sent.nodes, "results": results.words(sent)}
        return Question(model, results, words, sent.blobs)

    def _answer(self, question: Question) -> Score | str:
        """A score, or why there is none."""
        try:
            return _score_of(self._observer.ask(question.words, question.blobs))
        except (SiteError, WireError) as problem:
            return str(problem)


def _keep(model: Model, results: Results | None) -> None:
    """The client has it under a name of its own now, so what it was made of may be forgotten."""
    if results is not None:
        results.keep()
        model.operation, model.parents = None, ()


def _score_of(frame: Frame) -> Score:
    """What a device says; ``WireError`` for what is no score."""
    accuracy, loss, samples = (frame.words.get(name) for name in ("accuracy", "loss", "samples"))
    counted = type(samples) is int and is_number(samples)
    if not is_number(accuracy) or not 0 <= accuracy <= 1 or not is_number(loss) or not counted:
        raise WireError(f"its score is {shown((accuracy, loss, samples))}, but must be a share, a loss and a number")
    return Score(float(accuracy), float(loss), samples)  # type: ignore[arg-type]
