"""How a ragged cohort's steps are cut into traced pieces."""

from hypothesis import given
from hypothesis import strategies as st

from paceline.learn.cohort.captured import ROUNDED, rounded
from paceline.learn.cohort.scripted import UNROLLED, pieces


@given(st.lists(st.integers(1, 60), min_size=1, max_size=90))
def test_pieces_cover_every_step_of_every_client_once(steps):
    steps = sorted(steps, reverse=True)
    at = 0
    for first, count, size in pieces(steps):
        assert first == at
        assert count in UNROLLED
        assert size == len(steps) or size in ROUNDED
        for step in range(first, first + count):
            active = sum(s > step for s in steps)
            assert active <= size, "a client with steps left was dropped"
        at += count
    assert at == steps[0]


@given(st.integers(1, 90), st.integers(1, 60))
def test_equal_clients_stay_together(clients, steps):
    assert {size for _, _, size in pieces([steps] * clients)} == {clients}


def test_rounded_never_shrinks():
    assert all(rounded(n) >= n for n in range(1, 700))
