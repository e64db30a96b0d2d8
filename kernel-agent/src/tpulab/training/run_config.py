"""The configuration at the start of a run, as far as it is numbers, booleans and text."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from tpulab.telemetry.messages import HyperValue
from tpulab.telemetry.plain import MAX_EXACT, plain_value, short

CONFIG_TEXT_LENGTH = 200
CONFIG_ENTRIES = 1000
_DEPTH = 4


def plain_config(config: object) -> dict[str, HyperValue | None]:
    """Numbers, booleans and text of a mapping, a dataclass or an object; nested names are joined by dots."""
    found: dict[str, HyperValue | None] = {}
    _collect(config, "", found, 0)
    return found


def _collect(value: object, name: str, found: dict[str, HyperValue | None], depth: int) -> None:
    if len(found) >= CONFIG_ENTRIES or depth > _DEPTH:
        return
    try:
        _check(value, name, found, depth)
    except Exception:  # a container that another thread changes, or an object whose attributes raise
        if name:
            found[name] = short(value, CONFIG_TEXT_LENGTH)


def _check(value: object, name: str, found: dict[str, HyperValue | None], depth: int) -> None:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif depth == 0 and hasattr(value, "__dict__") and not isinstance(value, type):
        value = vars(value)
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _collect(inner, f"{name}.{key}" if name else str(key), found, depth + 1)
    elif name and (value is None or isinstance(value := plain_value(value), (bool, int, float, str))):
        if isinstance(value, float) and not math.isfinite(value):
            found[name] = str(value)  # JSON has no infinities
        elif isinstance(value, int) and abs(value) > MAX_EXACT:
            # Python refuses to print a number of thousands of digits.
            found[name] = str(value) if abs(value) < 10**100 else f"about 2^{value.bit_length() - 1}"
        else:
            found[name] = value[:CONFIG_TEXT_LENGTH] if isinstance(value, str) else value
    elif name:
        found[name] = short(value, CONFIG_TEXT_LENGTH)
