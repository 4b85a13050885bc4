"""How many small mistakes the suite finds.

``python -m tests.mutation --seed WORD --count 100`` draws places in the packages clock, ledger, worlds, learn and
algorithms, makes one mistake at a time in a copy of the sources, and runs the tests that touch the changed line: the
room's own and the quickest first, up to the first that fails. A mistake is killed if a test fails or runs into its
time limit. ``equivalent.toml`` lists mistakes that change nothing observable, each with a reason; they count as
neither.

A first run measures what each test touches, which takes some three times as long as ``make test``; later ones
measure only test files that changed, or whose sources did. What a CPU cannot run is left out (``ELSEWHERE``). The
measurements and the fate of every mutant lie in build/mutants.
"""

import argparse
import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

import pytest

from tests.mutation.sites import Source, draw
from tests.mutation.touching import Measuring, Ordering

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("clock", "ledger", "worlds", "learn", "algorithms")
ELSEWHERE = (
    "learn/kernels/",
    "learn/cohort/captured.py",
    "learn/cohort/streams.py",
    "learn/sparsity/bisecting.py",
    "learn/crew/cluster.py",
)
"""Only for CUDA, Triton or Ray."""
AT_ONCE = 2
BATCH = 4
"""Test files that are measured by one process."""
FIRST, MOST = 20, 60.0
"""Tests that are tried before the others are collected, and CPU seconds of all tests of a mutant."""
PATIENCE = 60
"""Seconds that a test may take besides ten times what it took when it was measured."""
OPTIONS = ("-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-o", "addopts=", "--strict-markers")
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["torch", "torch.fx", "scipy.stats", "pyarrow.dataset", "pytest"])


