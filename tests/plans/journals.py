"""Journals of federations whose speeds are known: FedAvg on a real machine, as it would have been written down."""

import json
import random
from dataclasses import asdict
from statistics import median

from paceline.runs.recorder import describe
from paceline.runs.settings import make_settings
from paceline.worlds.local.journal import Entry

SIZE = 19_256.0
"""Bytes of the model, its header among them."""


class Machines:
    """Devices that take ``seconds[k]`` on average, with links of so many Mbit/s and a latency; all but exact."""

    def __init__(self, seconds, seed, *, up=2.0, down=8.0, latency=0.05, server=0.02, noise=0.1):
        self.seconds, self.up, self.down, self.latency, self.server = seconds, up, down, latency, server
        self._random, self._noise = random.Random(seed), noise

    def taken(self, seconds):
        return seconds * self._random.lognormvariate(0, self._noise)

    def moved(self, mbps):
        return self.taken(self.latency + 8e-6 * SIZE / mbps)

    def rounds(self, count):
        """The entries of so many rounds in which everybody takes part, and when each round ended."""
        entries, now, ends = [], 0.0, []
        for number in range(count):
            back = []
            for k, seconds in enumerate(self.seconds):
                came = now + self.moved(self.down)
                done = came + self.taken(seconds * (3 if number == 0 else 1))  # the first visit warms up
                home = done + self.moved(self.up)
                entries += [
                    Entry(what="send", site=-1, target=k, number=number, start=now, end=came, bytes=SIZE),
                    Entry(what="visit", site=k, number=number, start=came, end=done),
                    Entry(what="send", site=k, target=-1, number=number, start=done, end=home, bytes=SIZE),
                ]
                back.append(home)
            worked = max(back) + self.taken(self.server)
            entries.append(Entry(what="work", site=-1, number=number, start=max(back), end=worked))
            now = worked
            ends.append(now)
        return entries, ends


def write_run(folder, entries, ends, *, clients, algorithm="fedavg", words=()):
    """A run's directory, as far as a planner reads it."""
    folder.mkdir(parents=True)
    settings = make_settings(algorithm, [f"clients={clients}", "partition=iid", f"rounds={len(ends)}", *words])
    (folder / "settings.json").write_text(json.dumps(describe(settings)))
    (folder / "journal.jsonl").write_text("".join(json.dumps(asdict(entry)) + "\n" for entry in entries))
    rows = [{"round": number, "time": end} for number, end in enumerate(ends, start=1)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def median_round(ends):
    return median(end - start for start, end in zip([0.0, *ends], ends, strict=False))
