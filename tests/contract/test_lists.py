"""No algorithm is in fewer contract tests than another: names come from the registry, not from lists by hand."""

import ast
from pathlib import Path

import pytest

from paceline.algorithms.registry import ALGORITHMS

HERE = Path(__file__).parent
FEW = 2
"""Names that a test may write down itself: two runs to compare, say."""


def lists_of_names(text):
    """Lists, tuples and sets in a source that name more than a few algorithms."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            words = [item.value for item in node.elts if isinstance(item, ast.Constant)]
            if len(names := [word for word in words if word in ALGORITHMS]) > FEW:
                yield node.lineno, names


def test_such_a_list_is_found():
    assert list(lists_of_names("x = 1\nNAMES = ['fedavg', 'sfl', 'psfl']")) == [(2, ["fedavg", "sfl", "psfl"])]
    assert list(lists_of_names("compare(['fedavg', 'sfl'])")) == []


@pytest.mark.parametrize("file", sorted(HERE.glob("*.py")), ids=lambda file: file.name)
def test_no_list_of_algorithms_is_written_by_hand(file):
    found = [] if file == Path(__file__) else list(lists_of_names(file.read_text(encoding="utf-8")))
    assert found == []
