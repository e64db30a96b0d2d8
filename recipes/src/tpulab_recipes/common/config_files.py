"""Configurations in JSON that other programs wrote: read, and checked for keys that do not exist."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tpulab_recipes.common.errors import ConfigError


def read_object(file: str | Path, setting: str) -> dict[str, Any]:
    """The JSON object in a file. Raises `ConfigError`, of the setting that names the file, where there is
    none."""
    try:
        written = json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(setting, f"{file} cannot be read as JSON: {error}") from error
    if not isinstance(written, dict):
        raise ConfigError(setting, f"{file} must hold a JSON object.")
    return written


def require_known(key: str, keys: Collection[str], file: str | Path, section: str = "") -> None:
    """Raises `ConfigError`, with the nearest of `keys`, for a key that is none of them."""
    if key in keys:
        return
    nearest = difflib.get_close_matches(key, list(keys), 1)
    meant = f"did you mean {nearest[0]!r}?" if nearest else f"there are {', '.join(keys)}."
    raise ConfigError(f"{section}.{key}".lstrip("."), f"{file}: there is no such key; {meant}")
