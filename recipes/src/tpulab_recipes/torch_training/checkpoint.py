"""Checkpoints in PyTorch: written whole or not at all, from the host, readable on any backend."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from tpulab_recipes.common.errors import CheckpointError
from tpulab_recipes.runtime import Backend

_NAME = re.compile(r"^step-(\d{8})\.pt$")


def save_checkpoint(
    backend: Backend, folder: Path | str, step: int, state: dict[str, Any], *, keep: int = 3
) -> Path:
    """Writes `state` (nested dicts of tensors and plain values) as the checkpoint of `step`.

    Keeps the newest `keep`. In several processes only the main one writes; all wait for the transfer.
    """
    import torch

    on_host = backend.to_host(state)
    place = Path(folder) / f"step-{step:08d}.pt"
    if not backend.world().is_main:
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    for left in place.parent.glob("step-*.writing"):
        # Of a run that was killed while it wrote.
        left.unlink(missing_ok=True)
    partial = place.with_suffix(".writing")
    try:
        with partial.open("wb") as file:
            torch.save(on_host, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, place)
    finally:
        partial.unlink(missing_ok=True)
    for old in checkpoints(folder)[: -max(keep, 1)]:
        old.unlink()
    return place


def checkpoints(folder: Path | str) -> list[Path]:
    """The checkpoints of a folder, oldest step first."""
    found = [file for file in Path(folder).glob("step-*.pt") if _NAME.match(file.name)]
    return sorted(found, key=lambda file: file.name)


def load_checkpoint(folder: Path | str, backend: Backend | None = None) -> tuple[int, dict[str, Any]] | None:
    """Step and state of the newest checkpoint that can be read, on the host; None when there is none. Torn
    ones are passed over and named on stderr.

    With a `backend` of several processes the main one reads, for all of them, and all must ask.

    Raises:
        CheckpointError: none of them can be read.
    """
    if backend is not None:
        found: tuple[int, dict[str, Any]] | None = backend.from_main(lambda: load_checkpoint(folder))
        return found
    problem = None
    for file in reversed(checkpoints(folder)):
        try:
            return int(_NAME.match(file.name)[1]), read_checkpoint(file)  # type: ignore[index]
        except CheckpointError as error:
            print(f"passed over: {error}", file=sys.stderr, flush=True)
            problem = problem or error
    if problem is not None:
        raise problem
    return None


def read_checkpoint(file: Path) -> dict[str, Any]:
    """The state in a file, on the host. Raises `CheckpointError` for one that cannot be read."""
    import torch

    try:
        # Tensors and plain values only: a checkpoint from elsewhere cannot run code.
        state: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        raise CheckpointError(
            f"The checkpoint {file} cannot be read ({type(error).__name__}); remove it to go on from the one "
            "before."
        ) from error
    return state
