"""Arguments that make no sense are refused here, each in the same words: what was given, what is
wanted. Every check raises InvalidRequest."""

from __future__ import annotations

import inspect
import os
import reprlib
import sys
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

from agentrt.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence


_PLAIN = {kind.__name__ for kind in (str, int, float, bool, list, dict)}


def wrong(name: str, given: object, wanted: str) -> InvalidRequest:
    """The error of an argument that is not what is wanted."""
    return InvalidRequest(f"{name}={reprlib.repr(given)}; give {wanted}")


def check_count(name: str, given: Any, at_least: int = 0, *, unless: str = "") -> int:
    """A whole number from `at_least` on; `unless` says what else may be given."""
    if isinstance(given, int | SupportsIndex) and not isinstance(given, bool):
        count = index(given)
        if count >= at_least:
            return count
    raise wrong(name, given, f"a whole number, {at_least} or more{unless}")


def check_number(name: str, given: Any, wanted: str) -> None:
    """A finite number, 0 or more, that a float can hold."""
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not is_number or not 0 <= given <= sys.float_info.max:
        raise wrong(name, given, wanted)


def check_text(name: str, given: Any) -> str:
    if not isinstance(given, str):
        raise InvalidRequest(f"{name} is of type {type(given).__name__}; a text is wanted")
    return given


def check_kind(given: Any, *, but_first: Any = None) -> None:
    """A type: not its name, nor a function, which Pydantic would call with what was written.

    `but_first` is what was given for the text that it is read from."""
    if inspect.isroutine(given):
        raise wrong("kind", given, "a type, or a JSON schema as a dict; functions are tools")
    if not isinstance(given, str):
        return
    if isinstance(but_first, type):
        raise InvalidRequest(
            f"the type comes first and then the text: give ({but_first.__name__}, "
            f"{reprlib.repr(given)})"
        )
    example = given if given in _PLAIN else "int"
    raise wrong("kind", given, f"the type itself, such as {example}, or a JSON schema as a dict")


def check_name(name: str, given: Any) -> None:
    """A text that is not empty, and that can be shown: no half surrogate pairs, no zero bytes."""
    if not isinstance(given, str) or not given:
        raise wrong(name, given, "a text that is not empty")
    if not given.isprintable():
        raise wrong(name, given, "a text of printable characters")


def check_function(name: str, given: Any, wanted: str) -> None:
    if not callable(given):
        raise wrong(name, given, wanted)


def check_hook(name: str, given: Any, of: str) -> None:
    """A function of the user's, or None."""
    if given is not None:
        check_function(name, given, f"a function of {of}, or None")


def check_word(name: str, given: Any, words: Sequence[str]) -> None:
    """One of several words."""
    if given not in words:
        raise wrong(name, given, " or ".join(f'"{word}"' for word in words))


def check_path(name: str, given: Any) -> None:
    """A path that a file can have."""
    wanted = "the path of a file"
    if not isinstance(given, str | Path) or not str(given) or "\0" in str(given):
        raise wrong(name, given, wanted)
    try:
        os.fsencode(given)
    except UnicodeEncodeError:
        raise wrong(name, given, wanted) from None


def check_awaitable(name: str, given: Any) -> None:
    """What an async function returns when it is called."""
    if not inspect.isawaitable(given):
        raise InvalidRequest(
            f"{name} returned a {type(given).__name__} that cannot be awaited; give an async "
            "function"
        )
