"""Where a source can be changed by one small mistake, and the mistake.

Left out are docstrings, annotations, protocols, ``__all__``, decorators, f-strings (Python 3.11 does not say where
their parts are), texts with a space (the wording of messages), and what runs under TYPE_CHECKING or on CUDA only.
"""

import ast
import json
import re
from collections import Counter
from hashlib import sha256
from itertools import islice, pairwise
from operator import itemgetter
from typing import NamedTuple

OPERATORS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: (r"\*\*", "*"),
    ast.BitOr: (r"\|", "&"),
    ast.BitAnd: ("&", "|"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Site(NamedTuple):
    """A place in a file, by bytes, and what stands there instead."""

    file: str
    start: int
    end: int
    text: str
    lines: tuple[int, int]
    used: tuple[int, ...] | None
    """Of what runs when the module is imported, the lines that use it: those with its name, or of its function."""
    name: str = ""
    """What it is the value of, at the top of a module or a class."""


class Source:
    """A file's text, and the sites in it."""

    def __init__(self, file, text):
        self.file, self.bytes = file, text.encode()
        self.begins = [0]
        for line in self.bytes.splitlines(keepends=True):
            self.begins.append(self.begins[-1] + len(line))
        self.sites = []
        self._walk(ast.parse(text), used=())

    def mutated(self, site):
        """The whole text with a site changed; None if this is not another program."""
        now = (self.bytes[: site.start] + site.text.encode() + self.bytes[site.end :]).decode()
        try:
            compile(now, self.file, "exec")
        except SyntaxError:
            return None
        return now if ast.dump(ast.parse(now)) != ast.dump(ast.parse(self.bytes)) else None

    def change(self, site):
        """The line, or lines, of a site as they were and as they are, in one line each."""
        begin, end = self.begins[site.lines[0] - 1], self.begins[site.lines[1]]
        was = self.bytes[begin:end].decode()
        now = (self.bytes[begin : site.start] + site.text.encode() + self.bytes[site.end : end]).decode()
        return " ".join(was.split()), " ".join(now.split())

    def _at(self, node):
        return (
            self.begins[node.lineno - 1] + node.col_offset,
            self.begins[node.end_lineno - 1] + node.end_col_offset,
        )

    def _text(self, node):
        start, end = self._at(node)
        return self.bytes[start:end].decode()

    def _add(self, node, text, at=None):
        self.sites.append(Site(self.file, *(at or self._at(node)), text, (node.lineno, node.end_lineno), *self.now))

    def _operator(self, node, left, operator, right):
        """Another operator between two operands."""
        if type(operator) not in OPERATORS:
            return
        was, now = OPERATORS[type(operator)]
        at = self._at(left)[1], self._at(right)[0]
        between = self.bytes[slice(*at)].decode()
        self._add(node, re.sub(was, lambda _: now, between, count=1), at=at)

    def _walk(self, node, used, name=""):
        """Collect the sites of a node; ``used`` is None inside of functions."""
        if isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom) or _is_declaration(node):
            return
        if used is not None and isinstance(node, ast.Assign | ast.AnnAssign):
            used, name = self._with_names(node.targets if isinstance(node, ast.Assign) else [node.target])
        self.now = used, name
        self._mutate(node)
        defaults, inside = _children(node)
        for child in defaults:
            body = node.body if isinstance(node.body, list) else [node.body]
            self._walk(child, used if used is None else tuple(range(body[0].lineno, body[-1].end_lineno + 1)))
        for child in inside:
            self._walk(child, None if isinstance(node, FUNCTIONS) else used, name)

    def _with_names(self, targets):
        names = [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
        word = re.compile(rf"\b({'|'.join(names)})\b")
        lines = self.bytes.decode().split("\n") if names else []
        return tuple(number for number, line in enumerate(lines, 1) if word.search(line)), "|".join(names)

    def _mutate(self, node):
        match node:
            case ast.Compare():
                operands = [node.left, *node.comparators]
                for operator, (left, right) in zip(node.ops, pairwise(operands), strict=True):
                    self._operator(node, left, operator, right)
            case ast.BinOp():
                self._operator(node, node.left, node.op, node.right)
            case ast.BoolOp():
                for left, right in pairwise(node.values):
                    self._operator(node, left, node.op, right)
            case ast.AugAssign():
                self._operator(node, node.target, node.op, node.value)
                self._add(node, "pass")
            case ast.UnaryOp(op=ast.Not() | ast.USub()):
                self._add(node, f"({self._text(node.operand)})")
            case ast.Constant():
                if (text := _other(node.value)) is not None:
                    self._add(node, text)
            case ast.Call(func=ast.Name(id=name)) if name in NAMES:
                self._add(node.func, NAMES[name])
            case ast.Return(value=ast.expr() as value) if getattr(value, "value", ...) is not None:
                self._add(node, "return None")
            case ast.Break():
                self._add(node, "continue")
            case ast.Continue():
                self._add(node, "break")
            case ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise() | ast.Delete() | ast.Assert():
                self._add(node, "pass")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                self._add(node, "pass")
        swappable = isinstance(node, ast.Call) and getattr(node.func, "id", "") not in NAMES
        if swappable and len(node.args) > 1 and not isinstance(node.args[1], ast.Starred):
            first, second = node.args[:2]
            at = self._at(first)[0], self._at(second)[1]
            self._add(node, f"{self._text(second)}, {self._text(first)}", at=at)
        tests = node.ifs if isinstance(node, ast.comprehension) else [getattr(node, "test", None)]
        for test in tests:
            if isinstance(test, ast.expr) and not isinstance(node, ast.Assert):
                self._add(test, f"not ({self._text(test)})")


def _other(value):
    """Another constant; None where there is none, or where it is the wording of a message."""
    match value:
        case bool():
            return repr(not value)
        case int() | float():
            return repr(value + 1 if abs(value) < 10 else value * 2)
        case str() if " " not in value:
            return json.dumps(value + "~")
    return None


def _is_declaration(node):
    """A docstring, an ellipsis, or ``__all__``."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"


def _children(node):
    """The parts of a node that run here: defaults of arguments, and the others."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [*node.args.defaults, *filter(None, node.args.kw_defaults)], node.body
        case ast.Lambda():
            return [*node.args.defaults, *filter(None, node.args.kw_defaults)], [node.body]
        case ast.ClassDef():
            return [], [] if any("Protocol" in ast.dump(base) for base in node.bases) else node.body
        case ast.AnnAssign():
            return [], [node.value] if node.value else []
        case ast.If() | ast.IfExp() if re.search("TYPE_CHECKING|cuda", ast.dump(node.test)):
            return [], node.orelse if isinstance(node, ast.If) else [node.orelse]
    return [], ast.iter_child_nodes(node)


def draw(sources, count, seed):
    """Sites of which each is as likely as any other, as (source, site, mutated text).

    A site's place in the draw follows from its own line, so that a change elsewhere leaves the others drawn.
    """
    ranks, seen = [], Counter()
    for source in sources:
        for site in source.sites:
            place = "\0".join((seed, site.file, *source.change(site)))
            seen[place] += 1
            ranks.append((sha256(f"{place}\0{seen[place]}".encode()).digest(), source, site))
    possible = ((source, site, source.mutated(site)) for _, source, site in sorted(ranks, key=itemgetter(0)))
    return list(islice((drawn for drawn in possible if drawn[2] is not None), count))