class Suite:
    """Tests, the package that they test, and what each test touches of it."""

    def __init__(self, package, tests, build):
        self.package, self.tests, self.build = Path(package), Path(tests), Path(build)
        self.touched = self.build / "touched"
        self.touched.mkdir(parents=True, exist_ok=True)
        self.free = SimpleQueue()

    def __enter__(self):
        self.copies = tempfile.TemporaryDirectory(prefix="mutants-")
        for number in range(AT_ONCE):
            copy = Path(self.copies.name, str(number), self.package.name)
            shutil.copytree(self.package, copy)
            self.free.put(copy)
        return self

    def __exit__(self, *_):
        self.copies.cleanup()

    def measure(self):
        """Run the tests whose measurements are older than what they touch."""
        files = [file for file in sorted(self.tests.rglob("test_*.py")) if self._is_stale(file)]
        batches = [files[at : at + BATCH] for at in range(0, len(files), BATCH)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for done, _ in enumerate(pool.map(self._measure, batches), 1):
                print(f"measured {done} of {len(batches)} batches of test files", flush=True)

    def load(self):
        """Read what was measured."""
        found = [json.loads(file.read_text()) for file in self.touched.glob("*.json")]
        self.runs = {name: test for tests in found for name, test in tests.items() if test["passed"]}
        self.starting = {name for name, test in self.runs.items() if test["starts"]}
        self.by_line, self.by_file = {}, {}
        for name, test in self.runs.items():
            for file, lines in test["lines"].items():
                self.by_file.setdefault(file, set()).add(name)
                for line in lines:
                    self.by_line.setdefault((file, line), set()).add(name)

    def related(self, site):
        """Tests that touch a line, its room's and the quickest first; then those that may; then others.

        A line that runs at import is touched by tests of lines that use what it makes; the others are those of its
        file. Tests that start processes come last: what those touch is not known.
        """
        span = [*range(site.lines[0], site.lines[1] + 1), *(site.used or ())]
        surely, perhaps = (
            set().union(*(self.by_line.get((site.file, sign * line), ()) for line in span)) for sign in (1, -1)
        )
        elsewhere = self._touching_attributes(site.name) if site.name else set()
        others = self.starting if site.used is None else self.by_file.get(site.file, self.starting)
        names, total, room = [], 0.0, f"tests/{site.file.partition('/')[0]}/"
        for group in (surely, perhaps - surely, elsewhere - surely - perhaps, others - surely - perhaps - elsewhere):
            for name in sorted(group, key=lambda name: self._rank(name, room)):
                if not names or total + self.runs[name]["seconds"] <= MOST:
                    names.append(name)
                    total += self.runs[name]["seconds"]
        return names

    def _rank(self, name, room):
        return name in self.starting, not name.startswith(room), self.runs[name]["seconds"], name

    def _touching_attributes(self, name):
        """Tests of lines, in any file, that use an attribute of this name."""
        word, found = re.compile(rf"\.({name})\b"), set()
        for file in self.by_file:
            for number, line in enumerate((self.package / file).read_text().split("\n"), 1):
                if word.search(line):
                    found |= self.by_line.get((file, number), set())
        return found

    def try_out(self, site, text):
        """Whether the related tests notice a changed text: killed, survived or untouched."""
        names = self.related(site)
        if not names:
            return {"fate": "untouched", "tests": 0}
        copy = self.free.get()
        file = copy / site.file
        before = file.read_text()
        file.write_text(text)
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            compiled.unlink()
        try:
            for part in (names[:FIRST], names[FIRST:]):
                if part and (by := self._failure(copy, part)):
                    return {"fate": "killed", "tests": len(names), "by": by}
            return {"fate": "survived", "tests": len(names)}
        finally:
            file.write_text(before)
            self.free.put(copy)

    def _is_stale(self, file):
        kept = self.touched / self._name(file)
        if not kept.exists():
            return True
        touched = {name for test in json.loads(kept.read_text()).values() for name in test["lines"]}
        sources = [file, *(self.package / name for name in touched)]
        return any(not source.exists() or source.stat().st_mtime > kept.stat().st_mtime for source in sources)

    def _name(self, file):
        return f"{str(file.relative_to(self.tests.parent)).replace('/', '.')}.json"

    def _measure(self, files):
        for file in files:
            (self.touched / self._name(file)).write_text("{}")  # of a file without tests
        copy = self.free.get()
        code = self._pytest(copy, files, Measuring(self.touched, copy), 3600)
        if code not in (0, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
            print(f"could not be measured: {', '.join(map(str, files))}\n{copy.with_name('log').read_text()[-2000:]}")
        self.free.put(copy)

    def _failure(self, copy, names):
        """The end of what these tests say if one of them fails; nothing if all pass."""
        limits = {name: PATIENCE + 10 * self.runs[name]["seconds"] for name in names}
        files = dict.fromkeys(self.tests.parent / name.partition("::")[0] for name in names)
        code = self._pytest(copy, ["-x", *files], Ordering(limits), 120 + sum(limits.values()))
        if code == pytest.ExitCode.NO_TESTS_COLLECTED:
            raise SystemExit(f"no test was found; remove {self.touched}")
        return code and (copy.with_name("log").read_text(errors="replace").strip()[-300:] or "ended")

    def _pytest(self, copy, words, plugin, limit):
        """Run tests over a copy of the sources, in a group of processes that ends with them; returns their status."""
        words = [*OPTIONS, f"--basetemp={copy.with_name('tmp')}", f"--rootdir={self.tests.parent}", *map(str, words)]
        process = FORKS.Process(target=_run, args=(copy.parent, self.tests.parent, words, plugin))
        process.start()
        process.join(limit)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.join()
        return process.exitcode


def _run(sources, root, words, plugin):
    os.setsid()
    os.nice(10)
    os.chdir(root)
    os.dup2(os.open(sources / "log", os.O_RDWR | os.O_CREAT | os.O_TRUNC), 1)
    os.dup2(1, 2)
    os.environ |= {"PYTHONPATH": f"{sources}{os.pathsep}{root}", "PYTHONDONTWRITEBYTECODE": "1"}
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(sources / "hypothesis")
    sys.path[:0] = [str(sources), str(root)]
    sys.dont_write_bytecode = isinstance(plugin, Ordering)
    os._exit(pytest.main(words, plugins=[plugin]))


def sources_in(package, parts=PACKAGES):
    """The files of some packages that a CPU can run."""
    files = sorted(file for part in parts for file in (Path(package) / part).rglob("*.py"))
    names = [str(file.relative_to(package)) for file in files]
    return [Source(name, (package / name).read_text()) for name in names if not name.startswith(ELSEWHERE)]


def listed():
    """The mistakes that change nothing observable."""
    rows = tomllib.loads((Path(__file__).parent / "equivalent.toml").read_text()).get("mutant", [])
    return {key(row): {"fate": "equivalent", "reason": row["reason"]} for row in rows}


def key(row):
    """What a mutant is known by, wherever its line stands."""
    return row["file"], row["was"], row["now"]


def judge(suite, drawn, known):
    """What becomes of each mutant, as rows of a table; what is known already is not tried."""

    def judged(mutant):
        source, site, text = mutant
        was, now = source.change(site)
        row = {"file": site.file, "line": site.lines[0], "was": was, "now": now}
        return (known.get(key(row)) or suite.try_out(site, text)) | row

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for number, row in enumerate(pool.map(judged, drawn), 1):
            print(f"{number:4} {row['fate']:10} {row['file']}:{row['line']}", flush=True)
            yield row


def table(rows):
    """What survived, and the rate."""
    lines = [
        f"\n{row['fate']} ({row['tests']} tests)  {row['file']}:{row['line']}\n- {row['was']}\n+ {row['now']}"
        for row in rows
        if row["fate"] in ("survived", "untouched")
    ]
    killed, equivalent = (sum(row["fate"] == fate for row in rows) for fate in ("killed", "equivalent"))
    tried = len(rows) - equivalent
    rate = f"{killed} of {tried} killed ({killed / max(tried, 1):.0%}), {equivalent} equivalent"
    return "\n".join([*lines, "", rate])


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", required=True, help="any word: the draw follows from it and from the sources")
    parser.add_argument("--count", type=int, default=100, help="mutants that are drawn")
    parser.add_argument("--again", action="store_true", help="try only what was not killed the last time")
    options = parser.parse_args()
    package, build = ROOT / "src/paceline", ROOT / "build/mutants"
    kept = build / f"{options.seed}.json"
    before = json.loads(kept.read_text()) if options.again else []
    with Suite(package, ROOT / "tests", build) as suite:
        suite.measure()
        suite.load()
        drawn = draw(sources_in(package), options.count, options.seed)
        killed = {key(row): row for row in before if row["fate"] == "killed"}
        rows = list(judge(suite, drawn, killed | listed()))
    kept.write_text(json.dumps(rows, indent=1))
    print(table(rows))
    print(f"left out, because a CPU cannot run it: {', '.join(ELSEWHERE)}\nall mutants: {kept}")


if __name__ == "__main__":
    main()
