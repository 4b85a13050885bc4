"""Checks the built site: every link leads to a page and a place in it, and nothing is loaded from elsewhere.

python docs/check_site.py build/site
"""

from __future__ import annotations

import re
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}
FROM_ELSEWHERE = re.compile(r"""(?:url\(|@import)\s*['"]?\s*(?:https?:)?//""")


class Page(HTMLParser):
    """The links of a page, what it loads, and the places in it that links can name."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called by the parser."""
        said = dict(attrs)
        self.places |= {value for key in ("id", "name") if (value := said.get(key))}
        if tag == "a" and said.get("href"):
            self.links.append(said["href"] or "")
        if tag == "link" and said.get("rel") not in ("canonical", "index", "search", "next", "prev"):
            self.loads.append(said.get("href") or "")
        if tag in LOADED and said.get(LOADED[tag]):
            self.loads.append(said[LOADED[tag]] or "")


@cache
def read(path: Path) -> Page:
    """A page, parsed once."""
    return Page(path)


def problems(site: Path) -> list[str]:
    """What is wrong with the site, in one line each."""
    found = []
    for path in sorted(site.rglob("*.html")):
        page, where = read(path), path.relative_to(site)
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                found.append(f"{where}: {link} leads nowhere")
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in read(target).places:
                found.append(f"{where}: {link} names no place in that page")
        found += [f"{where}: loads {one}" for one in page.loads if urlsplit(one).netloc]
        found += [f"{where}: {one} is not there" for one in page.loads if not _is_there(path, one)]
    for path in sorted(site.rglob("*.css")):
        if FROM_ELSEWHERE.search(path.read_text()):
            found.append(f"{path.relative_to(site)}: loads something from elsewhere")
    return found


def _is_there(path: Path, one: str) -> bool:
    parts = urlsplit(one)
    return bool(parts.scheme or parts.netloc) or (path.parent / unquote(parts.path)).exists()


if __name__ == "__main__":
    wrong = problems(Path(sys.argv[1]).resolve())
    print("\n".join(wrong) if wrong else "every link leads somewhere, and nothing is loaded from elsewhere")
    sys.exit(bool(wrong))
