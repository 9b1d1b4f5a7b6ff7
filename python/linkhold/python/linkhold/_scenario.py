"""Arguments as callers may give them: scenarios as path or text, overrides as dict or list."""

from __future__ import annotations

import errno
import json
import numbers
import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Union

Scenario = Union[str, "os.PathLike[str]"]
"""Path of a scenario file, or its text. A `str` with a line break in it is a text."""

Overrides = Union[Mapping[str, Any], Iterable[str]]
"""Keys to change: `{"wired.rtt": "50ms"}`, or as on the command line `["wired.rtt=50ms"]`."""

MAX_SEEDS = 10_000
MAX_THREADS = 1024


class ScenarioWarning(UserWarning):
    """A scenario is valid, and probably not what was meant. The text is the command's hint."""


def tell(hints: Iterable[str]) -> None:
    """Warns of each hint once, at the line that called this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __package__:
        level, frame = level + 1, frame.f_back
    for hint in dict.fromkeys(hints):
        warnings.warn(hint, ScenarioWarning, stacklevel=level)


def source(scenario: Scenario) -> tuple[str | None, str | None]:
    """The scenario's file and text; one of them is None. Raises FileNotFoundError if there is no such file."""
    if isinstance(scenario, str) and "\n" in scenario:
        return None, scenario
    if not isinstance(scenario, (str, os.PathLike)):
        raise TypeError(f"scenario is a path or the text of a scenario file, not {type(scenario).__name__}")
    path = os.fspath(scenario)
    if not os.path.exists(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return path, None


def overrides(given: Overrides) -> list[str]:
    """`given` as a list of `key=value`."""
    if isinstance(given, str):
        raise TypeError(f'set is a dict or a list; write set=["{given}"]')
    if isinstance(given, Mapping):
        return [f"{key}={value_text(value)}" for key, value in given.items()]
    texts = list(given)
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f'set is a list of "key=value", and {text!r} is none')
    return texts


def value_text(value: Any) -> str:
    """A value as it is written after `key=`. A text is left as it is, as on the command line: "50ms", but also "7"."""
    return value if isinstance(value, str) else _toml(value)


def _toml(value: Any) -> str:
    # A scalar of numpy or a similar package converts itself to a Python value.
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        return repr(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(str(key))} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    raise TypeError(f"{value!r} cannot stand in a scenario; give a text with its unit, a number, a bool, a list or a dict")


def whole(name: str, value: Any, most: int) -> int:
    """`value` as a whole number from 1 to `most`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} is a whole number, not {value!r}")
    number = int(value)
    if not 1 <= number <= most:
        raise ValueError(f"{name} is {number}; give 1 to {most}")
    return number


def threads_of(threads: Any) -> int | None:
    """The number of threads; None is one per core."""
    return None if threads is None else whole("threads", threads, MAX_THREADS)
