"""Settings in groups: frozen dataclasses within a frozen dataclass. They are changed by nested mappings or by
paths such as `train.batch_size`, written as plain values, read from files, and compared."""

from __future__ import annotations

import difflib
import math
import runpy
import tomllib
import typing
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.common.inputs import read_json

Group = TypeVar("Group")


def changed(group: Group, values: Any, path: str = "") -> Group:
    """The group with `values` over it. Raises `ConfigError` for an unknown key, with the nearest known
    one, and for a value of another type. `path` is where the group stands, with a dot behind it."""
    if not isinstance(values, Mapping):
        raise ConfigError(path.rstrip("."), f"must be a group of keys, not {values!r}.")
    hints = typing.get_type_hints(type(group))
    changes: dict[str, Any] = {}
    for key, value in values.items():
        name, _, rest = str(key).partition(".")
        if name not in hints:
            raise ConfigError(path + name, f"there is no such key.{nearest(name, hints)}")
        now = changes.get(name, getattr(group, name))
        if is_dataclass(now):
            changes[name] = changed(now, {rest: value} if rest else value, f"{path}{name}.")
        else:
            changes[name] = _checked(value, hints[name], path + str(key))
    return replace(group, **changes)  # type: ignore[type-var]


def _checked(value: Any, kind: Any, path: str) -> Any:
    """The value converted to its type: JSON and TOML have no tuples, and JSON has no infinity."""
    of = typing.get_args(kind)
    if typing.get_origin(kind) is Literal:
        if value not in of:
            raise ConfigError(path, f"{value!r} is none of {', '.join(of)}.{nearest(str(value), of)}")
        return value
    if typing.get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(path, f"must be a list, not {value!r}.")
        kinds = of[:1] * len(value) if of[-1] is Ellipsis else of
        if len(kinds) != len(value):
            raise ConfigError(path, f"must have {len(kinds)} entries, not {len(value)}.")
        return tuple(_checked(item, kind, path) for item, kind in zip(value, kinds, strict=True))
    if kind is float and (type(value) is int or value == "inf"):
        return float(value)
    if kind is int and type(value) is float and value.is_integer():
        return int(value)
    if type(value) is not kind:
        raise ConfigError(path, f"must be {kind.__name__}, not {value!r}.")
    return value


def nearest(name: str, names: Iterable[str]) -> str:
    """` Did you mean …?`, or nothing where no name is near."""
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.4)
    return f" Did you mean {close[0]!r}?" if close else ""


def to_dict(group: Any) -> dict[str, Any]:
    """Plain values that `changed` takes back (JSON has no infinity: it is written as the text `inf`)."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        return "inf" if value == math.inf else value

    return {name: plain(value) for name, value in asdict(group).items()}


def read_settings(path: Path) -> dict[str, Any]:
    """The settings of a `.toml` or `.json` file, or `get_config()` of a `.py` file. Raises `ConfigError`."""
    try:
        if path.suffix == ".toml":
            return tomllib.loads(path.read_text())
        if path.suffix == ".json":
            return read_json(path)
        if path.suffix == ".py":
            get_config = runpy.run_path(str(path)).get("get_config")
            if get_config is None:
                raise ConfigError("", f"{path} has no function get_config().")
            found = get_config()
            return dict(found.to_dict() if hasattr(found, "to_dict") else found)
    except ConfigError:
        raise
    except Exception as error:  # A file in Python raises what it likes.
        raise ConfigError("", f"{path} cannot be read: {type(error).__name__}: {error}") from error
    raise ConfigError("", f"{path} must end in .py, .toml or .json, or be the name of a preset.")


def flat(values: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Nested groups as one: `{"train": {"batch_size": 8}}` becomes `{"train.batch_size": 8}`."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= flat(value, f"{path}{name}.") if isinstance(value, Mapping) else {path + name: value}
    return found


def differences(
    saved: Mapping[str, Any], requested: Mapping[str, Any], may_differ: Collection[str] = ()
) -> str:
    """`seed is 0 there and 1 here; …`: the settings that differ between a checkpoint and the request; empty
    if none do."""
    return "; ".join(
        f"{name} is {saved.get(name)!r} there and {requested.get(name)!r} here"
        for name in sorted(saved.keys() | requested.keys())
        if saved.get(name) != requested.get(name) and name not in may_differ
    )
