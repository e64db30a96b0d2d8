"""The boundary to JSON: users' values are made plain at the call, outgoing messages are encoded here.

Figures of users are whatever their framework made of them: `np.int64`, an array of no dimensions, NaN. A
meaningless value is refused immediately, with the name of its argument. Other values are made plain, or
dropped, message by message: one figure never costs the others.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

#: JavaScript represents whole numbers up to here exactly.
MAX_EXACT = 2**53

#: Characters of the name of a metric, a hyperparameter or a setting.
MAX_NAME = 200
#: What every object of JavaScript has: tables by name on the page and in the gateway lose such an entry, or
#: find one that is not theirs.
_IN_EVERY_OBJECT = re.compile(
    "__proto__|__(define|lookup)[GS]etter__|constructor|hasOwnProperty|isPrototypeOf|propertyIsEnumerable"
    "|toLocaleString|toString|valueOf"
)

_log = logging.getLogger("tpulab")
_dropped: set[str] = set()


def refusal_of_name(name: str) -> str | None:
    """Why this cannot be the name of a figure; None: it can be."""
    if _IN_EVERY_OBJECT.fullmatch(name):
        return "every object of JavaScript has a property of this name"
    return None if len(name) <= MAX_NAME else f"names have at most {MAX_NAME} characters"


def encode(message: Mapping[str, Any]) -> bytes:
    """One line of JSON; nothing for an invalid message, which is logged once for each type."""
    try:
        return _line(message)
    except Exception:
        try:
            return _line(_plain(message, 0))
        except Exception as error:
            kind = str(message.get("type"))
            if kind not in _dropped:
                _dropped.add(kind)
                _log.warning("tpulab: a message of type %r could not be sent: %r", kind, error)
            return b""


def _line(message: Any) -> bytes:
    return (json.dumps(message, separators=(",", ":"), allow_nan=False) + "\n").encode()


def _plain(value: Any, depth: int) -> Any:
    value = plain_value(value)
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value if abs(value) <= MAX_EXACT else str(value)
    if depth < 16 and isinstance(value, Mapping):
        return {str(key): _plain(item, depth + 1) for key, item in value.items()}
    if depth < 16 and isinstance(value, (Sequence, set, frozenset)):
        return [_plain(item, depth + 1) for item in value]
    return short(value, 200)


def plain_value(value: Any) -> Any:
    """Converts a number of numpy, jax or torch to a Python number; returns everything else unchanged."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    try:
        is_number = getattr(value, "shape", None) == () and callable(getattr(value, "item", None))
        return value.item() if is_number else value
    except Exception:  # a tracer, an array that was deleted, an object whose attributes raise
        return value


def figure(name: str, value: Any) -> float | None:
    """A quantity that a user states, such as `tokens_per_step`. Raises `ValueError`."""
    plain = plain_value(value)
    if plain is None:
        return None
    try:
        number = float(plain)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(plain, str) or not math.isfinite(number) or number < 0:
        raise ValueError(f"`{name}` is a finite number, 0 or more, not {short(value)}")
    return number


def named(values: Mapping[str, Any] | None, more: dict[str, Any]) -> dict[str, Any]:
    """Metrics of one call, as a mapping, as keywords or as both. Raises `TypeError`."""
    if values is None:
        return more
    if not isinstance(values, Mapping):
        raise TypeError(
            f'metrics have names: run.log(loss=loss), or run.log({{"train/loss": loss}}), not {short(values)}'
        )
    return {**{str(name): value for name, value in values.items()}, **more}


def is_number(text: str) -> bool:
    """Whether this is the text of a number, NaN and infinity included."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def whole_number(name: str, value: Any) -> int | None:
    """A number of steps that a user states. Raises `ValueError`."""
    number = figure(name, value)
    if number is None:
        return None
    if number != int(number) or number > MAX_EXACT:
        raise ValueError(f"`{name}` is a whole number, not {short(value)}")
    return int(number)


def short(value: Any, length: int = 60, *, plain: bool = False) -> str:
    """The value for a sentence, or for a table; `plain`: a text without its quotes. Never raises."""
    try:
        text = str(value) if plain else repr(value)
    except Exception:  # an int of thousands of digits, an array that was deleted, any object of the user's
        text = f"a {type(value).__name__}"
    return text if len(text) <= length else text[: length - 1] + "…"
