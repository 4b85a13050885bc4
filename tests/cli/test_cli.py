"""What a user types when all is well: the output, the files, the exit status."""

import itertools
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from paceline.algorithms.registry import ALGORITHMS
from paceline.data.specs import SPECS
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.worlds.learner import Learner
from tests.cli.cli_files import column, metrics, settings, spans, summary

SMALL = ("--set", "rounds=3", "--set", "psfl.width=5", "--set", "psfl.length=4")


# -- words about the words ----------------------------------------------------------------------------------


def test_help_names_every_command(paceline):
    shown = paceline("--help")
    assert shown.status == 0
    assert [word for word in ("run", "compare", "report", "settings", "data") if word not in shown.out] == []


@pytest.mark.parametrize("name", ["run", "compare", "settings"])
def test_help_names_every_algorithm(paceline, name):
    shown = paceline(name, "--help")
    assert [algorithm for algorithm in ALGORITHMS if algorithm not in shown.out] == []


def setting_lines(text):
    """The ``name = value`` lines of ``paceline settings`` as words for --set."""
    return [line.replace(" = ", "=", 1) for line in text.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_settings_shows_can_be_said_with_set(paceline, algorithm):
    shown = paceline("settings", algorithm)
    assert shown.status == 0
    lines = setting_lines(shown.out)
    assert {"clients=100", "dataset=digits", "fleet.times=discrete", "local.batch=20"} <= set(lines)
    said_again = paceline("settings", algorithm, *(word for line in lines for word in ("--set", line)))
    assert said_again == shown


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_settings_are_explained(paceline, algorithm):
    plain, explained = paceline("settings", algorithm).out, paceline("settings", algorithm, "--explain").out
    assert setting_lines(explained.replace("\n\n", "\n")) == setting_lines(plain)
    assert "# All randomness follows from it, for every algorithm alike.\nseed = 0" in explained
    assert "# SGD steps a visit; give either this or `epochs`.\nlocal.steps = " in explained


def test_a_file_of_settings_wins_over_defaults_and_set_wins_over_the_file(paceline, tmp_path):
    file = tmp_path / "my.toml"
    file.write_text('clients = 60\nrounds = 7\n[fleet]\ntimes = "uniform"\n[psfl]\nwidth = 3\nlength = 2\n')
    lines = setting_lines(paceline("settings", "psfl", "--config", file, "--set", "psfl.width=4").out)
    assert {"clients=60", "fleet.times=uniform", "psfl.rounds=7"} <= set(lines)
    assert {"psfl.width=4", "psfl.length=2"} <= set(lines)


def test_of_two_words_for_one_setting_the_later_wins(paceline):
    words = (
        "--set",
        "algorithm.width=2",
        "--set",
        "psfl.width=3",
        "--set",
        "psfl.length=4",
        "--set",
        "algorithm.length=2",
    )
    lines = setting_lines(paceline("settings", "psfl", *words).out)
    assert {"psfl.width=3", "psfl.length=2"} <= set(lines)


# -- one run ------------------------------------------------------------------------------------------------


def test_a_run_leaves_its_directory_and_says_where_its_report_is(paceline, tmp_path):
    done = paceline("run", "psfl", *SMALL, "--out", "here")
    assert done.status == 0
    out = tmp_path / "here"
    assert {path.name for path in out.iterdir()} == {
        "settings.json", "metrics.jsonl", "spans", "summary.json", "report.html", "paceline.json",
        "model.safetensors", "partition.json",
    }  # fmt: skip
    rows, end = metrics(out), summary(out)
    assert column(rows, "round") == [1, 2, 3]
    assert end["status"] == "done"
    assert (end["time"], end["accuracy"]) == (rows[-1]["time"], rows[-1]["accuracy"])
    assert end["visits"] == 3 * 5 * 4  # rounds, sequences, clients in each
    assert end["visits"] == sum(span["kind"] == "train" for span in spans(out))
    assert "torch" in settings(out)["versions"]
    assert "psfl" in done.out
    assert f"{100 * end['accuracy']:.1f} %" in done.out
    assert "report: here/report.html" in done.err


def test_without_out_a_run_goes_to_a_dated_directory_under_runs(paceline, tmp_path):
    assert paceline("run", "fedavg", "--set", "rounds=1", "--dry-run").status == 0
    (made,) = (tmp_path / "runs").iterdir()
    assert re.fullmatch(r"\d{8}-\d{6}-fedavg", made.name)


def test_progress_and_report_go_to_stderr_and_only_the_table_to_stdout(separate):
    done = separate("run", "fedavg", *SMALL, "--out", "x")
    assert done.status == 0
    assert re.search(r"fedavg seed 0 +round +3 +t= +[\d.]+ s +60 visits +accuracy 0\.\d{4}", done.err)
    assert done.out.startswith("algorithm")
    assert "fedavg seed 0" not in done.out


def test_the_last_row_is_shown_and_no_row_twice(paceline):
    err = paceline("run", "fedavg", "--set", "rounds=5", "--out", "x").err
    shown = re.findall(r"^fedavg seed 0 +round +(\d+)", err, re.MULTILINE)
    assert shown[-1] == "5"
    assert len(shown) == len(set(shown))


def test_quiet_says_nothing_but_the_result(paceline):
    done = paceline("run", "fedavg", *SMALL, "--quiet", "--out", "x")
    assert (done.status, done.err) == (0, "")
    assert "fedavg" in done.out


def test_in_a_terminal_progress_is_redrawn_and_then_gone(paceline, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # the console takes any stream for a terminal now
    done = paceline("run", "fedavg", *SMALL, "--out", "x")
    assert done.status == 0
    assert "\x1b[?25l" in done.err, "the cursor is hidden while the progress is redrawn"
    assert done.err.index("\x1b[?25l") < done.err.index("\x1b[?25h"), "and shown again"
    assert done.err.rstrip().endswith("report: x/report.html")


def test_json_is_one_object_and_nothing_else_is_on_stdout(separate, tmp_path):
    done = separate("compare", "fedavg", "psfl", *SMALL, "--json", "--out", "x")
    assert done.status == 0
    found = json.loads(done.out)
    assert [run["algorithm"] for run in found["runs"]] == ["fedavg", "psfl"]
    kept = [summary(tmp_path / "x" / f"{name}-seed0") for name in ("fedavg", "psfl")]
    for printed, written in zip(found["runs"], kept, strict=True):
        # Real seconds go on between writing and printing.
        assert printed | {"seconds": 0} == written | {"seconds": 0}
    assert found["executor"]["visits"] == 2 * 3 * 20  # algorithms, rounds, clients in each
    assert "round" in done.err


def test_json_of_a_run_without_energy_has_null_and_no_nan(paceline):
    out = paceline("run", "fedavg", *SMALL, "--json", "--quiet", "--out", "x").out

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    (run,) = json.loads(out, parse_constant=refuse)["runs"]
    assert run["joules"] is None  # no device has a power in this fleet


def test_no_spans_leaves_no_spans_and_the_same_metrics(paceline, tmp_path):
    paceline("run", "fedavg", *SMALL, "--out", "with")
    assert paceline("run", "fedavg", *SMALL, "--no-spans", "--out", "without").status == 0
    assert not (tmp_path / "without" / "spans.parquet").exists()
    assert metrics(tmp_path / "without") == metrics(tmp_path / "with")
    assert "kept no spans" in (tmp_path / "without" / "report.html").read_text()


def test_the_same_command_twice_writes_the_same_bytes(separate, tmp_path):
    words = ("compare", "psfl", "fedbuff", *SMALL, "--set", "fleet.links=rate:1,2", "--quiet")
    for out, seed in (("one", 1), ("two", 2)):
        assert separate(*words, "--out", out, hash_seed=seed).status == 0
    for name in ("psfl-seed0", "fedbuff-seed0"):
        first, second = tmp_path / "one" / name, tmp_path / "two" / name
        assert (first / "metrics.jsonl").read_bytes() == (second / "metrics.jsonl").read_bytes()
        assert (first / "settings.json").read_bytes() == (second / "settings.json").read_bytes()
        assert str(spans(first)) == str(spans(second))  # as text: undefined energy is NaN, which equals nothing


# -- dry runs, seeds, targets ---------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_dry_run_has_the_times_of_the_real_run_and_no_accuracy(paceline, tmp_path, algorithm):
    words = ("run", algorithm, *SMALL, "--set", "every=1", "--set", "fleet.links=rate:0.5,1", "--quiet")
    words += ("--set", "da-dpfl.pruning.target=0")  # how far it prunes is learned
    assert paceline(*words, "--out", "real").status == 0
    assert paceline(*words, "--out", "dry", "--dry-run").status == 0
    real, dry = metrics(tmp_path / "real"), metrics(tmp_path / "dry")
    assert len(dry) == 3
    for name in ("round", "time", "visits", "bytes", "idle_share"):
        assert column(dry, name) == column(real, name)
    assert not any("accuracy" in row or "loss" in row for row in dry)
    assert all("accuracy" in row for row in real)
    assert summary(tmp_path / "dry")["accuracy"] is None


def test_a_dry_run_has_the_times_of_the_real_run_where_they_depend_on_the_data(paceline, tmp_path):
    words = ("run", "fedavg", *SMALL, "--set", "fleet.times=flops:1e6", "--quiet")
    paceline(*words, "--out", "real")
    paceline(*words, "--out", "dry", "--dry-run")
    assert column(metrics(tmp_path / "dry"), "time") == column(metrics(tmp_path / "real"), "time")


def test_a_dry_run_needs_no_data(paceline, monkeypatch, tmp_path):
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path / "nothing"))
    done = paceline("run", "fedavg", *SMALL, "--set", "dataset=cifar10", "--dry-run", "--out", "x")
    assert done.status == 0
    assert "accuracy" not in done.out


