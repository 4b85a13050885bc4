"""1,000 devices and 100,000 spans: small enough, quick enough, and a wait and its cause in three clicks."""

import itertools
import json

import pytest

pytestmark = pytest.mark.browser

STATE = "paceline.timeline.state"
VIEW = f"{STATE}.view"


def test_the_page_is_small_and_says_what_it_holds(crowd):
    text = crowd.read_text()
    assert len(text) < 10_000_000
    assert "100,000 at most, so it is a whole stretch of time" in text


def test_it_can_be_used_within_three_seconds(opened, crowd):
    """From opening to the first picture, by the browser's own clock."""
    page = opened(crowd)
    used = page.evaluate("new Promise((done) => requestAnimationFrame(() => done(performance.now())))")
    count = page.evaluate("paceline.timeline.state.spans.count")
    print(f"{count} spans, usable after {used:.0f} ms, page of {crowd.stat().st_size / 1e6:.1f} MB")
    assert 90_000 < count <= 101_000
    assert page.evaluate("paceline.timeline.state.spans.sites") == 1001
    assert used < 3000


def test_it_pans_without_freezing(opened, crowd):
    """Every frame while somebody drags, from far and from near: how long its drawing took."""
    page = opened(crowd)
    page.locator("canvas.timeline").scroll_into_view_if_needed()
    box = page.locator("canvas.timeline").bounding_box()
    for zooms in (1, 6):
        for _ in range(zooms):
            page.locator("[data-do=in]").click()
        page.evaluate("paceline.timeline.frames.length = 0")
        before = page.evaluate(VIEW)["from"]
        page.mouse.move(box["x"] + 700, box["y"] + 200)
        page.mouse.down()
        for step in range(40):
            page.mouse.move(box["x"] + 700 - 8 * step, box["y"] + 200)
        page.mouse.up()
        frames = page.evaluate("paceline.timeline.frames")
        print(f"{len(frames)} frames: mean {sum(frames) / len(frames):.1f} ms, longest {max(frames):.1f} ms")
        assert page.evaluate(VIEW)["from"] > before
        assert len(frames) >= 5
        assert sorted(frames)[len(frames) // 2] < 100, "ten pictures a second, also on a slow and busy machine"


def test_a_wait_and_its_cause_are_found_in_three_clicks(opened, crowd):
    page = opened(crowd)
    page.locator("[data-do=longest]").click()
    told = page.locator("#timeline-words").text_content()
    assert "waits for client" in told
    assert "meanwhile client" in told
    state = page.evaluate("(({pinned, lit, chosen, spans}) => ({pinned, lit, wait: Array.from(spans.length)[chosen],"
                          " peer: spans.peer[chosen], longest: Math.max(...spans.length.filter((_, i) =>"
                          " spans.kind[i] === 4 && spans.peer[i] >= 0))}))(paceline.timeline.state)")  # fmt: skip
    assert state["wait"] == state["longest"]
    assert state["pinned"][1] == state["peer"], "the cause has a row beside the one who waits"
    assert len(state["lit"]) >= 2


def test_pointing_at_a_wait_lights_up_its_cause(opened, crowd):
    page = opened(crowd)
    page.locator("[data-do=longest]").click()
    chosen = page.evaluate(f"{STATE}.chosen")
    box = page.locator("canvas.timeline").bounding_box()
    page.mouse.move(box["x"] + 96 + 0.6 * (box["width"] - 96), box["y"] + 10)
    assert page.evaluate("paceline.timeline.state.lit[0]") == chosen
    assert "waits for client" in page.locator("#tip").text_content()


def test_devices_are_found_sorted_and_filtered(opened, crowd):
    page = opened(crowd)
    page.locator("[data-search]").fill("417")
    page.locator("[data-search]").press("Enter")
    names = "paceline.timeline.state.spans.names"
    assert page.evaluate(f"{names}[paceline.timeline.state.marked]") == "client 417"
    assert page.locator("#timeline-words").text_content().startswith("client 417: waited")
    for order, column in (("waiting", "waiting"), ("speed", "training"), ("traffic", "traffic")):
        page.get_by_label("sort by").select_option(order)
        values = page.evaluate(
            f"(({{order, spans}}) => Array.from(order).slice(1).map((site) => spans.{column}[site]))({STATE})"
        )
        assert values == sorted(values, reverse=True)
        assert values[0] > values[-1]
    page.locator("[data-kind=wait]").click()
    page.get_by_label("rounds from").fill("3")
    page.get_by_label("rounds from").press("Enter")
    shown = page.evaluate("""(({spans, filter}) => {
      const seen = new Set();
      for (let i = 0; i < spans.count; i += 1) {
        if (filter.passes(spans, i)) seen.add(`${spans.kind[i] === 4} ${spans.round[i] >= 3}`);
      }
      return [...seen];
    })(paceline.timeline.state)""")
    assert shown == ["false true"]


def test_the_critical_path_of_a_round_has_its_length(opened, crowd):
    page = opened(crowd)
    page.locator("[data-round]").fill("4")
    page.locator("[data-do=critical]").click()
    found = page.evaluate("""(({spans, path}) => {
      const of = (i) => ({site: spans.site[i], start: spans.start[i], end: spans.end[i], kind: spans.kind[i]});
      let begin = Infinity, end = -Infinity;
      for (let i = 0; i < spans.count; i += 1) {
        if (spans.round[i] === 4) { begin = Math.min(begin, spans.start[i]); end = Math.max(end, spans.end[i]); }
      }
      return {begin, end, path: path.map(of)};
    })(paceline.timeline.state)""")
    path = found["path"]
    assert all(one["kind"] != 4 for one in path)
    assert path[0]["start"] == pytest.approx(found["begin"])
    assert path[-1]["end"] == pytest.approx(found["end"])
    for one, other in itertools.pairwise(path):
        assert other["start"] == pytest.approx(one["end"], rel=1e-5), json.dumps(path)
    assert page.locator("#timeline-words").text_content().startswith("Round 4 took ")


def test_zooming_goes_from_the_heat_map_to_bars_and_back(opened, crowd):
    page = opened(crowd)
    assert page.evaluate(VIEW)["height"] < 1, "all devices are seen at once"
    whole = page.evaluate(VIEW)
    for _ in range(6):
        page.get_by_role("button", name="zoom in, devices").click()
        page.get_by_role("button", name="zoom in, time").click()
    near = page.evaluate(VIEW)
    assert near["height"] >= 7
    assert near["to"] - near["from"] == pytest.approx((whole["to"] - whole["from"]) / 64)
    canvas = page.locator("canvas.timeline")
    canvas.focus()
    canvas.hover()
    page.mouse.wheel(0, 240)
    assert page.evaluate(VIEW)["to"] - page.evaluate(VIEW)["from"] > near["to"] - near["from"]
    page.locator("[data-do=everything]").click()
    assert page.evaluate(VIEW) == whole
