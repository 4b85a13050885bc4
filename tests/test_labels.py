"""Pages hold together: labels are defined once, in docs/papers; what is cited is there; lines are wrapped."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import paceline

ROOT = Path(paceline.__file__).resolve().parents[2]
PAPERS = ROOT / "docs" / "papers"
LABEL = re.compile(r"\b(?:PS|NI|DA|PF)-[ET]?\d+\b")
DEFINITION = re.compile(rf"^### ({LABEL.pattern})$", flags=re.M)
ABRIDGED = re.compile(rf"{LABEL.pattern}(?:(?:/|-| to |\s?(?:\.\.|–|…)\s?)[ET]?\d|(?:, | and )[ET]?\d+\))")
"""A second number without its letters, as in PS-7/8: nobody could search for it."""
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
PAGE = re.compile(r"(?<![\w/.-])((?:\.\./)*[\w./-]*\w\.md)\b(#[\w-]+)?")
SOURCE = re.compile(r"`src/(paceline/[\w/]+\.py)`(?:,?\s+\(((?:`[\w.]+`(?:,\s+)?)+)\))?")
ELSEWHERE = re.compile(r"https?://\S+|`[\w.-]+/[\w.-]+`")
"""Addresses, and repositories of others such as `google-research/rigl`."""

pytestmark = pytest.mark.skipif(not PAPERS.exists(), reason="not run from a source tree")


@cache
def pages():
    return [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]


@cache
def texts():
    """All that may cite something: pages, code, tests, benchmarks and what stands beside them."""
    code = [file for room in ("src", "tests", "benchmarks") for file in sorted((ROOT / room).rglob("*.py"))]
    found = [*pages(), *code, *(ROOT / name for name in ("Makefile", "pyproject.toml"))]
    return {file: file.read_text(encoding="utf-8") for file in found if file != Path(__file__).resolve()}


def where(file, text, place):
    return f"{file.relative_to(ROOT)}:{text.count(chr(10), 0, place) + 1}"


def definitions():
    return Counter(label for page in PAPERS.glob("*.md") for label in DEFINITION.findall(page.read_text("utf-8")))


def anchors(page):
    """The addresses of a page's headings, as GitHub makes them."""
    plain = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    heads = re.findall(r"^#+ (.*)$", plain, flags=re.M)
    return {"#" + re.sub(r"[^\w -]", "", LINK.sub("", head).lower()).replace(" ", "-") for head in heads}


def test_every_label_is_defined_once():
    assert sum(definitions().values()) > 100
    assert [label for label, count in definitions().items() if count > 1] == []


def test_every_cited_label_is_defined():
    known = definitions()
    lost = [
        f"{where(file, text, found.start())} cites {found[0]}"
        for file, text in texts().items()
        for found in LABEL.finditer(text)
        if found[0] not in known
    ]
    assert lost == []


def test_labels_are_written_out():
    assert all(ABRIDGED.search(text) for text in ("(PS-7/8)", "PF-1..3", "PS-7, 8)", "NI-4 … 8", "DA-1 to 4."))
    assert not any(ABRIDGED.search(text) for text in ("PS-7, PS-8", "PF-1 ... PF-3", "PF-E7 to -E9", "PS-14: 3 or"))
    short = [
        f"{where(file, text, found.start())} has {found[0]!r}; write every label with its letters"
        for file, text in texts().items()
        for found in ABRIDGED.finditer(text)
    ]
    assert short == []


@pytest.mark.parametrize("page", sorted(PAPERS.glob("*.md")), ids=lambda page: page.name)
def test_labels_stand_on_their_own_paper_s_page(page):
    letters = {"psfl": "PS", "noidle": "NI", "dadpfl": "DA", "pfedavg": "PF"}
    for label in DEFINITION.findall(page.read_text(encoding="utf-8")):
        assert label.startswith(letters[page.stem] + "-")