def test_a_dry_run_of_an_algorithm_that_must_learn_says_what_it_assumes(paceline, tmp_path):
    done = paceline("compare", "fedavg", "psfl", "--dry-run", "--set", "rounds=3", "--out", "x")
    assert done.status == 0
    assert "psfl.width and psfl.length" in done.err
    assert "psfl.width and psfl.length" in summary(tmp_path / "x" / "psfl-seed0")["notes"][0]["text"]


def test_psfl_says_what_it_found_and_chose(separate, tmp_path):
    done = separate("run", "psfl", "--set", "rounds=3", "--set", "clients=40", "--out", "x")
    assert done.status == 0
    assert "warm-up: 5 rounds of 40 clients took" in done.err
    assert "structure: " in done.err
    found, chosen = summary(tmp_path / "x")["notes"]
    assert found["figures"]["seconds"] == found["time"] > 0
    assert chosen["figures"]["W"] * chosen["figures"]["S"] <= 20
    assert metrics(tmp_path / "x")[0]["time"] > found["time"]  # charged
    assert metrics(tmp_path / "x")[0]["visits"] == 5 * 40 + chosen["figures"]["W"] * chosen["figures"]["S"]
    page = (tmp_path / "x" / "report.html").read_text()
    assert "What was decided, and why" in page
    assert "gradient noise" in page


def test_three_seeds_are_three_runs_and_one_line_with_an_interval(paceline, tmp_path):
    done = paceline("run", "psfl", *SMALL, "--set", "seed=4", "--seeds", "3", "--out", "x")
    assert done.status == 0
    directories = [tmp_path / "x" / f"psfl-seed{seed}" for seed in (4, 5, 6)]
    assert sorted(path for path in (tmp_path / "x").iterdir() if path.is_dir()) == directories
    ends = [summary(path) for path in directories]
    assert column(ends, "seed") == [4, 5, 6]
    assert len(set(column(ends, "time"))) == 3, "every seed has a fleet of its own"
    (line,) = [line for line in done.out.splitlines() if line.startswith("psfl")]
    mean = np.mean(column(ends, "accuracy"))
    # Student's t of two degrees of freedom, 97.5 %: 4.3027
    half = 4.3027 * np.std(column(ends, "accuracy"), ddof=1) / np.sqrt(3)
    shown = re.search(r"([\d.]+) ± ([\d.]+) %\s*$", line)
    assert shown, line
    assert float(shown[1]) == pytest.approx(100 * mean, abs=0.051)  # one decimal is shown
    assert float(shown[2]) == pytest.approx(100 * half, rel=0.051)  # two digits are shown


def test_a_run_stops_at_the_first_row_that_reaches_the_target(paceline, tmp_path):
    done = paceline("run", "psfl", "--until", "accuracy=0.4", "--out", "x", "--quiet")
    rows, end = metrics(tmp_path / "x"), summary(tmp_path / "x")
    assert [row["accuracy"] >= 0.4 for row in rows] == [False] * (len(rows) - 1) + [True]
    assert len(rows) < 100, "psfl would have gone on for 100 rounds"
    assert end["target"] == {
        "accuracy": 0.4,
        **{name: rows[-1][name] for name in ("time", "bytes", "visits", "idle_share")},
        "rounds": len(rows),
    }
    assert "time to target" in done.out


def test_a_run_stops_at_exactly_the_time(paceline, tmp_path):
    """Its last row says what it has cost until then; what it had by then is what a run without an end has, too."""
    for name, more in (("whole", ()), ("x", ("--until", "time=20"))):
        paceline("run", "fedavg", *more, "--set", "rounds=9", "--dry-run", "--out", name, "--quiet")
    times = column(metrics(tmp_path / "x"), "time")
    assert times[:-1] == [time for time in column(metrics(tmp_path / "whole"), "time") if time < 20]
    assert times[-1] == summary(tmp_path / "x")["time"] == 20
    assert summary(tmp_path / "whole")["time"] > 20


def test_who_does_not_reach_the_target_is_told_so_beside_one_who_does(paceline, tmp_path):
    words = ("--set", "fedavg.rounds=2", "--until", "accuracy=0.4", "--out", "x", "--quiet")
    done = paceline("compare", "fedavg", "psfl", *words)
    assert done.status == 0
    (line,) = [line for line in done.out.splitlines() if line.startswith("fedavg")]
    assert "not reached" in line
    target = summary(tmp_path / "x" / "fedavg-seed0")["target"]
    assert target["accuracy"] == 0.4
    assert target["time"] is None


def test_when_nobody_reaches_the_target_the_table_says_so(paceline):
    done = paceline("run", "fedavg", *SMALL, "--until", "accuracy=0.99", "--out", "x", "--quiet")
    assert "not reached" in done.out


# -- comparisons ----------------------------------------------------------------------------------------------


def test_a_setting_with_an_algorithms_name_is_for_that_algorithm_alone(paceline, tmp_path):
    paceline("compare", "fedavg", "psfl", *SMALL, "--out", "plain", "--quiet")
    done = paceline("compare", "fedavg", "psfl", *SMALL, "--set", "psfl.width=3", "--out", "set", "--quiet")
    assert done.status == 0
    plain, changed = tmp_path / "plain", tmp_path / "set"
    assert settings(changed / "psfl-seed0")["options"]["width"] == 3
    assert settings(changed / "fedavg-seed0") == settings(plain / "fedavg-seed0")
    assert summary(changed / "psfl-seed0")["visits"] == 3 * 3 * 4  # rounds, sequences, clients in each
    before, after = metrics(plain / "fedavg-seed0"), metrics(changed / "fedavg-seed0")
    assert column(after, "time") == column(before, "time")
    # Another cohort beside it may round differently, no more.
    assert column(after, "loss") == pytest.approx(column(before, "loss"), rel=1e-4)


