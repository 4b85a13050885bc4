"""How Sphinx makes the site (`make docs`): of the Markdown files as they are, with the menu of navigation.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

ROOT = Path(__file__).resolve().parents[1]
PARTS: list[dict[str, Any]] = tomllib.loads((ROOT / "docs/navigation.toml").read_text())["part"]

project = "Paceline"
copyright = "The Paceline authors, Apache-2.0"
extensions = ["myst_nb", "sphinx_copybutton"]
root_doc = "docs/README"
# The sources' directory is the project's root, so that links from docs/ to DESIGN.md or to a source file hold.
include_patterns = ["docs/README.md", *(page for part in PARTS for page in part["pages"])]
exclude_patterns = [".*", "build", "dist", "demo", "runs", "src", "tests", "benchmarks"]

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline"]
nb_execution_mode = "force"  # notebooks are kept without outputs, and run when the site is made
nb_execution_raise_on_error = True
nb_execution_timeout = 300
suppress_warnings = ["myst.header"]  # a page may begin with a list of levels of its own
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True

html_theme = "furo"
html_title = "Paceline"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_extra_path = ["_root"]
pygments_style = "default"
pygments_dark_style = "github-dark"


def add_menu(_app: object, page: str, source: list[str]) -> None:
    """The first page holds the menu, which readers of the plain file need not see."""
    if page != root_doc:
        return
    for part in PARTS:
        pages = "\n".join(f"/{Path(path).with_suffix('')}" for path in part["pages"])
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {part['title']}\n\n{pages}\n```\n"


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", add_menu)
    app.add_lexer("csv", TextLexer)
