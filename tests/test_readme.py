"""What the README shows is what the program has: commands, settings, algorithms, columns."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

import paceline
from paceline.algorithms.registry import ALGORITHMS
from paceline.runs.settings import make_settings

ROOT = Path(paceline.__file__).parents[2]
README = ROOT / "README.md"

pytestmark = pytest.mark.skipif(not README.exists(), reason="not run from a source tree")


def commands():
    pages = [README, ROOT / "docs/commands.md"]
    lines = [line for page in pages for line in re.findall(r"^paceline (.*)$", page.read_text(), flags=re.M)]
    return [line.split("#")[0].split() for line in lines]


def test_commands_and_settings_exist():
    from typer.main import get_command

    from paceline.cli.main import app

    known = get_command(app).commands
    assert len(commands()) > 5
    for words in commands():
        assert words[0] in known
        names = [w for w in words[1:] if w in ALGORITHMS]
        settings = [b for a, b in pairwise(words) if a == "--set" and not b.startswith("model=my")]
        for name in names:
            make_settings(name, settings)


def test_no_page_and_no_message_installs_a_name_that_is_not_ours():
    """Paceline is not published: whoever registers the name could send what they like."""
    files = [README, *(file for folder in ("docs", "src") for file in (ROOT / folder).rglob("*") if file.is_file())]
    texts = {
        file: file.read_text() for file in files if file.suffix in {".md", ".py", ".in", ".ipynb", ".html", ".js"}
    }
    assert not [
        file for file, text in texts.items() if re.search(r"pip install ['\"]?paceline(?!-)|paceline\[", text)
    ]


def test_the_demo_is_the_makefiles_and_its_table_has_these_columns():
    demo = re.search(r"^\t\$\(BIN\)/paceline (compare .*)$", (ROOT / "Makefile").read_text(), flags=re.M).group(1)
    table = re.search(r"\$ make demo\n(.*?)```", README.read_text(), flags=re.S).group(1).splitlines()
    shown = [line.split()[0] for line in table[1:] if line.split()[0] in ALGORITHMS]
    assert shown == [word for word in demo.split() if word in ALGORITHMS]
    assert "time to target" in table[0]
    assert "traffic to target" in table[0]
    assert "idle" in table[0]


def test_every_algorithm_has_a_page_that_the_readme_links():
    text = README.read_text()
    for page in (ROOT / "docs" / "algorithms").glob("*.md"):
        assert f"docs/algorithms/{page.name}" in text
        assert "**Paper.**" in page.read_text()
    for link in re.findall(r"\]\(([\w./-]+)\)", text):
        assert (ROOT / link).exists(), link
