"""``paceline plan``: the answer, the complaints, and that it comes at once."""

import math
import os
import subprocess
import sys

import pytest

import paceline as package
from paceline.algorithms.structure import bound_ratio, choose_structure
from tests.cli.cli_files import answer

TIMES = ("--time-mean", "2.5", "--time-std", "1")
ASKED = ("plan", "structure", "--clients", "20", *TIMES, "--ratio", "0.6")


# -- answers --------------------------------------------------------------------------------------------------


def test_json_says_what_the_solver_says(paceline):
    found = choose_structure(participants=20, time_mean=2.5, time_std=1.0, ratio=0.6)
    told = answer(paceline(*ASKED, "--population", "1000000", "--json"))
    for name in ("width", "length", "W", "S", "expected_round_seconds", "ratio", "participants"):
        assert told[name] == getattr(found, name)
    assert told["bounds"] == list(found.bounds)
    assert told["population"] == 1_000_000
    keys = ("S", "W", "relative_cost", "expected_round_seconds")
    assert [tuple(one[key] for key in keys) for one in told["alternatives"]] == [*found.alternatives]
    assert told["alternatives"][0]["expected_round_seconds"] == told["expected_round_seconds"]
    assert told["simulated"] is False


def test_noise_and_heterogeneity_give_the_ratio(paceline):
    words = ("plan", "structure", "--clients", "20", *TIMES, "--sigma2", "2", "--heterogeneity", "3", "--json")
    assert answer(paceline(*words))["ratio"] == bound_ratio(2, 3)
    assert answer(paceline(*words, "--c0", "0.15"))["ratio"] == bound_ratio(2, 3, 0.15)


def test_an_infinite_ratio_is_valid_json(paceline):
    words = ("plan", "structure", "--clients", "20", *TIMES, "--sigma2", "0", "--heterogeneity", "3", "--json")
    told = answer(paceline(*words))
    assert float(told["ratio"]) == math.inf
    assert (told["S"], told["W"]) == (20, 1)


def test_the_table_marks_the_best_and_names_both_ends(paceline):
    done = paceline(*ASKED)
    assert done.status == 0
    rows = {tuple(words[:2]): line for line in done.out.splitlines() if len(words := line.split()) > 2}
    assert rows["5", "4"].rstrip().endswith("best")
    assert rows["20", "1"].rstrip().endswith("FedAvg")
    assert rows["1", "20"].rstrip().endswith("sequential FL")
    assert "alpha/beta = 0.6" in done.out


@pytest.fixture
def measured(tmp_path):
    (tmp_path / "times.csv").write_text("device,seconds\na,1\na,3\nb,10\nb,12\nc,6\n")
    return ("plan", "structure", "--times", "times.csv", "--ratio", "0.6", "--json")


def test_measured_times_bring_their_population(paceline, measured):
    told = answer(paceline(*measured, "--clients", "3"))
    assert told["population"] == 3
    assert told["time_mean"] == pytest.approx(19 / 3)
    assert told["time_std"] == pytest.approx(math.sqrt(2))
    assert answer(paceline(*measured, "--clients", "4", "--population", "50"))["population"] == 50


def test_with_measured_times_rounds_are_simulated(paceline, tmp_path):
    """Half of the devices take 1 s and half 9 s: a round of FedAvg with ten of them nearly always takes 9 s, where
    equal clients would take 5; W = 5 sequences of one fast and one slow device take 10."""
    rows = [f"d{k},{seconds}" for k in range(20) for seconds in (1 + 8 * (k % 2),) * 2]
    (tmp_path / "halves.csv").write_text("\n".join(["device,seconds", *rows]))
    words = ("plan", "structure", "--times", "halves.csv", "--clients", "10", "--ratio", "0.1", "--json")
    told = answer(paceline(*words))
    seconds = {(one["W"], one["S"]): one["expected_round_seconds"] for one in told["alternatives"]}
    assert told["simulated"] is True
    assert seconds[10, 1] == pytest.approx(9, abs=0.1)
    assert seconds[5, 2] == pytest.approx(10)
    assert answer(paceline(*words, "--rounds-by", "simulation"))["rounds_by"] == "simulation"


