"""The page with the form for plans, and the answer."""

from __future__ import annotations

from collections.abc import Mapping

from paceline.algorithms.registry import ALGORITHMS
from paceline.data.specs import SPECS
from paceline.report.text import tag, words
from paceline.ui.shell import field, shell, void

NOTE = (
    "A plan runs algorithms without learning anything: what they do, who waits for whom, bytes and time. What"
    " accuracy comes of it, it cannot know. Data are split evenly unless more settings say otherwise (partition), and"
    " a run ends after 30,000 visits at the latest. It takes some seconds."
)
USUAL = {
    "clients": "50",
    "rounds": "20",
    "times": "discrete",
    "links": "rate:5,20",
    "availability": "always",
    "dataset": "mnist",
    "model": "auto",
}
STRUCTURE = "psfl.width=4\nfedbuff.buffer=10"
FLEET = "device,seconds,up_mbps,down_mbps\nphone,12.5,5,20"


def plan(secret: str, form: Mapping[str, list[str]] | None = None, *, problem: str = "", token: str = "") -> str:
    """The form for dry runs, filled in as it was sent, and the answer."""
    inside = [void("input", type="hidden", name_="secret", value=secret), *_fields(form or {})]
    inside += [words("button", "Plan", type="submit", class_="first"), words("span", "", id="busy", role="status")]
    made = tag("form", "".join(inside), action="/plan", method="post", class_="fields", id="form")
    answer = ""
    if problem:
        answer = words("p", problem, class_="problem", role="alert", id="answer")
    elif token:
        answer = _answer(f"/plan/{token}")
    return shell("Plan a dry run", words("p", NOTE, class_="note") + answer + made, here="/plan", script="plan.js")


def _answer(page: str) -> str:
    opened = tag("p", words("a", "Open the plan as a page of its own", href=page), class_="note")
    frame = tag("iframe", src=page, title="The plan", sandbox="allow-scripts allow-downloads")
    return tag("section", words("h2", "The plan") + opened + frame, id="answer")


def _fields(said: Mapping[str, list[str]]) -> list[str]:
    """Every field with what was said in it before, else with what is usual."""

    def text(name: str) -> str:
        return "\n".join(said[name]) if name in said else USUAL.get(name, "")

    chosen = said.get("algorithm", ["fedavg", "psfl"])
    boxes = "".join(_box(name, named.summary, name in chosen) for name, named in ALGORITHMS.items())
    sets = "".join(words("option", name, **_if(name == text("dataset"), "selected")) for name in SPECS)
    data = words("label", "Data, for its size", for_="dataset") + tag("select", sets, id="dataset", name_="dataset")
    return [
        tag("fieldset", words("legend", "Algorithms (up to six)") + tag("div", boxes, class_="boxes")),
        _field("clients", "Devices", text("clients"), "as many as the fleet has", inputmode="numeric"),
        _field("rounds", "Rounds", text("rounds"), "as many as usual", inputmode="numeric"),
        _field("times", "How long devices train (fleet.times)", text("times"), "exponential:2.5"),
        _field("links", "How models travel (fleet.links)", text("links"), "rate:5,20"),
        _field("availability", "Who is there when (fleet.availability)", text("availability"), "duty:3600,0.5"),
        tag("div", data),
        _field("model", "Model, for its bytes and FLOPs", text("model"), "cnn-psfl"),
        _area("structure", "Structure: settings of algorithms, one a line", text("structure"), STRUCTURE),
        _area("fleet", "A fleet of your own, as CSV or TOML: goes before the above", text("fleet"), FLEET),
        _area("more", "More settings, one a line", text("more"), "fleet.latency=0.1"),
    ]


def _box(name: str, summary: str, chosen: bool) -> str:
    box = void("input", type="checkbox", name_="algorithm", value=name, **_if(chosen, "checked"))
    return tag("label", box + words("span", f" {name}"), title=summary)


def _if(holds: bool, mark: str) -> dict[str, str]:
    return {mark: ""} if holds else {}


def _field(name: str, label: str, value: str, example: str, **more: object) -> str:
    return tag("div", words("label", label, for_=name) + field(name, value, placeholder=example, **more))


def _area(name: str, label: str, value: str, example: str) -> str:
    area = words("textarea", value, id=name, name_=name, rows=3, placeholder=example, spellcheck="false")
    return tag("div", words("label", label, for_=name) + area, class_="wide")
