"""An algorithm as the command line and ``paceline.compare`` know it; also one of the user's own."""

from __future__ import annotations

import dataclasses
import inspect
import traceback
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.errors import PacelineError, SettingError, SiteError
from paceline.references import LENT, announced, is_reference, load_announced, load_reference

if TYPE_CHECKING:
    from paceline.algorithms.base import Algorithm, Progress

NEEDED = ("run", "check", "traits")
HERE = str(Path(__file__).parents[1])


@dataclass(frozen=True)
class Named:
    """An algorithm with its defaults, and one line about it."""

    make: Callable[[], Algorithm]
    summary: str
    every: int = 1
    """Evaluate after this many rounds unless told otherwise."""
    public: float = 0.0
    """The share of the data that its server holds unless told otherwise."""


_LENT: dict[str, Named] = LENT["algorithm"]


def lend_algorithm(algorithm: Algorithm | Callable[[], Algorithm], name: str = "") -> str:
    """Return a name for an algorithm given as an object: an instance, its class, or a function.

    It is the reference by which it could be imported again; a second instance of a class gets a number. One that is
    asked for is taken.
    """
    if name:
        _LENT[name] = own_algorithm(algorithm, name)
        return name
    kind: Any = algorithm if hasattr(algorithm, "__qualname__") else type(algorithm)
    name = f"{kind.__module__}:{kind.__qualname__.replace('<locals>.', '').rpartition('.')[2]}"
    taken, number = name, 1
    while taken in _LENT:
        number += 1
        taken = f"{name}_{number}"
    _LENT[taken] = own_algorithm(algorithm, taken)
    return taken


def find_own(name: str) -> Named | None:
    """An algorithm that was lent, is announced by an installed package, or is named ``package.module:Class``."""
    if name in _LENT:
        return _LENT[name]
    if name in announced("algorithms"):
        return own_algorithm(load_announced(announced("algorithms")[name]), name)
    if is_reference(name):
        return own_algorithm(load_reference(name, "algorithm"), name)
    return None


def own_algorithm(thing: Any, name: str) -> Named:
    """A user's algorithm, checked: an instance, its class, or a function that makes one."""
    makes = isinstance(thing, type) or (callable(thing) and not hasattr(thing, "run"))
    instance: Any = _made(thing, name) if makes else thing
    kind = type(instance)
    missing = [each for each in NEEDED if not callable(getattr(instance, each, None))]
    if missing or not dataclasses.is_dataclass(kind):
        lacks = f"has no {' and no '.join(missing)}" if missing else "is no dataclass"
        raise SettingError(
            f"{name!r} is not an algorithm: {kind.__name__} {lacks}. An algorithm is a frozen dataclass of"
            " settings, derived from paceline.Algorithm, with a coroutine run(world) that yields paceline.Progress"
        )
    text = (kind.__doc__ or "").strip().partition("\n")[0]
    return Named(lambda: instance, text or "an algorithm of your own")


def _made(thing: Any, name: str) -> Any:
    try:
        return thing()
    except PacelineError:
        raise
    except Exception as problem:  # whatever a user's code raises
        raise SettingError(
            f"{name!r} was called without arguments and raised {type(problem).__name__}: {problem}; give all its"
            " settings defaults, or hand over an instance"
        ) from problem


async def rounds_of(algorithm: Algorithm, world: Any) -> AsyncGenerator[Progress, None]:
    """Yield the progress of an algorithm. Report a forgotten yield or await as such."""
    begun, name = algorithm.run(world), f"{type(algorithm).__name__}.run"
    stream: Any = begun
    if not inspect.isasyncgen(begun):
        getattr(stream, "close", bool)()  # a coroutine that will not be awaited
        raise SettingError(f"{name} has no yield; yield paceline.Progress(model) after every round, in an async def")
    try:
        async for progress in stream:
            if not hasattr(progress, "model") or inspect.iscoroutine(progress.model):
                what = "a model without its await" if hasattr(progress, "model") else f"a {type(progress).__name__}"
                raise SettingError(f"{name} yields {what}; yield paceline.Progress(model) with an awaited model")
            yield progress
    except (AttributeError, TypeError) as problem:
        if "coroutine" not in str(problem):
            raise
        where = [one for one in traceback.extract_tb(problem.__traceback__) if not one.filename.startswith(HERE)][-1:]
        at = "".join(f" at or before line {one.lineno} of {one.filename.rpartition('/')[2]}" for one in where)
        raise SiteError(f"{name} lacks an await{at}: {problem}") from problem
    finally:
        await stream.aclose()
