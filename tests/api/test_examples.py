"""Every public function and method has an example, and every example says the truth."""

import doctest
import importlib
import inspect
import pkgutil
import re
import types

import pytest

import paceline

PUBLIC = {name: getattr(paceline, name) for name in paceline.__all__}
FUNCTIONS = [name for name, thing in PUBLIC.items() if isinstance(thing, types.FunctionType)]
GIVEN = [paceline.Result, paceline.Timeline, paceline.Until]
"""The classes whose methods users call: functions give them, or take them."""
MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(paceline.__path__, "paceline.")
    if (found := importlib.util.find_spec(name)) and ">>> " in found.loader.get_source(name)
]


def examples(thing):
    return doctest.DocTestParser().get_examples(inspect.getdoc(thing) or "")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_has_an_example(name):
    found = examples(PUBLIC[name])
    assert any(re.search(rf"\b{name}\(", example.source) for example in found), f"no example calls paceline.{name}"
    assert not any(example.options.get(doctest.SKIP) for example in found)
    assert PUBLIC[name].__module__ in MODULES


@pytest.mark.parametrize("kind", GIVEN, ids=lambda kind: kind.__name__)
def test_every_public_method_is_in_its_class_s_example(kind):
    source = "".join(example.source for example in examples(kind))
    methods = {name for name in vars(kind) if name[0] != "_"} - set(getattr(kind, "__dataclass_fields__", ()))
    assert len(methods) > 2
    assert [name for name in methods if not re.search(rf"\.{name}\b", source)] == []


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    found = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted and found.failed == 0
