"""The page in a real browser: charts, controls, dark paper, small screens, assistive technology."""

import json
import re
import shutil
from xml.etree import ElementTree

import pytest

from paceline.report.page import write_report
from tests.ui.browsing import SETTLED, Watched

pytestmark = pytest.mark.browser

LINES = "document.querySelectorAll('#curve-chart .chart svg path').length"
PAINTED = """(least) => {
  const canvas = document.querySelector("canvas.timeline"), pen = canvas.getContext("2d");
  const pixels = pen.getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
  for (let k = 0; k < pixels.length; k += 4) seen.add((pixels[k] << 16) | (pixels[k + 1] << 8) | pixels[k + 2]);
  return seen.size > least;
}"""
"""Whether the timeline shows more than so many colours; it is drawn in a frame after the page is ready."""


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (420, "light"), (1280, "dark")])
def test_nothing_is_wrong_at_any_width_on_any_paper(browser, comparison, width, scheme):
    watched = Watched(browser, f"file://{comparison.parent}", width=width, scheme=scheme)
    page = watched.go("/page.html")
    page.evaluate("paceline.ready")
    page.evaluate(SETTLED)
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    watched.check()
    watched.page.close()


def test_charts_are_not_empty_and_can_be_chosen(opened, comparison):
    page = opened(comparison)
    assert page.evaluate(LINES) > 10
    page.wait_for_function(PAINTED, arg=4)
    for axis in ("round", "bytes", "joules", "time"):
        page.locator(f"[data-axis={axis}]").click()
        assert page.locator(f"[data-axis={axis}]").get_attribute("aria-pressed") == "true"
        assert page.evaluate(LINES) > 10
    page.locator("[data-measure=loss]").click()
    assert "loss over" in page.locator("#curve-chart .chart").get_attribute("aria-label")
    before = page.evaluate(LINES)
    page.locator("#curve-chart .legend button").first.click()
    assert page.evaluate(LINES) < before


def test_the_chart_of_the_curves_zooms(opened, comparison):
    page = opened(comparison)
    zoom = "(({start, end}) => end - start)(paceline.curves.chart.getOption().dataZoom[0])"
    assert page.evaluate(zoom) == pytest.approx(100)
    page.locator("[data-zoom=in]").click()
    assert page.evaluate(zoom) == pytest.approx(50)
    page.locator("[data-zoom=out]").click()
    assert page.evaluate(zoom) == pytest.approx(100)


