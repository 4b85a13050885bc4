"""What settings mean: the words below each field in the source, and the forms of those that are written as words."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from itertools import pairwise
from typing import Any

from paceline.forms import FORMS


def meanings(settings: Any, prefix: str = "") -> dict[str, str]:
    """Dotted names to what the source says of them, of a settings dataclass and those in it."""
    found: dict[str, str] = {}
    words = said_of_fields(type(settings))
    for each in dataclasses.fields(settings):
        value, name = getattr(settings, each.name), f"{prefix}{each.name}"
        if each.name in words:
            forms = each.metadata[FORMS].help() if FORMS in each.metadata else []
            found[name] = "\n".join([words[each.name], *(f"  {line}" for line in forms)])
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            found |= meanings(value, f"{name}.")
    return found


def said_of_fields(kind: type) -> dict[str, str]:
    """A class's fields to the strings that follow them; a subclass speaks last."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        if not dataclasses.is_dataclass(one):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(one))).body
        assert isinstance(tree, ast.ClassDef)
        for field, text in pairwise(tree.body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and _is_text(text):
                words: str = ast.literal_eval(text.value)  # type: ignore[attr-defined]
                found[field.target.id] = " ".join(words.replace("``", "`").split())
    return found


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)
