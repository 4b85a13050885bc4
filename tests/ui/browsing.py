"""A real browser that remembers what a page complained about and whom it asked."""

import os
import shutil
from contextlib import contextmanager

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

ARGUMENTS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
PATIENCE = 60_000
"""Milliseconds: a busy machine takes its time."""
SMALLEST = 11
"""Pixels of type."""
SETTLED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Resolved when everything that was to be drawn has been."""

_TYPE = """
[...document.querySelectorAll("*")]
  .filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()))
  .filter((one) => !["SCRIPT", "STYLE", "TITLE"].includes(one.tagName) && one.getClientRects().length)
  .filter((one) => parseFloat(getComputedStyle(one).fontSize) < %d)
  .map((one) => `${one.tagName} ${one.textContent.slice(0, 40)}`)
"""


def find_browser():
    """The path of a browser; without one the test fails and says what to install."""
    named = os.environ.get("PACELINE_BROWSER")
    found = named or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not found:
        pytest.fail("no browser: install chromium (Debian: apt install chromium), or name one in PACELINE_BROWSER")
    return found


@contextmanager
def a_browser():
    """Chromium without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=ARGUMENTS)
        yield browser
        browser.close()


class Watched:
    """A page with what went wrong on it."""

    def __init__(self, browser, base, *, width=1180, scheme="light"):
        self.base = base
        self.complaints = []
        self.outside = []
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page.set_default_timeout(PATIENCE)
        self.page.on("console", lambda told: self.complaints.append(told.text) if told.type == "error" else None)
        self.page.on("pageerror", lambda problem: self.complaints.append(str(problem)))
        self.page.on("request", lambda asked: self._asked(asked.url))

    def _asked(self, url):
        if not url.startswith((self.base, "data:", "blob:", "about:")):
            self.outside.append(url)

    def go(self, path):
        self.page.goto(self.base + path)
        return self.page

    def check(self):
        """No complaint, no outside request, no overflow, no small type, nothing that hinders assistive technology."""
        assert self.complaints == []
        assert self.outside == []
        wide, room = self.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= room, f"the page is {wide} pixels wide on a screen of {room}"
        assert self.page.evaluate(_TYPE % SMALLEST) == []
        found = Axe().run(self.page).response["violations"]
        grave = [(one["id"], [node["html"] for node in one["nodes"]]) for one in found if one["impact"] in GRAVE]
        assert grave == []


GRAVE = ("serious", "critical")
