"""The diary: a wait is booked for time in which its site did nothing else, at a cost that does not grow."""

import math

from hypothesis import given
from hypothesis import strategies as st

from paceline.worlds.diary import Diary
from tests.effort import calls


class Waits:
    """A ledger of waits."""

    def __init__(self):
        self.booked = []

    def wait(self, site, start, end, round, cause):
        self.booked.append((start, end))


def free(spans, begin, end):
    """The parts of a time that none of these spans covers, by looking at all of them."""
    found, at = [], begin
    for start, stop in sorted(spans):
        if min(start, end) > at:
            found.append((at, min(start, end)))
        at = max(at, stop)
    return [*found, (at, end)] if at < end else found


moments = st.integers(0, 12)
acts = st.lists(
    st.tuples(st.sampled_from(["ask", "answer", "work", "open", "close", "wait", "pass"]), moments, moments)
)


@given(acts)
def test_a_wait_is_what_is_left_of_its_time(acts):
    ledger = Waits()
    diary, now, spans, open_spans, questions = Diary(ledger), 0.0, [], [], {}
    for act, one, other in acts:
        if act == "ask":
            questions[diary.ask(now)] = now
        elif act == "answer" and questions:
            question = [*questions][one % len(questions)]
            diary.answered(question)
            del questions[question]
        elif act == "work":
            diary.add(3, now, now + one / 2)
            spans.append((now, now + one / 2))
        elif act == "open":
            open_spans.append(diary.open(3, now))
            spans.append(open_spans[-1])
        elif act == "close" and open_spans:
            open_spans.pop(one % len(open_spans))[1] = now
        elif act == "wait" and questions:
            begin = min(min(questions.values()) + one / 2, now)
            end = min(begin + other, now)
            before = len(ledger.booked)
            expected = free([tuple(span) for span in spans], begin, end)
            diary.book_wait(3, begin, end, 0, -1)
            assert ledger.booked[before:] == expected
            spans += expected
        elif act == "pass":
            now += one / 4
    assert all(start < end < math.inf for start, end in ledger.booked)


def a_barrier(jobs):
    """A server works so often, and is said to have waited between any two jobs."""

    def work():
        diary = Diary(Waits())
        question = diary.ask(0.0)
        for k in range(jobs):
            diary.add(-1, k + 0.2, k + 0.4)
        for k in range(jobs - 1):
            diary.book_wait(-1, k + 0.4, k + 1.2, 0, k)
        diary.answered(question)

    return work


def test_a_wait_costs_the_same_however_much_its_site_did():
    assert calls(a_barrier(2_000)) < 9 * calls(a_barrier(250)), "8 times as many waits"