def test_the_bounds_of_theorem_one_are_shown(paceline):
    words = ("plan", "structure", "--clients", "20", *TIMES, "--sigma2", "2", "--heterogeneity", "3")
    told = answer(paceline(*words, "--smoothness", "4", "--distance", "9", "--rounds", "500", "--json"))
    assert told["largest_rate"] == pytest.approx(0.1 / (4 * told["S"]))
    assert told["best_rate"] <= told["largest_rate"]
    assert "Theorem 1 holds for local learning rates up to" in paceline(*words, "--smoothness", "4").out
    assert (
        "needs --sigma2 and --heterogeneity"
        in paceline(
            "plan", "structure", "--clients", "20", *TIMES, "--ratio", "1", "--smoothness", "4", "--distance", "1"
        ).err
    )


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        (("--kappa", "most"), "--kappa is 'most'; wanted mean"),
        (("--rounds-by", "luck"), "--rounds-by is 'luck'; wanted bound"),
        (("--rounds-by", "simulation"), "no times were seen of clients"),
        (("--smoothness", "-1"), "the smoothness is -1"),
        (("--distance", "1"), "--distance is given without --smoothness"),
    ],
)
def test_words_that_cannot_be_are_refused(paceline, more, wanted):
    done = paceline(*ASKED, *more)
    assert done.status == 1
    assert wanted in done.err


def test_more_clients_than_measured_devices_are_refused(paceline, measured):
    done = paceline(*measured, "--clients", "4")
    assert done.status == 1
    assert "population of 3" in done.err


# -- overlap ----------------------------------------------------------------------------------------------------

PACE = {"--t-local": "19", "--t-comm": "6", "--t-wait": "38", "--t-aggregate": "19"}


def overlap(**other):
    """The words with some of them replaced, as in t_local=-1."""
    words = PACE | {f"--{name.replace('_', '-')}": str(value) for name, value in other.items()}
    return ("plan", "overlap", *(word for pair in words.items() for word in pair))


def test_overlap_tells_both_times_of_every_method(paceline):
    told = answer(paceline(*overlap(devices=10), "--json"))
    inputs = {"devices": 10, "t_local": 19, "t_comm": 6, "t_wait": 38, "t_aggregate": 19, "dropout": 0.2, "jitter": 0}
    assert {name: told[name] for name in inputs} == inputs
    assert told["stragglers"] == 2
    assert set(told) == {*inputs, "stragglers", "methods"}
    methods = told["methods"]
    assert list(methods) == ["fedavg", "dga", "mifa", "spfl", "apfl"]
    for name, seconds in {"fedavg": 82, "dga": 82, "mifa": 44, "spfl": 63}.items():
        assert set(methods[name]) == {"closed_form", "simulated", "speedup", "speedup_simulated"}
        assert methods[name]["closed_form"] == seconds
        assert methods[name]["simulated"] == pytest.approx(seconds)
        assert methods[name]["speedup"] == pytest.approx(82 / seconds)
        assert methods[name]["speedup_simulated"] == pytest.approx(82 / seconds)
    apfl = methods["apfl"]
    assert (apfl["closed_form"], apfl["bounds"]) == (25, [25, 38])
    assert apfl["simulated"] == pytest.approx(28.5)
    assert apfl["speedup_simulated"] == pytest.approx(82 / 28.5)
    assert apfl["simulated_in_step"] == pytest.approx(25)
    assert apfl["simulated_with_absences"] > apfl["simulated"]


def test_overlap_without_stragglers_counts_no_wait(paceline):
    methods = answer(paceline(*overlap(dropout=0), "--json"))["methods"]
    assert (methods["fedavg"]["closed_form"], methods["spfl"]["closed_form"]) == (44, 25)
    assert methods["fedavg"]["simulated"] == pytest.approx(44)


