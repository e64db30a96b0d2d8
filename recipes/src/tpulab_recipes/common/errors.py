"""Errors of the recipes: one class for each decision that a caller can take."""

from __future__ import annotations

import shlex
import sys


class RecipeError(Exception):
    """A failure with a stable `code` and a sentence with the remedy."""

    code = "recipe"


class ConfigError(RecipeError):
    """The configuration cannot be used as it is. `path` names the key, for example `train.batch_size`."""

    code = "config"

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path


class DataError(RecipeError):
    """The data cannot be used: a missing column, an unreadable file, an empty shard."""

    code = "data"


class StorageError(RecipeError):
    """A folder or bucket cannot be read or written (missing, no permission, no space)."""

    code = "storage"


class MissingPackage(RecipeError):
    """An optional package is needed for this request."""

    code = "missing_package"

    def __init__(self, package: str, purpose: str, remedy: str | None = None) -> None:
        # The Python that runs this: the first `pip` of a terminal is often another environment's.
        self.install = [sys.executable, "-m", "pip", "install", package]
        what_to_do = remedy or f"install it with `{shlex.join(self.install)}`."
        super().__init__(f"{purpose} needs the package {package}; {what_to_do}")
        self.package = package


class CheckpointError(RecipeError):
    """No checkpoint to load, or one that does not fit the configuration."""

    code = "checkpoint"


class TrainingDiverged(RecipeError):
    """The gradient was not finite for many steps in a row."""

    code = "diverged"
