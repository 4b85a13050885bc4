"""``plan fleet`` of a file: figures that can be worked out by hand, and what is said of them."""

import itertools
import json
import re
import shlex

import pytest

import paceline
from paceline.api.plan_page import render_plan, write_plan
from paceline.errors import SettingError, SiteError
from paceline.plans import servers as overlays
from paceline.plans.methods import plan_methods
from paceline.plans.methods_dry import VISITS
from paceline.plans.methods_reasons import assumptions, command, recommend, tries, unknown
from paceline.plans.methods_tree import as_tree
from paceline.plans.shortlist import shortlist, structures
from paceline.runs.settings import make_settings

EXACT = ["fleet.jitter=0", "dataset=digits", "partition=iid"]
MODEL = "logistic"


@pytest.fixture
def fleet(tmp_path):
    number = itertools.count()

    def write(*seconds, **columns):
        lines = [",".join(["seconds", *columns])]
        lines += [",".join([str(one), *map(str, columns.values())]) for one in seconds]
        path = tmp_path / f"fleet{next(number)}.csv"
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    return write


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    """By hand, a few rounds say all."""
    for group in VISITS:
        monkeypatch.setitem(VISITS, group, 60)


def figures(plan):
    return {one.method.label: one.figures for one in plan.candidates}


def test_by_hand_with_some_devices_at_a_time(fleet):
    """All take 2 s: rounds of two abreast take 2 s, of two in a row 4 s; two at work make a visit a second."""
    plan = plan_methods(fleet(2, 2, 2, 2), model=MODEL, participants=2, overrides=EXACT)
    found = figures(plan)
    assert {name: one.round_seconds for name, one in found.items() if one.group == "some"} == pytest.approx(
        {"fedavg": 2, "sfl": 4, "fedbuff, buffer 2": 2, "fedasync": 1}, rel=0.03
    )
    assert found["fedavg"].visit_seconds == pytest.approx(1) and found["sfl"].visit_seconds == pytest.approx(2)
    assert found["sfl"].idle_share == pytest.approx(0.5) and found["fedavg"].idle_share == 0
    assert found["fedavg, all"].visit_seconds == pytest.approx(0.5)
    assert found["spfl"].group == "all" and found["dispfl"].group == "peers"
    (sequential,) = (one for one in plan.candidates if one.method.label == "sfl")
    assert sequential.break_even == pytest.approx(0.5), "it may need half of FedAvg's visits"


def test_by_hand_with_a_slow_device(fleet):
    """Rounds of all wait for 5 s; without rounds there are 3 + 1/5 visits a second, 1 + 1/5 of the slower two."""
    plan = plan_methods(fleet(1, 1, 1, 5), model=MODEL, overrides=EXACT, algorithms=["fedbuff", "apfl"])
    found = figures(plan)
    assert found["fedavg"].visit_seconds == pytest.approx(5 / 4)
    assert found["fedavg"].idle_share == pytest.approx(12 / 20)
    for name in ("fedbuff, buffer 2", "apfl"):
        assert found[name].visit_seconds == pytest.approx(1 / 3.2, rel=0.05)
        assert found[name].slow_share == pytest.approx(1.2 / 3.2, abs=0.03)
    assert plan.best.name == "fedbuff@concurrency=4,buffer=2" and plan.best.break_even == pytest.approx(4, rel=0.05)
    told = " ".join(recommend(plan))
    assert "less than x4 the visits of FedAvg" in told and "slower half" in told and "apfl" in told
    assert "Accuracy: nothing was learned" in unknown(plan)[0]


