"""A device that runs out of memory: smaller cohorts, from where it was, the same results, told once."""

import pytest
import torch
from tests.contract.test_trainers import make_jobs, make_shards
from torch import nn

from paceline.errors import ModelError
from paceline.learn import notices
from paceline.learn.cohort import trainer as module
from paceline.learn.cohort.shrinking import Shrinking
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.job import EvalJob
from paceline.learn.recipe import LocalSGD
from paceline.learn.space import Space

SHAPE, CLASSES = (6,), 3
SIZES = (9, 8, 7, 6, 5, 4, 3, 2, 9, 8, 7, 6)


@pytest.fixture
def told(monkeypatch, recwarn):
    """What was told, in a process that has told nothing yet."""
    monkeypatch.setattr(notices, "_told", set())
    return lambda: [str(one.message) for one in recwarn if issubclass(one.category, notices.SlowerWay)]


class Small(CohortTrainer):
    """A device with room for so many clients in training."""

    def __init__(self, fits, **settings):
        super().__init__("cpu", **settings)
        self.fits, self.tried = fits, []

    def _train_cohort(self, program, jobs, drawn, stream):
        self.tried.append(len(jobs))
        if len(jobs) > self.fits:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return super()._train_cohort(program, jobs, drawn, stream)

    def _probe_cohort(self, program, jobs, drawn):
        if len(jobs) > self.fits:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return super()._probe_cohort(program, jobs, drawn)


def space():
    return Space("mine", lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), SHAPE)


def jobs_of(mine):
    return make_jobs(mine, make_shards(SHAPE, CLASSES, torch.float32, sizes=SIZES), LocalSGD(batch=4, lr=0.1))


@pytest.mark.parametrize("fits", [1, 2, 3, 7, 12])
def test_the_cohort_is_halved_until_it_fits_and_stays_so(fits, told):
    mine = space()
    jobs = jobs_of(mine)
    whole, small = CohortTrainer("cpu", 12, 1), Small(fits, cohort=12, threads=1)
    for _ in range(2):
        for one, other in zip(whole.train(jobs), small.train(jobs), strict=True):
            assert torch.equal(one.value, other.value) and torch.equal(one.loss, other.loss)
    size = {1: 1, 2: 1, 3: 3, 7: 6, 12: 12}[fits]
    halvings = {1: 3, 3: 2, 6: 1, 12: 0}[size]
    assert small.tried[-(12 // size) :] == [size] * (12 // size)  # the second time at once
    assert len(told()) == halvings
    assert (
        halvings == 0 or told()[0] == "training of 'mine' ran out of device memory: at most 6 go together from now on"
    )


def test_what_was_done_is_not_done_again():
    done = []
    shrinking = Shrinking(lambda: done.append("let go"))

    def compute(parts, tell):
        for part in parts:
            if part.start >= 4 and part.stop - part.start > 1:
                raise torch.OutOfMemoryError
            done.append(part.start)
            tell(part, [*range(part.start, part.stop)])

    found = shrinking.run("kind", "work", [slice(0, 2), slice(2, 4), slice(4, 6), slice(6, 7)], compute)
    assert found == [0, 1, 2, 3, 4, 5, 6]
    assert done == [0, 2, "let go", "let go", 4, 5, 6]


def test_what_can_be_made_again_is_let_go_first():
    """Captured graphs, say: it may have been these."""
    room = [0]

    def compute(parts, tell):
        if not room[0]:
            raise torch.OutOfMemoryError
        for part in parts:
            tell(part, ["done"] * (part.stop - part.start))

    shrinking = Shrinking(lambda: room.__setitem__(0, 1))
    assert shrinking.run("kind", "work", [slice(0, 8)], compute) == ["done"] * 8
    assert shrinking._most == {}


def test_one_client_that_does_not_fit_is_an_error_that_says_what_to_do():
    with pytest.raises(ModelError, match=r"training of 'mine' does not fit .* lower local\.batch"):
        Small(0, cohort=12, threads=1).train(jobs_of(space()))


def test_clients_side_by_side_go_one_by_one_before_that(monkeypatch):
    tries = []

    class Beside(CohortTrainer):
        def _each(self, function, items, *, side_by_side):
            tries.append(side_by_side)
            self._streams = object()
            if side_by_side:
                raise torch.OutOfMemoryError
            return super()._each(function, items, side_by_side=False)

    mine = space()
    assert len(Beside("cpu", 1, 1).train(jobs_of(mine))) == 12
    assert tries == [True, True, False]


def test_probes_shrink_too(told):
    jobs = jobs_of(space())
    for one, other in zip(
        CohortTrainer("cpu", 12, 1).probe(jobs), Small(5, cohort=12, threads=1).probe(jobs), strict=True
    ):
        assert torch.equal(one.value, other.value)
    assert "probing of 'mine'" in told()[0]


def test_scores_shrink_to_fewer_models_then_to_fewer_samples(monkeypatch, told):
    mine = space()
    x, y = torch.randn(3000, 6, generator=torch.Generator().manual_seed(1)), torch.arange(3000) % 3
    jobs = [EvalJob(mine, mine.initial(k), x, y) for k in range(5)]
    usual = CohortTrainer("cpu", threads=1).evaluate(jobs)
    score = module.score_jobs

    def little(program, some, device, rows, models, samples):
        if len(some) > 1 or samples > 1000:
            raise torch.OutOfMemoryError
        return score(program, some, device, rows, models, samples)

    monkeypatch.setattr(module, "score_jobs", little)
    trainer = CohortTrainer("cpu", threads=1)
    assert trainer.evaluate(jobs) == usual
    assert trainer._samples == 512
    assert "scoring of 'mine'" in told()[0]