def test_links_between_pages_lead_somewhere():
    broken = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for found in LINK.finditer(text):
            if "://" in found[1]:
                continue
            path, _, anchor = found[1].partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and f"#{anchor}" not in anchors(target)):
                broken.append(f"{where(page, text, found.start())} links {found[1]}")
    assert broken == []


def prose(page):
    """Its numbered lines but for tables, pictures and blocks of code; none of a page that is generated."""
    if page.parent.name == "reference":
        return []
    blocks = re.compile(r"^```.*?^```", flags=re.M | re.S)
    text = blocks.sub(lambda block: "\n" * block[0].count("\n"), page.read_text("utf-8"))
    return [(k, line) for k, line in enumerate(text.splitlines(), 1) if not line.startswith(("|", "    ", "!["))]


def test_pages_are_wrapped():
    long = [f"{page.relative_to(ROOT)}:{k}" for page in pages() for k, line in prose(page) if len(line) > 120]
    assert long == []


def test_pages_that_are_mentioned_exist():
    """Relative to the project or to the page that mentions them: nothing that only its authors ever saw."""
    broken = []
    for file, text in texts().items():
        plain = ELSEWHERE.sub(lambda match: " " * len(match[0]), text)
        if file.suffix == ".md":  # where links lead is another test's
            plain = LINK.sub(lambda match: " " * len(match[0]), plain)
        for found in PAGE.finditer(plain):
            near = [ROOT / found[1], file.parent / found[1]]
            target = next((one for one in near if one.exists()), None)
            if target is None or (found[2] and found[2] not in anchors(target)):
                broken.append(f"{where(file, text, found.start())} mentions {found[0]}")
    assert broken == []


@cache
def names(file):
    """What a file defines: functions, classes, constants; methods, fields and attributes of classes as Class.name."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found = set(_defined(tree.body))
    for one in tree.body:
        if isinstance(one, ast.ClassDef):
            found |= {f"{one.name}.{name}" for name in _defined(one.body)}
            inside = [node for node in ast.walk(one) if isinstance(node, ast.Attribute)]
            found |= {f"{one.name}.{node.attr}" for node in inside if isinstance(node.ctx, ast.Store)}
    return found


def _defined(body):
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            yield from (one.id for one in ast.walk(target or ast.Pass()) if isinstance(one, ast.Name))


@pytest.mark.parametrize("page", sorted(PAPERS.glob("*.md")), ids=lambda page: page.name)
def test_what_is_built_where_is_there(page):
    text = page.read_text(encoding="utf-8")
    wrong = []
    for found in SOURCE.finditer(text):
        file = ROOT / "src" / found[1]
        if not file.exists():
            wrong.append(f"{where(page, text, found.start())}: there is no {found[1]}")
            continue
        listed = re.findall(r"`([\w.]+)`", found[2] or "")
        wrong += [
            f"{where(page, text, found.start())}: {found[1]} has no {name}"
            for name in listed
            if name not in names(file)
        ]
    assert wrong == []


def test_every_step_says_where_it_is_built():
    silent = []
    for page in PAPERS.glob("*.md"):
        sections = re.split(r"^(?=##)", page.read_text(encoding="utf-8"), flags=re.M)
        silent += [found[1] for part in sections if (found := DEFINITION.search(part)) and "\nBuilt in: " not in part]
    assert silent == []


def test_the_walk_through_the_files_names_what_they_have():
    """Each *`name`* under a "File:" of a page is a function, a class, a method or a constant of that file."""
    wrong = []
    for page in PAPERS.glob("*.md"):
        for part in re.split(r"^(?=##)", page.read_text(encoding="utf-8"), flags=re.M):
            if (file := re.search(r"^File: `src/(paceline/[\w/]+\.py)`", part, flags=re.M)) is None:
                continue
            known = {name.rpartition(".")[2] for name in names(ROOT / "src" / file[1])}
            wrong += [f"{file[1]} has no {name}" for name in re.findall(r"\*`(\w+)`\*", part) if name not in known]
    assert wrong == []
