"""Every public function has an example, and every example says the truth."""

import doctest
import importlib
import inspect
import types

import pytest

import paceline

FUNCTIONS = [name for name in paceline.__all__ if isinstance(getattr(paceline, name), types.FunctionType)]
WITH_EXAMPLES = [
    *("paceline.references", "paceline.api.comparing", "paceline.api.results", "paceline.api.words"),
    *("paceline.api.reproducing", "paceline.runs.dry", "paceline.runs.settings", "paceline.data.own"),
    *("paceline.learn.graph", "paceline.algorithms.registry", "paceline.learn.models.check", "paceline.runs.until"),
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_has_an_example(name):
    assert ">>>" in (inspect.getdoc(getattr(paceline, name)) or ""), f"paceline.{name} has no example"


@pytest.mark.parametrize("name", sorted({*WITH_EXAMPLES, *(getattr(paceline, f).__module__ for f in FUNCTIONS)}))
def test_examples_run(name):
    module = importlib.import_module(name)
    found = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0
