"""The configuration at the start of a run, as far as it is numbers, booleans and text."""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import types
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import Any

from tpulab.telemetry.messages import HyperValue
from tpulab.telemetry.plain import MAX_EXACT, plain_value, refusal_of_name, short

CONFIG_TEXT_LENGTH = 200
CONFIG_ENTRIES = 1000
_DEPTH = 4
_NAMESPACES = (argparse.Namespace, types.SimpleNamespace)
_SCALARS = (bool, int, float, str)


def plain_config(config: object) -> dict[str, HyperValue | None]:
    """Numbers, booleans and text of a mapping (also of ml_collections and OmegaConf), a dataclass, an object,
    a class or a module; nested names are joined by dots. A list or a text is stored as `config`. Unusable
    names are left out."""
    found: dict[str, HyperValue | None] = {}
    _collect(lambda: config, "", found, 0)
    return found


def _collect(read: Callable[[], Any], name: str, found: dict[str, HyperValue | None], depth: int) -> None:
    if len(found) >= CONFIG_ENTRIES or depth > _DEPTH or refusal_of_name(name):
        return
    value: Any = None
    try:
        value = read()
        if (entries := _entries(value, depth)) is not None:
            names, read_entry = entries
            for key in islice(names, CONFIG_ENTRIES):
                # Each one by itself: OmegaConf raises for a value that is missing.
                inner = f"{name}.{key}" if name else str(key)
                _collect(partial(read_entry, key), inner, found, depth + 1)
        elif name or value is not None:
            found[name or "config"] = _plain(value)
    except Exception as error:  # a container that another thread changes, or an object whose attributes raise
        if name:
            found[name] = short(error if value is None else value, CONFIG_TEXT_LENGTH)


def _entries(value: Any, depth: int) -> tuple[Iterable[Any], Callable[[Any], Any]] | None:
    """The names of a configuration's values, and what reads one of them; None for a single value."""

    def attribute(name: str) -> Any:
        return getattr(value, name)

    if isinstance(value, Mapping) or (
        not isinstance(value, type) and hasattr(value, "keys") and hasattr(value, "__getitem__")
    ):
        return value.keys(), value.__getitem__
    if isinstance(value, _NAMESPACES):
        return list(vars(value)), attribute
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [field.name for field in dataclasses.fields(value)], attribute
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return value._fields, attribute
    if depth > 0 and hasattr(type(value), "__attrs_attrs__"):
        return [field.name for field in type(value).__attrs_attrs__], attribute
    if depth > 0 or isinstance(value, (*_SCALARS, list, tuple, set, frozenset)):
        return None
    return _attributes(value), attribute


def _attributes(value: Any) -> list[str]:
    """Public attributes of an object, a class or a module; of a class only scalars and slots."""
    own: dict[str, Any] = {} if isinstance(value, type) else dict(getattr(value, "__dict__", {}))
    if isinstance(value, types.ModuleType):
        kinds = (*_SCALARS, Mapping, *_NAMESPACES)
        own = {name: each for name, each in own.items() if isinstance(each, kinds)}
    owner = value if isinstance(value, type) else type(value)
    shared = {
        name: None
        for each in reversed(owner.__mro__)
        for name, member in vars(each).items()
        if isinstance(member, (*_SCALARS, types.MemberDescriptorType))
    }
    return [name for name in {**shared, **own} if not name.startswith("_")]


def _plain(value: Any) -> HyperValue | None:
    value = plain_value(os.fspath(value) if isinstance(value, os.PathLike) else value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no infinities
    if isinstance(value, int) and abs(value) > MAX_EXACT:
        # Python refuses to print a number of thousands of digits.
        return str(value) if abs(value) < 10**100 else f"about 2^{value.bit_length() - 1}"
    if isinstance(value, str):
        return value[:CONFIG_TEXT_LENGTH]
    return value if value is None or isinstance(value, _SCALARS) else short(value, CONFIG_TEXT_LENGTH)