def test_bytes_and_joules(fleet):
    plan = plan_methods(fleet(2, 2, 2, watts=3), model=MODEL, participants=2, overrides=EXACT)
    found = figures(plan)
    assert plan.model_bytes == 4 * 10 * 65
    assert found["fedavg"].visit_bytes == pytest.approx(2 * plan.model_bytes), "down and up"
    assert found["sfl"].visit_bytes == pytest.approx(1.5 * plan.model_bytes), "down, over, up: two visits"
    assert found["fedavg"].visit_joules == pytest.approx(6)
    assert any("computing alone" in line for line in assumptions(plan))
    assert figures(plan_methods(fleet(2, 2), model=MODEL, overrides=EXACT))["fedavg"].visit_joules is None
    both = [*EXACT, "fleet.link_watts=1", "fleet.links=rate:1,1"]
    linked = figures(plan_methods(fleet(2, 2, 2, watts=3), model=MODEL, participants=2, overrides=both))
    assert linked["fedavg"].visit_joules > 6


def test_several_servers_and_what_is_left_out(fleet):
    plan = plan_methods(fleet(*[1] * 8), model=MODEL, participants=4, servers=[2, 4, 5], overrides=EXACT)
    names = [one.name for one in plan.candidates]
    assert (
        "p-fedavg@topology=ring:4,participants=1" in names and "p-fedavg@topology=complete:2,participants=2" in names
    )
    assert "hierfavg@servers=2,participants=2" in names
    assert figures(plan)["p-fedavg, ring:4"].group == "some"
    assert not any("complete:3" in name for name in names)


def test_only_those_named_and_fedavg(fleet):
    plan = plan_methods(fleet(1, 2, 3), model=MODEL, overrides=EXACT, algorithms=["fedbuff@buffer=3", "ditto"])
    assert {one.method.label for one in plan.candidates} == {"fedavg", "fedbuff buffer=3", "ditto"}
    assert "ditto@participants=3" in [one.name for one in plan.candidates], "as many at a time as the others"
    with pytest.raises(SettingError, match="fedbufff"):
        plan_methods(fleet(1, 2, 3), algorithms=["fedbufff"])
    with pytest.raises(SettingError, match="participants is 9; of 3 devices"):
        plan_methods(fleet(1, 2, 3), participants=9)


def test_the_tree_is_plain_and_the_command_can_be_run(fleet):
    plan = plan_methods(fleet(1, 2, 3), model=MODEL, overrides=EXACT, algorithms=["psfl", "fedbuff"])
    tree = json.loads(json.dumps(as_tree(plan), allow_nan=False))
    assert tree["devices"] == 3 and tree["recommendation"]["name"] == plan.best.name
    words = shlex.split(command(plan))
    assert words[:2] == ["paceline", "compare"] and words[2 : 2 + len(tries(plan))] == tries(plan)
    settings = [value for word, value in itertools.pairwise(words) if word == "--set"]
    for name in tries(plan):
        assert make_settings(name, settings).clients == 3
    assert "3 devices" in repr(plan)


@pytest.mark.parametrize("participants", range(1, 50))
def test_structures_have_as_many_participants_as_can_be(participants):
    found = structures(participants)
    assert len(found) <= 4 and all(width > 1 and length > 1 for width, length in found)
    whole = [width * length == participants for width, length in found]
    assert all(whole) or not any(whole)


def test_a_recipe_of_ones_own_is_the_same_for_all(tmp_path):
    times = {}
    for epochs in (1, 3):
        overrides = [*EXACT, f"local.epochs={epochs}"]
        file = tmp_path / "fleet.toml"
        file.write_text("[[device]]\ncount = 3\nflops = 1e6\n")
        plan = plan_methods(str(file), model=MODEL, overrides=overrides, algorithms=["dispfl", "fedavg"])
        times[epochs] = {one.method.label: one.figures.visit_seconds for one in plan.candidates}
    assert times[3]["fedavg"] == pytest.approx(3 * times[1]["fedavg"], rel=0.01)
    assert times[3]["dispfl"] == pytest.approx(3 * times[1]["dispfl"], rel=0.1), "it also looks where to grow"


def test_long_dry_runs_must_be_asked_for():
    methods = {one.label: one.most for one in shortlist(5000, 20)}
    assert methods["dispfl"] < 5000 < methods["apfl"] and methods["fedbuff, buffer 10"] > 10**8


