"""What is generated is up to date: the reference, and the pictures."""

import importlib.util
import sys
from pathlib import Path

import pytest

from tests.documents import ROOT


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["docs/reference/api.md", "docs/reference/settings.md"])
def test_the_reference_is_what_the_source_says(page):
    generate = loaded(ROOT / "docs/reference/generate.py")
    assert (ROOT / page).read_text() == generate.PAGES[Path(page).name](), "run docs/reference/generate.py"


@pytest.mark.parametrize("name", ["anatomy", "schedules", "waves"])
def test_the_pictures_are_what_runs_do(name):
    draw = loaded(ROOT / "docs/images/draw.py")
    assert (ROOT / f"docs/images/{name}.svg").read_text() == draw.PICTURES[name]().svg(), "run docs/images/draw.py"
