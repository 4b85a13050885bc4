"""The page's style and script, which are files beside this one, as texts to be carried inside of it."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

SCRIPTS = (
    "tools",
    "svgpen",
    "save",
    "theme",
    "curves",
    "bars",
    "topology",
    "spans",
    "rows",
    "path",
    "drawing",
    "pointing",
    "timeline",
    "main",
)
"""In the order in which they come: each uses those before it."""


@lru_cache(maxsize=1)
def style() -> str:
    """The style sheet."""
    return _text("page.css")


@lru_cache(maxsize=1)
def script() -> str:
    """Our own script: all modules in one function, so that no name of theirs is seen outside."""
    parts = "\n".join(_text(f"{name}.js") for name in SCRIPTS)
    return f'(function () {{\n"use strict";\n{parts}\n}})();'


@lru_cache(maxsize=1)
def charts() -> str:
    """The charts: Apache ECharts, only the parts that are used."""
    return _text("vendor/echarts.min.js")


def _text(name: str) -> str:
    text = (files("paceline.report") / "assets" / name).read_text(encoding="utf-8")
    assert "</script" not in text.lower() and "<!--" not in text, f"{name} would end the element it stands in"
    return text
