"""The page with the form for plans, and the answer."""

from __future__ import annotations

from collections.abc import Mapping

from paceline.algorithms.registry import ALGORITHMS
from paceline.report.text import tag, words
from paceline.ui.asking import FIELDS, Choice, Number
from paceline.ui.shell import field, shell, void

NOTE = (
    "A plan runs algorithms without learning anything: what they do, who waits for whom, bytes and time. What"
    " accuracy comes of it, it cannot know. Data are split evenly, and a run ends after 30,000 visits at the latest."
    " It takes some seconds. paceline compare --dry-run takes all settings."
)


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
    chosen = said.get("algorithm", ["fedavg", "psfl"])
    boxes = "".join(_box(name, named.summary, name in chosen) for name, named in ALGORITHMS.items())
    some = [tag("fieldset", words("legend", "Algorithms (up to six)") + tag("div", boxes, class_="boxes"))]
    return some + [_field(name, one, " ".join(said.get(name, [one.usual]))) for name, one in FIELDS.items()]


def _box(name: str, summary: str, chosen: bool) -> str:
    box = void("input", type="checkbox", name_="algorithm", value=name, **_if(chosen, "checked"))
    return tag("label", box + words("span", f" {name}"), title=summary)


def _if(holds: bool, mark: str) -> dict[str, str]:
    return {mark: ""} if holds else {}


def _field(name: str, asked: Number | Choice, value: str) -> str:
    label = words("label", asked.label, for_=name)
    if isinstance(asked, Number):
        return tag("div", label + field(name, value, type="number", min=1, max=asked.most, required=""))
    options = "".join(words("option", word, **_if(word == value, "selected")) for word in asked.words)
    return tag("div", label + tag("select", options, id=name, name_=name))
