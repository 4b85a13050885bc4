"""What pages show works: their Python is run, and so are the commands of the tutorial and the how-tos, literally."""

import json
import shutil

import pytest

from tests.documents import PAGES, ROOT, Block, blocks, follow, run_python

WRITTEN = [page for page in [ROOT / "README.md", *PAGES] if blocks(page, "python")]
TUTORIAL = ROOT / "docs/tutorial.md"
FOLLOWED = [TUTORIAL, *sorted((ROOT / "docs/howto").glob("*.md"))]
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
MOST_NOT_RUN = 4


def by_name(page):
    return str(page.relative_to(ROOT))


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """An empty current directory, from which modules can be imported, as in a reader's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("page", WRITTEN, ids=by_name)
def test_python_of_a_page_runs(page, elsewhere):
    for block in blocks(page):
        if block.word == "file":
            (elsewhere / block.said).write_text(block.text)
    run_python([block for block in blocks(page, "python") if block.word not in ("not run", "run")])


def test_few_blocks_are_not_run_and_each_says_why():
    left = [block for page in WRITTEN for block in blocks(page, "python") if block.word == "not run"]
    assert len(left) <= MOST_NOT_RUN
    assert all(len(block.said) > 10 for block in left)


@pytest.mark.timeout(900)
def test_commands_of_the_tutorial_do_what_it_shows(tmp_path):
    assert follow(TUTORIAL, tmp_path) == 5


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", FOLLOWED, ids=by_name)
def test_all_commands_of_a_page_do_what_it_shows(page, tmp_path):
    assert follow(page, tmp_path, marks=("slow",)) or not blocks(page, "console")


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=by_name)
def test_code_of_a_notebook_runs(notebook, elsewhere):
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    cells = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in cells), "notebooks are kept without outputs"
    run_python([Block(notebook, 1, "python", "".join(cell["source"])) for cell in cells])
    pyplot.close("all")


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=by_name)
def test_a_notebook_runs_in_jupyter(notebook, elsewhere):
    import nbclient
    import nbformat

    here = shutil.copy(notebook, elsewhere)
    made = nbformat.read(here, as_version=4)
    nbclient.NotebookClient(made, timeout=120).execute()
    assert any(cell.get("outputs") for cell in made.cells)
