"""``paceline ui`` as somebody uses it: a real server, a real run, a real browser."""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.ui.browsing import PATIENCE, Watched
from tests.ui.conftest import lines, rows

pytestmark = pytest.mark.browser
expect.set_options(timeout=PATIENCE)
HOSTILE = "<img src=x onerror=alert(1)>"
PICTURES = os.environ.get("PACELINE_PICTURES")
"""Where the pictures of the documentation go, if they are to be made."""


@contextmanager
def command(*words, cwd):
    """A command of the command line, ended when nobody needs it any more."""
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen(
        [sys.executable, "-m", "paceline", *words], cwd=cwd, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()


@pytest.fixture
def served(root):
    """The address of a server of the runs' directory."""
    with command("ui", str(root), "--port", "0", cwd=root.parent) as process:
        yield re.search(r"(http://127\.0\.0\.1:\d+)/", process.stdout.readline())[1]


def watch(browser, served, **options):
    return Watched(browser, served, **options)


def picture(page, name, height=700):
    if PICTURES:
        page.set_viewport_size({"width": 1000, "height": height})
        page.wait_for_timeout(500)  # until it is drawn anew
        page.screenshot(path=Path(PICTURES) / f"{name}.png")


@pytest.fixture
def some_runs(write_run):
    for name in ("fedavg", "psfl"):
        for seed in (0, 1):
            path = write_run(
                f"comparison/{name}-seed{seed}", name, seed, count=30, target={"accuracy": 0.7, "time": 220.0}
            )
            rate = 0.08 + 0.05 * (name == "psfl") + 0.01 * seed
            (path / "metrics.jsonl").write_text(lines(rows(30, rate=rate)))
    write_run("slower", "fedavg", 0, clients=500, status="running")
    (write_run("broken") / "settings.json").write_text("{")
    write_run(HOSTILE, HOSTILE, dataset=HOSTILE)


@pytest.mark.parametrize(("width", "scheme"), [(1180, "light"), (1180, "dark"), (420, "light"), (420, "dark")])
def test_the_list_is_filtered_and_runs_are_chosen_by_keyboard(browser, served, some_runs, width, scheme):
    seen = watch(browser, served, width=width, scheme=scheme)
    page = seen.go("/")
    assert page.locator("#runs tbody tr:not(.group)").count() == 7
    assert page.locator(".status.damaged").is_visible() and page.locator("img").count() == 0
    seen.check()
    page.get_by_label("Show only").fill("digits status!=damaged")
    expect(page.locator("#runs tbody tr:not(.group)")).to_have_count(5)
    if (width, scheme) == (1180, "light"):
        picture(page, "ui-list")
    page.get_by_label("Show only").fill("clients=100 psfl")
    expect(page.locator("#runs tbody tr:not(.group)")).to_have_count(2)
    page.get_by_label("all 2 runs in comparison").focus()
    page.keyboard.press("Space")
    assert page.locator("#count").text_content() == "2 runs are chosen"
    page.locator("button", has_text="Follow").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/live?**")
    expect(page.locator("#chart path.line")).to_have_count(2)
    seen.check()


def test_paper_is_dark_where_that_is_wished(browser, served, some_runs):
    def paper(scheme):
        page = watch(browser, served, scheme=scheme).go("/live?run=comparison/fedavg-seed0")
        page.wait_for_selector("#chart path.line")
        line = page.locator("#chart path.line").get_attribute("stroke")
        return page.evaluate("getComputedStyle(document.body).backgroundColor"), line

    light, dark = paper("light"), paper("dark")
    assert light[0] == "rgb(255, 255, 255)" and dark[0] == "rgb(20, 24, 30)"
    assert light[1] != dark[1]


def test_chosen_runs_are_compared_on_the_page_of_the_report(browser, served, some_runs):
    seen = watch(browser, served)
    page = seen.go("/")
    for seed in (0, 1):
        page.get_by_label(f"comparison/fedavg-seed{seed}").check()
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/compare?**")
    assert page.locator("h1").text_content() == "fedavg"
    assert page.evaluate("window.origin") == "null", "the report is a stranger to the server"
    assert seen.outside == [] and seen.complaints == []


def test_values_are_read_with_the_arrow_keys(browser, served, some_runs):
    seen = watch(browser, served)
    page = seen.go("/live?run=comparison/fedavg-seed0&run=comparison/psfl-seed0")
    page.wait_for_selector("#chart path.line")
    picture(page, "ui-live")
    page.locator("#chart svg").focus()
    page.keyboard.press("End")
    assert re.search(r"at 300 s: fedavg: \d\d\.\d %, psfl: \d\d\.\d %", page.locator("#reading").text_content())
    page.keyboard.press("Home")
    assert page.locator("#reading").text_content() == "at 0 s: nothing yet"
    assert "target 70.0 %" in page.locator("#chart").text_content()
    page.get_by_label("over", exact=True).select_option("rounds")
    page.get_by_label("Show", exact=True).select_option("loss")
    assert "rounds" in page.locator("#chart").text_content()
    assert "target" not in page.locator("#chart").text_content()
    seen.check()


def test_a_run_is_followed_while_it_runs(browser, served, root):
    words = [
        "run",
        "fedavg",
        "--set",
        "clients=10",
        "--set",
        "rounds=100000",
        "--set",
        "partition=iid",
        "--out",
        "runs/live",
    ]
    with command(*words, cwd=root.parent) as process:
        while "learning" not in (line := process.stdout.readline()):
            assert line, "the run has ended"
        seen = watch(browser, served)
        page = seen.go("/")
        page.wait_for_selector(".status.running")
        page.get_by_role("link", name="live").click()
        page.wait_for_selector("#chart path.line")
        first = page.locator("#chart path.line").get_attribute("data-points")
        told = page.locator("tr[data-run] td").nth(1).text_content()
        expect(page.locator("#chart path.line")).not_to_have_attribute("data-points", first)
        assert int(page.locator("#chart path.line").get_attribute("data-points")) > int(first)
        expect(page.locator("tr[data-run] td").nth(1)).not_to_have_text(told)
        assert "live: 1 of 1 run is running" in page.locator("#state").text_content()
        seen.check()
    expect(page.locator("tr[data-run] .status")).to_have_text("interrupted")
    assert seen.complaints == []


@pytest.mark.parametrize("width", [1180, 420])
def test_a_plan_is_made_with_a_timeline_as_answer(browser, served, width):
    seen = watch(browser, served, width=width)
    page = seen.go("/plan")
    seen.check()
    page.get_by_label("Devices", exact=True).fill("12")
    page.get_by_label("Rounds").fill("4")
    page.get_by_label("How long devices train").select_option("exponential:2.5")
    page.get_by_role("button", name="Plan").click()
    page.wait_for_selector("iframe")
    frame = page.frame_locator("iframe")
    frame.get_by_role("heading", name="fedavg, psfl").wait_for()
    assert frame.locator("svg, canvas").count() > 0
    seen.check()
    if width == 1180:
        picture(page, "ui-plan", height=1100)
    assert page.get_by_label("Devices", exact=True).input_value() == "12"
    assert page.get_by_label("How long devices train").input_value() == "exponential:2.5"


def test_a_plan_that_cannot_be_made_says_why(browser, served):
    seen = watch(browser, served)
    page = seen.go("/plan")
    page.get_by_label("psfl", exact=True).uncheck()
    page.get_by_label("fedavg", exact=True).uncheck()
    page.get_by_role("button", name="Plan").click()
    assert "0 algorithms are chosen" in page.get_by_role("alert").text_content()
