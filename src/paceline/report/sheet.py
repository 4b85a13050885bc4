"""A page of sentences and tables that is not about runs, in the report's look."""

from __future__ import annotations

from paceline.report import carried
from paceline.report.text import tag, words

_MORE = "main p, main li { max-width: 100ch; } code { overflow-wrap: anywhere; } .words { text-align: left; }"


def sheet(title: str, note: str, body: str) -> str:
    """The whole page as HTML text; ``body`` is markup."""
    head = (
        '<meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        + words("title", title)
        + tag("style", carried.style() + _MORE)
    )
    top = tag("header", words("h1", title) + words("p", note, class_="note"))
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{top}{tag("main", body)}</body></html>\n'
