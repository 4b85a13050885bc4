"""What all pages of the server have in common; whatever comes from a run is escaped by ``report.text``."""

from __future__ import annotations

from paceline.report.text import tag, words


def shell(title: str, body: str, *, here: str, script: str = "") -> str:
    """A whole page with the links to the others."""
    links = "".join(
        words("a", text, href=path, **({"aria_current": "page"} if path == here else {}))
        for path, text in (("/", "Runs"), ("/plan", "Plan"))
    )
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        + words("title", f"{title} · Paceline")
        + '<link rel="icon" href="data:,"><link rel="stylesheet" href="/static/ui.css">'
        + (tag("script", src=f"/static/{script}", defer="") if script else "")
    )
    top = tag("header", words("strong", "Paceline") + tag("nav", links, aria_label="Pages"))
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n'
        f"<body>{top}{tag('main', words('h1', title) + body, id='main')}</body></html>\n"
    )


def refused(problem: str) -> str:
    """A page that says what was wrong."""
    return shell("That did not work", words("p", problem, class_="problem", role="alert"), here="")


def void(element: str, /, **marks: object) -> str:
    """An element that has no end, such as a field of a form."""
    return tag(element, "", **marks).removesuffix(f"</{element}>")


def field(name: str, value: str, **more: object) -> str:
    """A field of a form."""
    marks = {"id": name, "name_": name, "value": value, "autocomplete": "off", "spellcheck": "false", **more}
    return void("input", **marks)


def scrolled(inside: str, what: str) -> str:
    """A table that scrolls by itself where it is wider than the screen."""
    return tag("div", inside, class_="scroll", tabindex="0", role="region", aria_label=what)
