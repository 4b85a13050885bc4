"""Names of algorithms: in the help of commands, in the shell's completion, and in ``paceline algorithms``.

They are looked up when they are shown; no algorithm is imported for them.
"""

from __future__ import annotations

from json import dumps
from typing import Annotated

import click
import typer
from typer.core import TyperArgument, TyperCommand


class NamesAlgorithms(TyperCommand):
    """A command whose help names the algorithms, which are looked up only when help is shown."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Help with ``{names}`` filled in."""
        from paceline.algorithms.registry import ALGORITHMS

        for parameter in self.params:
            if isinstance(parameter, TyperArgument) and parameter.help:
                parameter.help = parameter.help.replace("{names}", ", ".join(ALGORITHMS))
        super().format_help(ctx, formatter)


def begun(incomplete: str) -> list[tuple[str, str]]:
    """Algorithms that begin so, each with its summary, for the shell's completion."""
    return [(name, summary) for name, summary in _summaries().items() if name.startswith(incomplete)]


def algorithms(
    json: Annotated[bool, typer.Option("--json", help="Print a JSON object from names to summaries.")] = False,
) -> None:
    """List all algorithms, each with one line that says what it is."""
    found = _summaries()
    if json:
        typer.echo(dumps(found, indent=2, ensure_ascii=False))
        return
    width = max(map(len, found))
    for name, summary in found.items():
        typer.echo(f"{name:<{width}}  {summary}")


def _summaries() -> dict[str, str]:
    """The built-in algorithms, and those that installed packages announce."""
    from paceline.algorithms.registry import ALGORITHMS
    from paceline.references import announced

    found = {name: named.summary for name, named in ALGORITHMS.items()}
    for name, entry in announced("algorithms").items():
        found.setdefault(name, f"announced by an installed package, as {entry.value}")
    return found
