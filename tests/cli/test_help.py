"""Help and completion come at once: nothing that takes long to import is imported for them."""

import json
import os
import subprocess
import sys

import pytest
from typer.main import get_command

from paceline.algorithms.registry import ALGORITHMS
from paceline.cli.main import app

SLOW = ("torch", "pyarrow", "scipy", "numpy", "networkx", "matplotlib")
PROGRAM = """
import sys
from paceline.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print("imported:", *(name for name in {slow!r} if name in sys.modules))
"""


def commands(group, words=()):
    """All commands, also those below others, as the words that one types."""
    yield words
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*words, name))


@pytest.fixture
def program(tmp_path):
    def run(*words, **more):
        code = PROGRAM.format(slow=SLOW)
        environment = {**os.environ, **more}
        arguments = [sys.executable, "-c", code, *words]
        return subprocess.run(arguments, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize("words", list(commands(get_command(app))), ids=" ".join)
def test_help_imports_nothing_slow(program, words):
    done = program(*words, "--help")
    assert done.returncode == 0
    assert "Usage:" in done.stdout
    assert done.stdout.splitlines()[-1].split() == ["imported:"]


def test_help_names_every_algorithm(program):
    told = "".join(program("run", "--help").stdout.replace("│", " ").split())
    assert ",".join(ALGORITHMS) in told


def test_algorithms_are_listed_with_one_line_each(program):
    lines = program("algorithms").stdout.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == list(ALGORITHMS)
    assert lines[-1].split() == ["imported:"]
    found = json.loads(program("algorithms", "--json").stdout.rpartition("imported:")[0])
    assert found == {name: named.summary for name, named in ALGORITHMS.items()}


def test_the_shell_completes_commands_and_algorithms():
    code = "import sys; from paceline.cli.main import main; sys.argv[0] = 'paceline'; main()"

    def completed(words):
        asked = {"_PACELINE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    assert completed("paceline comp") == ["compare"]
    assert completed("paceline run fedb") == ["fedbuff"]
    assert set(completed("paceline compare fedavg fed")) == {name for name in ALGORITHMS if name.startswith("fed")}
