"""The public surface is a list, and imports between rooms run one way."""

import ast
import subprocess
import sys
from pathlib import Path

import paceline

ROOMS = ["errors", "seeds", "config", "clock", "system", "topology", "data", "learn", "ledger"]
ROOMS += ["algorithms", "worlds", "papers", "report", "cli"]
SOURCE = Path(paceline.__file__).parent


def imported_rooms(file):
    for node in ast.walk(ast.parse(file.read_text())):
        names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            if name.startswith("paceline."):
                yield name.split(".")[1]


def test_imports_run_downwards():
    wrong = []
    for file in SOURCE.rglob("*.py"):
        room = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        if room in ("__init__", "__main__"):
            continue
        assert room in ROOMS, f"{file.name} is in no known room"
        wrong += [
            f"{file.relative_to(SOURCE)} imports {other}"
            for other in imported_rooms(file)
            if ROOMS.index(other) > ROOMS.index(room)
        ]
    assert not wrong


def test_report_reads_only_run_directories():
    """The report must not need a world: it reads files that any world wrote."""
    for file in (SOURCE / "report").glob("*.py"):
        assert set(imported_rooms(file)) <= {"errors", "report"}, file.name


def test_system_topology_and_data_never_import_torch():
    rooms = "paceline.system, paceline.topology, paceline.topology.optimum, paceline.data"
    code = f"import sys, {rooms}; assert 'torch' not in sys.modules, 'torch was imported'"
    # A package's __init__ runs first; a stand-in with the same path keeps it out of the way.
    stand_in = f"import sys, types; p = types.ModuleType('paceline'); p.__path__ = [{str(SOURCE)!r}]; "
    subprocess.run([sys.executable, "-c", stand_in + "sys.modules['paceline'] = p; " + code], check=True)


def test_public_names_exist_and_are_documented():
    for name in paceline.__all__:
        thing = getattr(paceline, name)
        assert thing.__doc__, f"{name} has no docstring"
    assert len(set(paceline.__all__)) == len(paceline.__all__)


def test_no_file_is_too_long():
    long = {f.name: n for f in SOURCE.rglob("*.py") if (n := len(f.read_text().splitlines())) > 400}
    assert not long
