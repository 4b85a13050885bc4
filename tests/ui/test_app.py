"""What the application answers, to whom, and that nothing else comes out of it."""

import os
import re

import pytest

from paceline.ui.app import LARGEST_FORM
from paceline.ui.planning import Planner
from tests.ui.conftest import lines, rows, serve

HOSTILE = "<img src=x onerror=alert(1)>\"'&"


def test_the_list_shows_runs_with_status_and_figures(client, write_run):
    write_run("many/fedavg-seed0")
    write_run("many/psfl-seed0", algorithm="psfl", status="running")
    page = client.get("/").text
    assert "2 of 2 runs." in page and "many, 2 runs" in page
    assert "interrupted" in page and "/live?run=many%2Ffedavg-seed0" in page
    assert "1 of 2 runs." in client.get("/table", params={"q": "psfl"}).text
    assert "There is no run yet" not in page


def test_an_empty_directory_says_what_to_do(client):
    assert "There is no run yet" in client.get("/").text


def test_everything_of_a_run_is_escaped(client, write_run, root):
    name = HOSTILE.replace("/", "")
    write_run(name, algorithm=HOSTILE, dataset=HOSTILE)
    damaged = write_run("<b>damaged")
    (damaged / "settings.json").write_text('{"algorithm": "<script>alert(1)</script>", "seed": "<evil-seed>"}')
    failed = write_run("failed")
    (failed / "summary.json").write_text('{"status": "failed: <evil-status>", "error": "<script>alert(2)</script>"}')
    for page in (
        client.get("/").text,
        client.get("/", params={"q": '"><script>alert(3)</script>'}).text,
        client.get("/live", params={"run": name}).text,
        client.get("/compare", params={"run": name}).text,
        client.get("/live", params={"run": "<script>alert(4)</script>"}).text,
    ):
        assert "<img src=x" not in page and "<script>alert" not in page
        assert "<b>damaged" not in page and "<evil-" not in page


def test_a_name_that_is_no_text_is_listed_and_harms_nobody(client, root, write_run):
    os.rename(write_run("plain"), os.fsencode(root) + b"/\xff\xfe")
    assert client.get("/").status_code == 200


@pytest.mark.parametrize(
    "name", ["../outside", "/etc", "..", "one/..", "./one", "one/", "one/../../outside", "%2e%2e/outside", "one\x00"]
)
@pytest.mark.parametrize("path", ["/live", "/compare", "/news"])
def test_nothing_outside_the_directory_is_served(client, write_run, root, name, path):
    write_run("one")
    write_run("other").rename(root.parent / "outside")
    answer = client.get(path, params={"run": name, "from": 0})
    assert answer.status_code == 404
    assert "there is no run" in answer.text


