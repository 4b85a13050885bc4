"""Variants of one algorithm, sweeps over settings, and a fleet from a file, as a user types them."""

import json

import pytest

from tests.cli.cli_files import settings

SMALL = ("--set", "rounds=3", "--set", "clients=12", "--dry-run", "-q")


def test_variants_of_one_algorithm_are_compared(paceline, tmp_path):
    names = ("fedbuff@buffer=2", "fedbuff@buffer=5,local.lr=0.3")
    shown = paceline("compare", *names, *SMALL, "--out", str(tmp_path / "out"))
    assert shown.status == 0
    assert "fedbuff (buffer=2, local.lr=0.1)" in shown.out or "buffer=2" in shown.out
    kept = [settings(path)["options"] for path in sorted((tmp_path / "out").glob("fedbuff@*"))]
    assert [(one["buffer"], one["local"]["lr"] == 0.3) for one in kept] == [(2, False), (5, True)]


def test_a_variant_may_change_other_settings_too(paceline, tmp_path):
    shown = paceline("run", "fedavg@fleet.jitter=0,width=3", *SMALL, "--out", str(tmp_path / "out"))
    assert shown.status == 0
    made = settings(tmp_path / "out")
    assert (made["fleet"]["jitter"], made["options"]["width"]) == (0.0, 3)


def test_a_sweep_is_every_combination(paceline, tmp_path):
    over = ("--over", "local.lr=0.01,0.1", "--over", "buffer=2,4,6")
    shown = paceline("sweep", "fedbuff", *over, *SMALL, "--json", "--out", str(tmp_path / "out"))
    assert shown.status == 0
    assert len(json.loads(shown.out)["runs"]) == 6
    assert len(list((tmp_path / "out").glob("*-seed0"))) == 6


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("sweep", "fedbuff", "--over", "buffer"), "--over 'buffer' is not a sweep"),
        (("compare", "fedbuff@bufer=2"), "unknown setting"),
        (("compare", "fedbuff@buffer=2", "fedbuff@buffer=2"), "named twice"),
        (("compare", "fedavg", "fedavg@"), "fedavg and fedavg@ are the same run"),
        (
            ("compare", "fedavg", "fedavg@rounds=3", "--set", "rounds=3"),
            "fedavg and fedavg@rounds=3 are the same run",
        ),
        (("sweep", "fedbuff", "--over", "local.lr=0.1,0.10"), "are the same run, with the same settings and seed"),
        (
            ("sweep", "fedbuff", "--over", "seed=1,2", "--seeds", "2"),
            "fedbuff@seed=1 and fedbuff@seed=2 are the same",
        ),
        (("sweep", "fedbuff", "--over", "buffer=2", "--over", "buffer=3"), "said twice; say all its values at once:"),
        (("sweep", "fedbuff", "--over", "buffer=2,,3"), "--over 'buffer=2,,3' is not a sweep"),
        (("run", "fedbuf"), "no algorithm is called 'fedbuf'"),
        (("run", "nowhere.at:All"), "cannot import nowhere.at"),
        (("run", "fedavg", "--set", "fleet.file=nowhere.csv"), "there is no file"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(paceline, tmp_path, monkeypatch, words, complaint):
    monkeypatch.chdir(tmp_path)
    shown = paceline(*words)
    assert shown.status == 1
    assert complaint in " ".join(shown.err.split())
    assert not list(tmp_path.iterdir())


def test_seeds_that_do_not_overlap_may_be_swept_over(paceline, tmp_path):
    words = ("--over", "seed=1,3", "--seeds", "2", *SMALL, "--out", str(tmp_path / "out"))
    assert paceline("sweep", "fedavg", *words).status == 0
    assert sorted(settings(path)["seed"] for path in (tmp_path / "out").glob("*-seed*")) == [1, 2, 3, 4]


def test_a_dry_run_says_what_it_assumes(paceline, tmp_path):
    words = ("--set", "clients=40", "--set", "rounds=2", "--dry-run", "--out", str(tmp_path / "out"))
    shown = paceline("run", "psfl", *words)
    assert shown.status == 0
    assert "a dry run learns nothing: the structure" in shown.err
