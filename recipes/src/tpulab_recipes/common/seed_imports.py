"""Makes imports work as they are printed in the documents that the recipes were made from."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping


def use_imports(package: str, modules: Mapping[str, str]) -> None:
    """Makes each of these names, such as `training.trainer`, mean a module of the package, in this process.

    Raises `ImportError` where another package of the same name is in use.
    """
    own = sys.modules[package]
    for name in modules:
        parts = name.split(".")
        for parent in (".".join(parts[:count]) for count in range(1, len(parts))):
            if sys.modules.setdefault(parent, own) is not own:
                raise ImportError(f"Another package named {parent} is imported; use {package}.")
    for name, module in modules.items():
        sys.modules[name] = importlib.import_module(f"{package}.{module}")
