"""The site: its menu and its first page have every page. (That links lead somewhere is in test_labels.)"""

import tomllib

from tests.documents import PAGES, ROOT

PARTS = tomllib.loads((ROOT / "docs/navigation.toml").read_text())["part"]
MENU = [page for part in PARTS for page in part["pages"]]


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