@pytest.mark.parametrize("name", ["../app.py", "..%2fapp.py", "%2e%2e/app.py", "ui.css/../../app.py", "app.py", ""])
def test_static_files_are_a_few_by_name(client, name):
    answer = client.get(f"/static/{name}")
    assert answer.status_code == 404 and "import" not in answer.text
    assert client.get("/static/ui.css").headers["content-type"].startswith("text/css")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8181", "127.0.0.1.evil.example", "", "localhost.evil", "10.0.0.1"]
)
def test_strange_names_are_refused(client, host):
    assert client.get("/", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1:8181", "localhost:9999", "localhost", "[::1]:8181", "LOCALHOST"])
def test_names_of_this_machine_are_answered(client, host):
    assert client.get("/", headers={"Host": host}).status_code == 200


def test_an_open_server_answers_to_addresses_but_to_no_strange_name(root):
    with serve(root, "0.0.0.0") as client:
        assert client.get("/", headers={"Host": "192.168.1.7:8181"}).status_code == 200
        assert client.get("/", headers={"Host": "evil.example"}).status_code == 421


def test_other_sites_get_no_answer(client):
    strange = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert client.get("/table", headers=strange).status_code == 403
    assert client.get("/", headers=strange | {"Sec-Fetch-Mode": "navigate"}).status_code == 200


def test_every_answer_has_the_headers(client, write_run):
    write_run("one")
    for path in ("/", "/plan", "/live?run=one", "/static/live.js", "/nosuch"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
    report = client.get("/compare?run=one").headers["content-security-policy"]
    assert "sandbox allow-scripts" in report and "allow-same-origin" not in report and "connect-src" not in report


def secret(client):
    return re.search(r'name="secret" value="([^"]+)"', client.get("/plan").text)[1]


def test_forms_of_other_sites_are_refused(client):
    asked = {"algorithm": "fedavg", "secret": secret(client)}
    assert client.post("/plan", data=asked | {"secret": "x"}).status_code == 403
    assert client.post("/plan", data={"algorithm": "fedavg"}).status_code == 403
    assert client.post("/plan", data=asked, headers={"Origin": "http://evil.example"}).status_code == 403
    assert client.post("/plan", data=asked, headers={"Origin": "null"}).status_code == 403


def test_a_form_that_is_too_large_is_refused(client):
    answer = client.post("/plan", content=b"fleet=" + b"x" * LARGEST_FORM)
    assert answer.status_code == 422 and "bytes" in answer.text
    answer = client.post("/plan", data={"secret": secret(client)} | {f"field{k}": "x" for k in range(100)})
    assert answer.status_code == 422 and "more than 100 fields" in answer.text


def test_metrics_are_followed_line_by_line(client, write_run, hold):
    path = write_run("one", status="running", count=3)
    hold(path)
    first = client.get("/news?run=one&from=0").json()[0]
    assert [row[0] for row in first["rows"]] == [1, 2, 3] and first["status"] == "running"
    text = lines(rows(2, begin=3))
    with (path / "metrics.jsonl").open("a") as file:
        file.write(text[:-20])
        file.flush()
        half = client.get(f"/news?run=one&from={first['next']}").json()[0]
        file.write(text[-20:])
    assert [row[0] for row in half["rows"]] == [4]
    rest = client.get(f"/news?run=one&from={half['next']}").json()[0]
    assert [row[0] for row in rest["rows"]] == [5]
    assert client.get(f"/news?run=one&from={rest['next']}").json()[0]["rows"] == []


def test_damaged_metrics_are_told_and_not_fatal(client, write_run):
    path = write_run("one")
    with (path / "metrics.jsonl").open("a") as file:
        file.write("{\n" + lines(rows(1, begin=10)))
    told = client.get("/news?run=one&from=0").json()[0]
    assert told["rows"] == [] and "metrics.jsonl" in told["problem"]


@pytest.mark.parametrize("words", ["", "run=one", "run=one&from=-1", "run=one&from=x", "run=one&from=" + "9" * 30])
def test_news_must_be_asked_for_properly(client, write_run, words):
    write_run("one")
    assert client.get(f"/news?{words}").status_code == 422


def test_compare_is_the_page_of_the_report(client, write_run):
    from paceline.report.page import render
    from paceline.report.runs import load_run

    one, other = write_run("one"), write_run("other", algorithm="psfl")
    page = client.get("/compare?run=one&run=other").text
    assert page == render([load_run(one), load_run(other)], "fedavg, psfl")


def test_spans_that_are_links_are_not_reported_on(client, write_run, tmp_path):
    (write_run("one") / "spans").symlink_to(tmp_path)
    assert "spans is a symbolic link" in client.get("/compare?run=one").text


def test_compare_explains_what_it_cannot_do(client, write_run):
    write_run("one")
    write_run("twin")
    assert "same settings and seed" in client.get("/compare?run=one&run=twin").text
    assert client.get("/compare").status_code == 422


def test_twins_can_be_followed(client, write_run):
    write_run("one")
    write_run("twin")
    page = client.get("/live?run=one&run=twin").text
    assert 'data-label="one"' in page and 'data-label="twin"' in page


def test_seeds_of_a_method_share_its_look_and_differ_in_label(client, write_run):
    for seed in (0, 1):
        write_run(f"seed{seed}", seed=seed)
    page = client.get("/live?run=seed0&run=seed1").text
    assert re.findall(r'data-label="([^"]+)"', page) == ["fedavg, seed 0", "fedavg, seed 1"]
    assert len(set(re.findall(r'data-colour="([^"]+)"', page))) == 1
    write_run("other", "psfl", seed=1)
    page = client.get("/live?run=seed0&run=other").text
    assert re.findall(r'data-label="([^"]+)"', page) == ["fedavg, seed 0", "psfl, seed 1"], "seeds differ"


class Pretends(Planner):
    """A planner that starts no process."""

    async def _made(self, asked):
        return f"<p>{asked.algorithms} {asked.settings}</p>"


@pytest.fixture
def planner(root):
    with serve(root, planner=Pretends()) as made:
        yield made


def test_a_plan_is_answered_with_a_page_in_a_frame(planner):
    asked = {"algorithm": ["fedavg", "psfl"], "clients": "10", "times": "constant:2.5", "secret": secret(planner)}
    answer = planner.post("/plan", data=asked)
    page = re.search(r'<iframe src="(/plan/[^"]+)"', answer.text)[1]
    made = planner.get(page)
    assert "('fedavg', 'psfl') ('clients=10', 'rounds=20', 'fleet.times=constant:2.5'," in made.text
    assert "sandbox" in made.headers["content-security-policy"]
    assert planner.get("/plan/nosuch").status_code == 404


def test_what_was_said_stays_in_the_form(planner):
    asked = {"algorithm": "psfl", "clients": '"><script>alert("x")</script>', "links": "seconds:3,3"}
    answer = planner.post("/plan", data=asked | {"secret": secret(planner)})
    assert answer.status_code == 422 and "a plan of this page takes 1 to 10,000" in answer.text
    assert "<script>alert" not in answer.text and "&lt;script&gt;alert" in answer.text
    assert '<option selected="">seconds:3,3</option>' in answer.text
