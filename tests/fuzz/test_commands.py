"""Numbers that are options of commands: an answer, a word about usage, or an error in words; never a traceback."""

import contextlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cli.main import main
from tests.fuzz.hostile import few, numbers, texts
from tests.fuzz.test_settings import NAMES

PLANS = {
    "structure": "clients population time-mean time-std sigma2 heterogeneity c0 ratio",
    "overlap": "t-local t-comm t-wait t-aggregate devices dropout jitter",
    "peers": "clients neighbours wait draws time spread megabytes mbps watts",
    "servers": "clients participants megabits client-mbps server-mbps node-mbps link-mbps compute spread servers",
}
USUAL = {
    "structure": {"--clients": "20", "--time-mean": "2", "--time-std": "1", "--ratio": "2"},
    "overlap": {"--t-local": "4", "--t-comm": "1", "--t-wait": "9", "--t-aggregate": "1", "--devices": "3"},
    "peers": {"--clients": "8", "--neighbours": "3", "--draws": "4"},
    "servers": {"--clients": "40", "--participants": "8", "--servers": "4", "--topology": "ring"},
}


def answer(*words):
    """What a command prints, and how it ends."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main([*map(str, words)])
        except SystemExit as end:
            return end.code, said.getvalue()
    return 0, said.getvalue()


@pytest.mark.parametrize("plan", PLANS)
def test_plans(plan):
    extra = ["--closed-form"] if plan == "servers" else []

    @few
    @given(st.dictionaries(st.sampled_from([f"--{name}" for name in PLANS[plan].split()]), numbers, max_size=2))
    def any_numbers(changes):
        options = [word for pair in (USUAL[plan] | changes).items() for word in pair]
        status, said = answer("plan", plan, *options, *extra, "--json")
        assert status in (0, 1, 2)
        assert "Traceback" not in said
        assert "NaN" not in said or status

    any_numbers()


@few
@given(texts)
def test_seeds(number):
    status, said = answer("run", "fedavg", "--dry-run", "--seeds", number, "--set", "clients=0", "--quiet")
    assert status in (1, 2), said


@pytest.mark.parametrize("number", ["\u0663", "1_0", "x"])
def test_seeds_that_are_no_plain_number(number):
    status, said = answer("run", "fedavg", "--dry-run", "--seeds", number, "--set", "clients=0", "--quiet")
    assert status == 2 and "is not a valid integer" in " ".join(said.split())


def test_more_seeds_than_anybody_waits_for(tmp_path):
    out = tmp_path / "out"
    status, said = answer("run", "fedavg", "--dry-run", "--seeds", "99999999999", "--out", out)
    assert (status, said) == (1, "error: --seeds is 99999999999; it must be 1 to 10,000\n")
    assert not out.exists()


@pytest.mark.slow
@given(data=st.data())
def test_whole_dry_runs(data, tmp_path_factory):
    algorithm = data.draw(st.sampled_from(sorted(NAMES)))
    chosen = data.draw(st.lists(st.tuples(st.sampled_from(NAMES[algorithm]), texts).map("=".join), max_size=2))
    settings = ["clients=12", "partition=iid", *chosen, "rounds=2"]
    out = tmp_path_factory.mktemp("out") / "run"
    words = [word for setting in settings for word in ("--set", setting.replace("\0", ""))]
    status, said = answer("run", algorithm, "--dry-run", "--quiet", "--out", out, *words)
    assert status in (0, 1), said
    assert "  from " not in said or "Dropped" in said, said


@pytest.mark.parametrize("mean", ["2.2250738585072014e-308", "5e-324", "1e-13"])
def test_times_that_nothing_takes(mean):
    options = [word for pair in (USUAL["structure"] | {"--time-mean": mean}).items() for word in pair]
    status, said = answer("plan", "structure", *options)
    assert status == 1 and "the mean seconds of a visit must be above 0 (at least 1e-12)" in said