def test_a_comparison_says_of_each_what_a_run_alone_says(paceline, tmp_path):
    paceline("compare", "sfl", "psfl", "fedasync", *SMALL, "--out", "all", "--quiet")
    for name in ("sfl", "psfl", "fedasync"):
        paceline("run", name, *SMALL, "--out", name, "--quiet")
        alone, beside = metrics(tmp_path / name), metrics(tmp_path / "all" / f"{name}-seed0")
        assert column(beside, "time") == column(alone, "time")
        assert column(beside, "loss") == pytest.approx(column(alone, "loss"), rel=1e-4)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_run_can_be_repeated_from_its_directory(paceline, tmp_path, name):
    """settings.json says all, and --config reads it: with none of the words that made it."""
    words = (
        "--set",
        "rounds=2",
        "--set",
        "fleet.times=uniform",
        "--set",
        "seed=7",
        "--set",
        "da-dpfl.pruning.target=0",
    )
    width = ("--set", "psfl.width=5", "--set", "psfl.length=2")
    first = paceline("run", name, *words, *width, "--dry-run", "--out", "first")
    again = paceline("run", name, "--config", "first", "--dry-run", "--out", "again")
    assert first.status == again.status == 0
    assert settings(tmp_path / "again") == settings(tmp_path / "first")
    assert metrics(tmp_path / "again") == metrics(tmp_path / "first")


def test_accuracies_of_two_kinds_are_not_ranked(paceline, tmp_path):
    words = ("compare", "dispfl", "fedavg", "--set", "rounds=1", "--set", "local.epochs=1")
    shown = paceline(*words, "--out", "mixed")
    assert "of dispfl the mean over clients" in shown.out and "of fedavg that of one model on all" in shown.out
    assert "personal=true" in shown.out and "They cannot be compared" in (tmp_path / "mixed/report.html").read_text()
    assert '"words":"share of zeros"' in (tmp_path / "mixed/report.html").read_text()
    assert summary(tmp_path / "mixed/dispfl-seed0")["personal"] and "zeros" in shown.out and "FLOP" in shown.out
    assert not summary(tmp_path / "mixed/fedavg-seed0")["personal"]
    alike = paceline(*words, "--set", "personal=true", "--out", "alike")
    assert alike.status == 0 and "cannot be compared" not in alike.out


def test_a_gradient_is_no_visit(paceline, tmp_path):
    """Also where local training is no more than a batch."""
    paceline("run", "dispfl", "--set", "rounds=3", "--set", "local.steps=1", "--dry-run", "--out", "short")
    assert summary(tmp_path / "short")["visits"] == 300


# -- the report -----------------------------------------------------------------------------------------------


class Resources(HTMLParser):
    """Collects whatever a page would load: sources, links, imports and urls of its styles."""

    LOADING = ("src", "href", "xlink:href", "data", "poster", "srcset", "action")

    def __init__(self):
        super().__init__()
        self.loaded, self.tags, self.text = [], set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.loaded += [value for name, value in attrs if name in self.LOADING and not value.startswith("#")]
        self.loaded += [v for name, value in attrs if name == "style" for v in re.findall(r"url\((.*?)\)", value)]

    def handle_data(self, data):
        self.text.append(data)
        self.loaded += re.findall(r"url\((?!#)(.*?)\)|@import|fetch\(|XMLHttpRequest|import\(", data)


def resources(path):
    parser = Resources()
    parser.feed(path.read_text(encoding="utf-8"))
    return parser


def test_the_finder_of_resources_finds_them(tmp_path):
    page = tmp_path / "page.html"
    page.write_text('<script src="https://a/b.js"></script><style>@import "x"; a {background: url(y)}</style>')
    assert len(resources(page).loaded) == 3


def test_the_report_of_a_comparison_loads_nothing(paceline, tmp_path):
    paceline("compare", "fedavg", "psfl", *SMALL, "--out", "x")
    page = resources(tmp_path / "x" / "report.html")
    assert page.loaded == []
    assert {"svg", "table", "style"} <= page.tags
    assert {"fedavg", "psfl"} <= {text.strip() for text in page.text}


def test_report_takes_runs_and_directories_of_runs(paceline, tmp_path):
    paceline("compare", "fedavg", "psfl", *SMALL, "--out", "both", "--quiet")
    paceline("run", "sfl", *SMALL, "--out", "one", "--quiet")
    done = paceline("report", "both", "one", "--out", "pages/all.html", "--title", "All <three>")
    assert (done.status, done.out) == (0, "pages/all.html\n")
    page = (tmp_path / "pages" / "all.html").read_text()
    assert "All &lt;three&gt;" in page
    assert "3 runs, 3 algorithms" in page


# -- data -----------------------------------------------------------------------------------------------------


