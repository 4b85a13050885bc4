"""A few examples of what ``python -m tests.fuzz.wire SECONDS`` tries for minutes."""

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.learn.cohort.trainer import CohortTrainer

pytest.importorskip("flwr")


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory):
    from tests.federation.memory import MemoryGrid  # noqa: F401, which prepares Flower
    from tests.fuzz.wire import Fuzzer

    train, probe = CohortTrainer.train, CohortTrainer.probe
    try:
        yield Fuzzer(tmp_path_factory.mktemp("wire"))
    finally:
        CohortTrainer.train, CohortTrainer.probe = train, probe


@pytest.mark.parametrize("kind", ["ask", "answer"])
@settings(max_examples=10 * settings().max_examples, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1 << 30))
def test_what_travels_is_answered_or_refused_in_words(kind, fuzzer, seed):
    getattr(fuzzer, kind)(Random(seed))