def test_the_overlap_table_has_a_row_and_a_sentence_for_each(paceline):
    done = paceline(*overlap())
    assert done.status == 0
    lines = done.out.splitlines()
    cells = {line.split()[0]: line.split()[1:] for line in lines[1:6]}
    assert cells["SPFL"] == ["63", "s", "63", "s", "x1.30", "x1.30"]
    assert cells["APFL"] == ["25", "s", "28.5", "s", "x3.28", "x2.88"]
    assert [line.partition(":")[0] for line in lines[6:]] == ["FedAvg", "DGA", "MIFA", "SPFL", "APFL"]
    assert "between 25 and 38 s" in lines[-1]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"t_local": -1}, "t_local is -1; give the seconds of local training, above 0"),
        ({"t_wait": -1}, "t_wait is -1; give a number of seconds, 0 or more"),
        ({"devices": 0}, "devices is 0; give a number from 1 to 300"),
        ({"dropout": 1.5}, "dropout is 1.5; give the share of devices that straggle, from 0 to 1"),
    ],
)
def test_an_overlap_that_cannot_be_is_refused(paceline, wrong, message):
    done = paceline(*overlap(**wrong))
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("error: ")
    assert message in done.err


# -- complaints -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ((*TIMES, "--ratio", "1"), ["--clients is missing"]),
        (("--clients", "20", "--ratio", "1"), ["give --time-mean and --time-std", "--times FILE.csv"]),
        (("--clients", "20", "--time-mean", "2", "--ratio", "1"), ["give --time-std", "--times FILE.csv"]),
        (("--clients", "20", *TIMES), ["give --sigma2 and --heterogeneity", "--ratio"]),
        (("--clients", "20", *TIMES, "--sigma2", "1"), ["give --heterogeneity", "--ratio"]),
        (("--clients", "20", *TIMES, "--sigma2", "1", "--ratio", "1"), ["--ratio and --sigma2", "leave one"]),
        (("--clients", "20", *TIMES, "--c0", "0.1", "--ratio", "1"), ["--ratio and --c0", "leave one"]),
        (("--clients", "20", *TIMES, "--times", "x.csv", "--ratio", "1"), ["--times and --time-mean", "leave one"]),
        (("--clients", "20", "--times", "x.csv", "--ratio", "1"), ["there is no file x.csv"]),
        (("--clients", "20", "--population", "10", *TIMES, "--ratio", "1"), ["20", "population of 10"]),
        (("--clients", "0", *TIMES, "--ratio", "1"), ["participants is 0", "from 1 to"]),
        (("--clients", "20", *TIMES, "--ratio", "-1"), ["ratio is -1"]),
        (("--clients", "20", *TIMES, "--sigma2", "0", "--heterogeneity", "0"), ["neither noise nor heterogeneity"]),
    ],
)
def test_what_is_missing_or_contradictory_is_named(paceline, words, wanted):
    done = paceline("plan", "structure", *words)
    assert done.status == 1
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert [phrase for phrase in wanted if phrase not in done.err] == [], done.err


# -- a fast start ---------------------------------------------------------------------------------------------

WITHOUT_TORCH = """
import sys

from paceline.cli.main import main

try:
    main()
finally:
    loaded = sorted({"torch", "scipy", "pyarrow", "sklearn", "matplotlib"} & set(sys.modules))
    print("loaded:", loaded, file=sys.stderr)
"""


@pytest.mark.parametrize(
    "words", [(*ASKED, "--json"), ASKED, ("--help",), ("plan", "structure", "--help"), ("plan", "overlap", "--help")]
)
def test_plans_and_help_import_nothing_heavy(words):
    """What takes seconds to import must not be imported to print a page of help."""
    environment = os.environ | {"COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *words], env=environment, capture_output=True, text=True, check=True
    )
    assert "loaded: []" in done.stderr
    assert done.stdout


def test_the_finder_of_heavy_imports_finds_them(tmp_path):
    words = ("settings", "psfl")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *words], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "'torch'" in done.stderr


def test_public_names_are_listed_before_they_are_imported():
    code = (
        "import sys, paceline; assert set(paceline.__all__) <= set(dir(paceline)); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_public_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing
