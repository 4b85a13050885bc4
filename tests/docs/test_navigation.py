"""The menu of the site has every page once, and every link leads to a file, and to a heading where it names one."""

import re
import tomllib

import pytest

from tests.documents import PAGES, ROOT

PARTS = tomllib.loads((ROOT / "docs/navigation.toml").read_text())["part"]
MENU = [page for part in PARTS for page in part["pages"]]
READ = [*PAGES, *(ROOT / page for page in MENU if not page.startswith("docs/")), ROOT / "README.md"]
FENCES = re.compile(r"^(`{3,}).*?^\1$", flags=re.M | re.S)
HEADING = re.compile(r"^#{1,6} (.*)$", flags=re.M)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def prose(page):
    return FENCES.sub("", page.read_text())


def anchors(page):
    """As GitHub and MyST make them of headings: lower case, words joined by hyphens, without other signs."""
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", words) for words in HEADING.findall(prose(page)))
    return {re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-") for words in plain}


def test_the_menu_has_every_page_once():
    there = {str(page.relative_to(ROOT)) for page in (*PAGES, *(ROOT / "docs").rglob("*.ipynb"))}
    assert sorted(MENU) == sorted(set(MENU))
    assert set(MENU) >= there - {"docs/README.md"}
    assert all((ROOT / page).exists() for page in MENU)


def test_the_first_page_names_every_other():
    text = (ROOT / "docs/README.md").read_text()
    for page in MENU:
        link = page.removeprefix("docs/") if page.startswith("docs/") else f"../{page}"
        assert f"]({link})" in text, page


@pytest.mark.parametrize("page", sorted(set(READ)), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for link in LINK.findall(prose(page)):
        if re.match(r"https?:|mailto:", link):
            continue
        path, _, heading = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if heading and target.suffix == ".md":
            assert heading in anchors(target), link
