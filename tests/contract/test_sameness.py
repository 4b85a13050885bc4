"""What a run's settings name outside of themselves is known by digests, wherever it is written down."""

import sys
from importlib.metadata import EntryPoint

import pytest

from paceline import references
from paceline.errors import SettingError
from paceline.runs import outside, sameness
from paceline.runs.outside import code_digest, named_outside
from paceline.runs.performing import read_resumption, resume
from tests.contract.test_resume import WORDS, cut_off, same


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory of the user's own, with modules in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def written(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# -- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["times.csv", "a,b/times.csv", "fedbuff@buffer=5/times.csv", "x:y+z/times.csv"])
@pytest.mark.parametrize("setting", ["csv:{}", "csv:{},bootstrap", "always+windows:{},60", "{}"])
def test_a_file_is_found_in_its_setting(here, name, setting):
    file = written(here / name, "device,seconds\n")
    before = named_outside([{"fleet": {"times": setting.format(name)}}])
    assert before.keys() == {f"file {name}"}
    file.write_text("device,seconds\na,1\n")
    assert named_outside([{"fleet": {"times": setting.format(name)}}]) != before


def test_a_file_at_home_is_found(here, monkeypatch):
    monkeypatch.setenv("HOME", str(here))
    written(here / "trace.csv", "t_s,mbps\n0,1\n")
    assert named_outside([{"fleet": {"links": "trace:~/trace.csv,same"}}]).keys() == {"file ~/trace.csv"}


@pytest.mark.parametrize("text", ["", ":", "a" * 10_000, "a\0b", "csv:", ",".join("ab" * 500), "/dev/null", "."])
def test_what_is_no_file_is_none(here, text):
    assert named_outside([{"dataset": text}]) == {}


def test_a_file_that_a_file_names_must_be_what_it_was(here, monkeypatch):
    windows = written(here / "hours.csv", "device,start,end\n" + "".join(f"{k},0,1e9\n" for k in range(8)))
    rows = "".join(f"d{k},{1 + k},windows:hours.csv\n" for k in range(8))
    written(here / "fleet.csv", "device,seconds,availability\n" + rows)
    words = [word for word in WORDS if not word.startswith("fleet")] + ["fleet.file=fleet.csv"]
    directory = cut_off(monkeypatch, ["fedavg"], here, 1, 1, words)
    assert {"file fleet.csv", "file hours.csv"} <= same(directory).keys()
    windows.write_text(windows.read_text().replace("3,0,1e9", "3,1,1e9"))
    with pytest.raises(SettingError, match=r"file hours\.csv: was "):
        resume(read_resumption(directory))


# -- code ------------------------------------------------------------------------------------------------------------


def test_a_module_beside_the_one_that_is_named_counts(here):
    written(here / "mynet.py", "import json\nfrom mylayers import layer\n\ndef make(): return layer()\n")
    written(here / "mylayers.py", "def layer():\n    from mywidths import WIDTH\n    return WIDTH\n")
    widths = written(here / "mywidths.py", "WIDTH = 3\n")
    unused = written(here / "mynotes.py", "")
    before = named_outside([{"model": "mynet:make"}])
    assert before.keys() == {"code mynet"}
    unused.write_text("# nobody imports it\n")
    assert named_outside([{"model": "mynet:make"}]) == before
    widths.write_text("WIDTH = 4\n")
    assert named_outside([{"model": "mynet:make"}]) != before


@pytest.mark.parametrize("first", ["__init__.py", "notes.txt"])  # a package, and a folder that is taken for one
def test_all_of_a_package_counts(here, first):
    written(here / "mypackage" / first, "")
    written(here / "mypackage" / "nets.py", "from . import parts\n")
    parts = written(here / "mypackage" / "deeper" / "parts.py", "A = 1\n")
    (here / "mypackage" / ".#nets.py").symlink_to("whoever.edits@it")  # as an editor leaves it
    before = named_outside([{"model": "mypackage.nets:make"}])
    assert before.keys() == {"code mypackage.nets"}
    parts.write_text("A = 2\n")
    assert named_outside([{"model": "mypackage.nets:make"}]) != before


def test_what_a_package_announces_counts(here, monkeypatch):
    code = written(here / "announcing.py", "RATE = 1\n")
    entry = EntryPoint("my-method", "announcing:Mine", "paceline.algorithms")
    monkeypatch.setattr(outside, "announced", lambda group: {"my-method": entry} if group == "algorithms" else {})
    before = named_outside([{"algorithm": "my-method"}])
    assert before.keys() == {"code announcing"}
    code.write_text("RATE = 2\n")
    assert named_outside([{"algorithm": "my-method"}]) != before


@pytest.mark.parametrize("text", ["nowhere.to.be:found", "sys:path", "__future__:x", "builtins:dict"])
def test_code_that_has_no_file_is_left_to_whoever_imports_it(text):
    named_outside([{"model": text}])
    assert references.is_reference(text)


def test_installed_modules_beside_each_other_have_nothing_to_do_with_each_other(here, monkeypatch):
    monkeypatch.syspath_prepend(here / "site-packages")
    written(here / "site-packages" / "one.py", "import other\n")
    other = written(here / "site-packages" / "other.py", "")
    before = code_digest("one")
    other.write_text("A = 1\n")
    assert before and code_digest("one") == before


def test_this_program_itself_must_be_what_it_was(tmp_path, monkeypatch):
    directory = cut_off(monkeypatch, ["fedavg"], tmp_path, 1, 1)
    monkeypatch.setattr(sameness, "_own_code", lambda: "another")
    with pytest.raises(SettingError, match=r"code paceline: was \w{12}\.\.\., is another"):
        resume(read_resumption(directory))
    assert resume(read_resumption(directory, accept=["paceline"])).failures == []
