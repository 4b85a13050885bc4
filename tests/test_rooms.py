"""The public surface is a list, and imports between rooms run one way."""

import ast
import subprocess
import sys
from pathlib import Path

import paceline

ROOMS = [
    "errors",
    "reading",
    "bounds",
    "kinds",
    "sizes",
    "seeds",
    "statistics",
    "references",
    "config",
    "forms",
    "clock",
    "system",
    "topology",
    "data",
]
ROOMS += [
    "learn",
    "ledger",
    "algorithms",
    "worlds",
    "runs",
    "chaos",
    "plans",
    "papers",
    "choosing",
    "report",
    "tracing",
    "tracking",
    "figures",
    "api",
    "federation",
    "ui",
    "cli",
]
SOURCE = Path(paceline.__file__).parent
FILES = {
    ".".join(("paceline", *file.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): file
    for file in SOURCE.rglob("*.py")
}


def imported(file):
    """All modules of the package that a file imports, in whatever form: also by name, also inside of a function."""
    tree = ast.parse(file.read_text())
    package = ("paceline", *file.relative_to(SOURCE).parts[:-1])
    unseen = {
        id(node)
        for test in ast.walk(tree)
        if isinstance(test, ast.If) and "TYPE_CHECKING" in ast.dump(test.test)
        for node in ast.walk(test)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in unseen:  # for type checkers only
            continue
        if isinstance(node, ast.ImportFrom):
            start = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (start, node.module) if part)
            found |= {
                f"{module}.{alias.name}" if f"{module}.{alias.name}" in FILES else module for alias in node.names
            }
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value.partition(":")[0])  # what import_module is given, at once or by way of a table
    return {name for name in found if name in FILES and FILES[name] != file}


def imported_rooms(file):
    return {name.split(".")[1] for name in imported(file) if "." in name}


def test_imports_run_downwards():
    wrong = []
    for file in FILES.values():
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


ASKING = ("isinstance", "type", "hasattr", "getattr", "vars", "dir", "id")


def is_world(node):
    """Whether an expression is a world, or a facet of one."""
    return bool({"world", "_world"} & set(ast.unparse(node).split(".")))


def test_no_algorithm_knows_which_world_it_is_in():
    """None imports a world, a run, or what carries messages; none asks for a clock of its own, or for a process."""
    rooms = {"worlds", "runs", "chaos", "federation", "api", "ui", "cli", "report", "papers", "plans"}
    outside = {"flwr", "ray", "socket", "subprocess", "multiprocessing", "threading", "time", "os"}
    for file in (SOURCE / "algorithms").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ASKING:
                assert not is_world(node.args[0]), f"{file.name} asks what its world is"
            elif isinstance(node, ast.Attribute) and node.attr in ("__class__", "__dict__", "__module__"):
                assert not is_world(node.value), f"{file.name} asks what its world is"
            for name in names:
                parts = name.split(".")
                assert parts[0] not in outside, f"{file.name} imports {name}"
                assert parts[0] != "paceline" or len(parts) == 1 or parts[1] not in rooms, (
                    f"{file.name} imports {name}"
                )


def test_no_two_files_import_each_other():
    """Not even in a circle; a package's own list of what it offers is no file of its own here."""
    edges = {
        name: {other for other in imported(file) if FILES[other].name != "__init__.py"}
        for name, file in FILES.items()
        if file.name != "__init__.py"
    }
    assert len(edges) > 200
    while free := [name for name, others in edges.items() if not others & edges.keys()]:
        for name in free:
            del edges[name]
    assert not edges, f"in or above a circle: {sorted(edges)}"


def test_the_test_sees_every_form_of_import(tmp_path, monkeypatch):
    source = tmp_path / "paceline"
    (source / "room").mkdir(parents=True)
    for name in "abcdef":
        (source / "room" / f"{name}.py").touch()
    text = "from paceline.room import a\nimport paceline.room.b\nfrom .c import x\n"
    text += (
        "def f():\n    from . import d\n    import_module('paceline.room.e')\n    table = {1: 'paceline.room.f:g'}\n"
    )
    (source / "room" / "main.py").write_text(text)
    monkeypatch.setitem(globals(), "SOURCE", source)
    files = {f"paceline.room.{name}": source / "room" / f"{name}.py" for name in (*"abcdef", "main")}
    monkeypatch.setitem(globals(), "FILES", files)
    assert imported(source / "room" / "main.py") == {f"paceline.room.{name}" for name in "abcdef"}


def test_report_reads_only_run_directories():
    """The report must not need a world: it reads files that any world wrote."""
    for file in (SOURCE / "report").glob("*.py"):
        assert imported_rooms(file) <= {"errors", "reading", "report", "statistics"}, file.name


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
    long = {f.name: n for f in SOURCE.rglob("*.py") if (n := len(f.read_text().splitlines())) > 350}
    assert not long
