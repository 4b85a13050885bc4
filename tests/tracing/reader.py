"""A strict reader of the trace event format, written without a look at what writes it."""

import gzip
import json
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise


@dataclass(frozen=True)
class Span:
    pid: int
    tid: int
    name: str
    kind: str
    start: Fraction
    end: Fraction
    args: dict = field(compare=False, hash=False)


class Trace:
    """A trace that keeps the format's rules; one that does not is refused."""

    def __init__(self, path):
        raw = path.read_bytes()
        text = gzip.decompress(raw) if path.suffix == ".gz" else raw
        found = json.loads(text, parse_float=Fraction, parse_constant=refuse)
        assert set(found) == {"traceEvents", "displayTimeUnit", "otherData"}
        self.about, self.events = found["otherData"], found["traceEvents"]
        assert {event["ph"] for event in self.events} <= set("MXsfCi")
        assert all(event.get("ts", 0) >= 0 for event in self.events)
        self.spans = [self._span(event) for event in self.events if event["ph"] == "X"]
        self.processes, self.threads = self._names("process", "pid"), self._names("thread", "tid")
        self._threads_are_of_one_process()
        self._threads_nest()
        self.flows = self._flows()

    def _span(self, event):
        assert event["dur"] >= 0
        end = Fraction(event["ts"]) + Fraction(event["dur"])
        return Span(
            event["pid"], event["tid"], event["name"], event["cat"], Fraction(event["ts"]), end, event["args"]
        )

    def _names(self, what, key):
        events = [e for e in self.events if e["ph"] == "M" and e["name"] == f"{what}_name"]
        names = {event[key]: event["args"]["name"] for event in events}
        assert len(names) == len(events), f"a {what} is named twice"
        assert names.keys() >= {event[key] for event in self.events if event["ph"] == "X"}, f"a {what} has no name"
        return names

    def _threads_are_of_one_process(self):
        homes = {(span.tid, span.pid) for span in self.spans}
        assert len({tid for tid, _ in homes}) == len(homes)
        assert not {tid for tid, _ in homes} & set(self.processes), "a thread has the number of a process"

    def _threads_nest(self):
        """Spans of a thread follow each other; only such as take no time may lie within others."""
        self._by_thread = defaultdict(list)
        for span in sorted(self.spans, key=lambda span: (span.start, span.end)):
            if span.end > span.start:
                self._by_thread[span.tid].append(span)
        for spans in self._by_thread.values():
            for first, then in pairwise(spans):
                assert first.end <= then.start, f"{first} and {then} overlap"

    def _flows(self):
        ends = defaultdict(dict)
        for event in self.events:
            if event["ph"] in "sf":
                assert event["ph"] not in ends[event["id"]], "an arrow has two ends of a kind"
                assert event["ph"] == "s" or event["bp"] == "e"
                ends[event["id"]][event["ph"]] = event
        assert all(pair["s"]["ts"] < pair["f"]["ts"] for pair in ends.values()), "an arrow runs backwards"
        return [(self._around(pair["s"]), self._around(pair["f"])) for pair in ends.values()]

    def _around(self, event):
        """The span in which an arrow begins or ends."""
        spans = self._by_thread[event["tid"]]
        place = bisect_right([span.start for span in spans], Fraction(event["ts"])) - 1
        assert place >= 0, f"{event} is bound to nothing"
        assert event["ts"] < spans[place].end, f"{event} is bound to nothing"
        return spans[place]


def refuse(word):
    raise AssertionError(f"{word} is no JSON")