def test_data_lists_every_dataset_and_how_to_get_what_is_missing(paceline, monkeypatch, tmp_path):
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path / "nothing"))
    shown = paceline("data")
    assert shown.status == 0
    head, _, rest = shown.out.partition("To get what is not here:")
    listed = {words[0]: words[1] for line in head.splitlines()[1:] if len(words := line.split()) > 1}
    assert {name: listed.get(name) for name in ("digits", "synthetic")} == dict.fromkeys(
        ("digits", "synthetic"), "yes"
    )
    assert [name for name in SPECS if name not in listed] == []
    # What a Debian package may have brought is here on some machines and not on others.
    missing = [name for name in SPECS if listed[name] == "no"]
    assert set(missing) >= {"mnist", "cifar10", "femnist"}
    assert [name for name in missing if f"{name}: {SPECS[name].how_to_get}" not in rest] == []
    assert str(tmp_path / "nothing") in head


def test_data_verify_says_what_was_checked(paceline):
    done = paceline("data", "verify", "digits")
    assert done.status == 0
    assert all(line.startswith("ok ") for line in done.out.splitlines())
    assert "1437 + 360" in done.out


@pytest.mark.parametrize("name", ["split.png", "split.svg"])
def test_data_partition_describes_and_draws_a_split(paceline, tmp_path, name):
    done = paceline("data", "partition", "digits", "--partition", "iid", "--clients", "10", "--picture", name)
    assert done.status == 0
    assert "digits, iid over 10 clients" in done.out
    assert "mean 143.7" in done.out  # 1437 images
    assert (tmp_path / name).read_bytes().startswith((b"\x89PNG", b"<?xml"))


# -- interruption ----------------------------------------------------------------------------------------------


@pytest.fixture
def stopped(interrupted, tmp_path):
    """A comparison stopped by SIGINT once both runs have written metrics."""
    out = tmp_path / "x"
    files = [out / name / "metrics.jsonl" for name in ("fedavg-seed0", "psfl-seed0")]

    def ready():
        return all(file.exists() and file.stat().st_size for file in files)

    words = ("--set", "rounds=100000", "--set", "flush=40", "--out", "x")
    return out, interrupted("compare", "fedavg", "psfl", *words, ready=ready)


def test_an_interrupted_comparison_ends_with_status_130_and_readable_metrics(stopped):
    out, ended = stopped
    assert ended.status == 130
    assert "Traceback" not in ended.err
    for name in ("fedavg-seed0", "psfl-seed0"):
        rows = metrics(out / name)
        assert rows
        assert column(rows, "round") == list(range(1, len(rows) + 1))


def test_an_interrupted_run_says_so(stopped):
    assert "interrupted" in stopped[1].err


def interrupt_at(monkeypatch, owner, name, call):
    """Let Ctrl-C come during this call (from 1) of a function."""
    original, calls = getattr(owner, name), itertools.count(1)

    def interrupting(*args, **kwargs):
        if next(calls) == call:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, interrupting)


IN_LEARNING = (CohortTrainer, "train", 6)
"""The second of psfl's four steps in the second flush."""
IN_SCHEDULE = (Learner, "_promise", 2 * 20 + 5)
"""Inside a client's coroutine, in fedavg's second round; the first round of both was 20 visits each."""


@pytest.mark.parametrize(
    "where",
    [
        pytest.param(IN_LEARNING, id="learning"),
        pytest.param(IN_SCHEDULE, id="schedule"),
    ],
)
def test_files_are_complete_wherever_the_interruption_comes(paceline, monkeypatch, tmp_path, where):
    interrupt_at(monkeypatch, *where)
    words = ("--set", "rounds=50", "--set", "flush=20", "--out", "x", *SMALL[2:])
    ended = paceline("compare", "fedavg", "psfl", *words)
    assert ended.status == 130
    for name in ("fedavg-seed0", "psfl-seed0"):
        out = tmp_path / "x" / name
        assert column(metrics(out), "round") == [1]
        assert {span["round"] for span in spans(out)} >= {0}
        assert summary(out)["status"] == "interrupted"
    assert paceline("report", "x", "--out", "late.html").status == 0
