"""``python -m tests.browser.pictures PAGE.html PICTURE.png``: the upper part of a page, as the docs show it."""

import sys
from pathlib import Path

from tests.ui.browsing import SETTLED, a_browser

WIDTH, MARGIN = 1240, 12


def take(page_file: Path, out: Path) -> None:
    """From the heading to the end of the timeline, with its longest wait in sight."""
    with a_browser() as browser:
        page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        page.goto(page_file.resolve().as_uri())
        page.evaluate("paceline.ready")
        page.evaluate("document.querySelector('#decisions')?.parentElement.remove()")
        page.get_by_label("sort by").select_option("waiting")
        page.evaluate(SETTLED)
        bottom = page.locator("#timeline-box").bounding_box()
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": bottom["y"] + bottom["height"] + MARGIN}
        page.screenshot(path=out, full_page=True, clip=clip)


if __name__ == "__main__":
    take(Path(sys.argv[1]), Path(sys.argv[2]))