def test_the_page_of_a_plan_is_text_and_fetches_nothing(tmp_path):
    file = tmp_path / "<img src=x onerror=alert(1)>.csv"
    file.write_text("seconds\n1\n2\n3\n")
    plan = plan_methods(str(file), model=MODEL, overrides=EXACT, algorithms=["fedbuff"])
    page = render_plan(plan)
    assert "&lt;img src=x" in page and "<img" not in page and "<script" not in page
    assert not re.search(r"(src|href)=|url\((?!#)|@import", page.replace("&lt;img src=x onerror", ""))
    for one in plan.candidates:
        assert one.name in page
    again = write_plan(plan, tmp_path / "plan.html")
    assert again.read_text() == page
    with pytest.raises(FileExistsError):
        write_plan(plan, again)


def test_all_methods_are_compared_under_one_rule_of_absence(tmp_path):
    """DGA waits by its own rule and FedAvg does not: by their own rules DGA's rounds were eleven times as long."""
    path = tmp_path / "away.csv"
    path.write_text("seconds,availability\n" + '2,"duty:200,0.5"\n' * 6)
    plan = plan_methods(str(path), model=MODEL, overrides=EXACT, algorithms=["dga"])
    found = figures(plan)
    assert {one.absence for one in found.values()} == {"skip"}
    assert found["dga"].round_seconds == pytest.approx(found["fedavg"].round_seconds, rel=0.2)
    assert "skip, for all methods" in render_plan(plan) and "skip, for all" in as_tree(plan)["absence"]
    own = plan_methods(str(path), model=MODEL, overrides=[*EXACT, "absence=own"], algorithms=["dga"])
    assert {one.method.label: one.figures.absence for one in own.candidates} == {"fedavg": "skip", "dga": "wait"}
    assert "wait: dga" in render_plan(own)


def test_a_plan_has_the_faults_of_the_run(fleet):
    """Of models on their way down 40 % are lost, so that 6 of 10 visits begin."""
    plan = plan_methods(fleet(*[1] * 10), model=MODEL, overrides=[*EXACT, "faults=lost:0.4"], algorithms=["fedavg"])
    assert figures(plan)["fedavg"].round_visits == pytest.approx(6, rel=0.15)


def test_a_server_that_fails_ends_a_plan_with_a_message(fleet):
    overrides = [*EXACT, "fleet.failures=server:1@20", "fleet.server=constant:1"]
    with pytest.raises(SiteError, match="server 1 failed at t=20 s"):
        plan_methods(fleet(1, 1, 1), model=MODEL, overrides=overrides, algorithms=["fedavg"])


@pytest.mark.parametrize("epochs", [{"local": {"epochs": 5}}, {"algorithm": {"local": {"epochs": 5}}}])
def test_the_command_repeats_every_setting_of_the_plan(fleet, epochs):
    """Settings of a tree, the partition and the recipe among them, make the same run on the command line."""
    tree = {**epochs, "partition": "dirichlet:0.5", "clients": 4, "fleet": {"jitter": 0}}
    plan = plan_methods(fleet(*[1] * 6), model=MODEL, dataset="digits", settings=tree, algorithms=["fedbuff"])
    words = shlex.split(command(plan))
    settings = [value for word, value in itertools.pairwise(words) if word == "--set"]
    made = make_settings("fedavg", settings)
    assert (made.clients, made.partition, made.absence) == (4, "dirichlet:0.5", "skip")
    assert made.algorithm.local.epochs == 5
    assert made.fleet == plan.settings.fleet and plan.settings.algorithm.local.epochs == 5


def test_python_recommends_the_same_overlay_as_the_command_line(monkeypatch):
    asked = {}
    monkeypatch.setattr(overlays, "plan_servers", lambda *_, **words: asked.update(words))
    paceline.plan_servers(["ring"], [4], clients=100, participants=20)
    assert asked["simulate"]