CHARTS = {
    "accuracy-over-time": ("accuracy over virtual time", {"fedavg", "psfl", "fedbuff"}, "method,time,accuracy"),
    "timeline of fedavg, seed 0": (
        "fedavg, seed 0",
        {"train", "send", "wait", "server"},
        "site,kind,start,end,round",
    ),
    "topology of psfl, seed 0": ("psfl, seed 0", {"server", "device", "11"}, "from,to,bytes,failed"),
    "how the data are spread": ("How the data are spread", {"label 0", "label 9"}, "client,label 0,label 1"),
}
"""By the name of its buttons: the title of what is saved, some of what stands in it, and how its table begins."""


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_can_be_saved_and_explains_itself(opened, comparison, tmp_path, name):
    page = opened(comparison)
    title, names, head = CHARTS[name]
    saved = {}
    for kind in ("SVG", "PNG", "CSV"):
        with page.expect_download() as download:
            page.get_by_role("button", name=f"save {name} as {kind}", exact=True).click()
        assert re.fullmatch(r"[\w.=-]+\.[a-z]{3}", download.value.suggested_filename)
        download.value.save_as(tmp_path / kind)
        saved[kind] = (tmp_path / kind).read_bytes()
    drawing = ElementTree.fromstring(saved["SVG"])
    texts = ["".join(one.itertext()) for one in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == title
    assert names <= {*texts}
    assert saved["PNG"].startswith(b"\x89PNG")
    size = [int.from_bytes(saved["PNG"][at : at + 4], "big") for at in (16, 20)]
    assert size == [2 * round(float(drawing.get(key))) for key in ("width", "height")]
    first, *rows = saved["CSV"].decode().splitlines()
    assert first.startswith(head)
    assert len(rows) > 5


def test_bars_of_methods_are_told_apart_without_colour(opened, comparison):
    """Dashed methods have striped bars, and so have their keys."""
    page = opened(comparison)
    groups = page.evaluate("paceline.data.groups.map(({label, look}) => [label, look.dash.length])")
    assert [label for label, dashed in groups if dashed] == ["fedbuff"]
    box = page.locator("[data-bars]", has=page.get_by_role("button", name="save distribution of staleness as SVG"))
    assert box.locator(".chart svg pattern").count() >= 1
    stripes = [key.locator("path").count() > 0 for key in box.locator("li.key").all()]
    assert stripes == [label == "fedbuff" for label, _ in groups]


def test_the_timeline_is_saved_as_it_is_seen(opened, comparison, tmp_path):
    """As many bars as in sight, and none of a kind that is off."""
    page = opened(comparison)

    def bars():
        with page.expect_download() as download:
            page.get_by_role("button", name="save timeline of fedavg, seed 0 as SVG").click()
        download.value.save_as(tmp_path / "saved.svg")
        fills = re.findall(r'<rect[^>]* fill="(#\w+)"', (tmp_path / "saved.svg").read_text())
        return [fills.count(page.evaluate(f"getComputedStyle(document.body).getPropertyValue('--{kind}')"))
                for kind in ("train", "wait")]  # fmt: skip

    trainings, waits = bars()
    assert trainings > 12 and waits > 12
    page.locator("[data-kind=wait]").click()
    assert bars() == [trainings, 0]
    page.locator("[data-do=in]").click()
    assert bars()[0] < trainings


def test_a_stretch_chosen_in_the_chart_is_shown_by_the_timeline(opened, comparison):
    page = opened(comparison)
    box = page.locator("#curve-chart .chart").bounding_box()
    page.mouse.move(box["x"] + 90, box["y"] + 150)
    page.mouse.down()
    page.mouse.move(box["x"] + 190, box["y"] + 160, steps=5)
    page.mouse.up()
    from_, to = page.evaluate("paceline.curves.stretch")
    view = page.evaluate("paceline.timeline.state.view")
    assert to > from_
    assert (view["from"], view["to"]) == (pytest.approx(from_), pytest.approx(to))


def test_dark_paper_is_dark_and_methods_keep_their_hues(opened, comparison):
    page = opened(comparison)
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    page.locator("[data-theme-choice=dark]").click()
    assert page.evaluate(ground) == "rgb(20, 24, 30)"
    looks = page.evaluate("paceline.data.groups.map((group) => group.look)")
    drawn = page.evaluate("document.querySelector('#curve-chart .chart svg').outerHTML").lower()
    assert all(look["dark"] in drawn for look in looks)
    assert not any(look["colour"] in drawn for look in looks)


def test_on_paper_it_is_light_and_without_buttons(opened, comparison):
    page = opened(comparison, scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("[data-axis=time]").is_visible()


def test_without_script_all_tables_are_there(browser, comparison):
    page = browser.new_page(java_script_enabled=False)
    page.goto(f"file://{comparison}")
    assert page.locator("noscript p").is_visible()
    assert page.locator("table.compared tbody th").all_text_contents() == ["fedavg", "psfl", "fedbuff"]
    page.close()


def test_every_button_is_within_reach_of_the_keyboard(opened, comparison):
    page = opened(comparison)
    page.locator("canvas.timeline").focus()
    from_ = page.evaluate("paceline.timeline.state.view.to")
    page.keyboard.press("+")
    assert page.evaluate("paceline.timeline.state.view.to") < from_
    page.keyboard.press("n")
    assert re.search(r"waits for", page.locator("#timeline-words").text_content())
    page.keyboard.press("Escape")
    assert page.evaluate("paceline.timeline.state.chosen") == -1
    assert page.evaluate("[...document.querySelectorAll('button')].every((one) => one.tabIndex === 0)")


NASTY = "<img src=x onerror=\"document.title='caught'\"><script>document.title='caught'</script>"


def test_names_that_are_markup_stay_text(opened, comparison, tmp_path):
    """As the label of a method, in settings and in what was decided."""
    runs = []
    for name in ("fedavg-seed0", "psfl-seed0"):
        shutil.copytree(comparison.parent / "runs" / name, tmp_path / name)
        settings = json.loads((tmp_path / name / "settings.json").read_text()) | {"algorithm": NASTY + name}
        (tmp_path / name / "settings.json").write_text(json.dumps(settings | {"dataset": NASTY}))
        summary = json.loads((tmp_path / name / "summary.json").read_text())
        note = {"time": 1.0, "kind": "failure", "name": NASTY, "text": NASTY, "sites": [-1]}
        summary |= {"notes": [note], "distributions": {NASTY: {"1": 2}}, "model": NASTY}
        (tmp_path / name / "summary.json").write_text(json.dumps(summary))
        runs.append(tmp_path / name)
    page = opened(write_report(runs, tmp_path / "nasty.html", NASTY))
    page.evaluate(SETTLED)
    box = page.locator("#curve-chart .chart").bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 150)
    page.locator("canvas.timeline").hover()
    page.locator("[data-do=longest]").click()
    assert page.title() == NASTY
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 3
