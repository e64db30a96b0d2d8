"""Checkpoints in PyTorch, in a folder here or in a bucket: written whole or not at all, from the host,
readable on any backend."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from tpulab_recipes.common.errors import CheckpointError, StorageError
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.runtime import Backend
from tpulab_recipes.runtime.trees import tree_map
from tpulab_recipes.torch_training.tensor_files import read_tensors

_NAME = re.compile(r"^step-(\d{8})\.pt$")


def save_checkpoint(
    backend: Backend, folder: Path | str, step: int, state: Mapping[str, Any], *, keep: int = 3
) -> PurePath:
    """Writes `state` (nested dicts of tensors and plain values) as the checkpoint of `step`.

    Keeps the newest `keep`. In several processes only the main one writes; all wait for the transfer. Raises
    `StorageError` where it does not fit or cannot be written; the older ones are then still there.
    """
    import torch

    def moved(leaf: Any) -> Any:
        # Tensors on the host are written before they can change, and need no second copy.
        on_host = type(leaf) is torch.Tensor and leaf.device.type == "cpu"
        return leaf.detach() if on_host else backend.to_host(leaf)

    on_host = tree_map(moved, dict(state))
    place, name = Folder(folder), f"step-{step:08d}.pt"
    written = PurePosixPath(name) if place.remote else Path(folder) / name
    if not backend.world().is_main:
        return written
    place.make().remove_unfinished("step-")
    place.require_room(bytes_of(on_host), "a checkpoint")
    try:
        with place.write(name) as file:
            torch.save(on_host, file)
    except RuntimeError as error:
        # PyTorch raises this for an error of the underlying file.
        raise StorageError(f"{folder}: the checkpoint {name} cannot be written ({error}).") from error
    for old in checkpoint_names(place)[: -max(keep, 1)]:
        place.remove(old)
    return written


def checkpoint_names(folder: Folder) -> list[str]:
    """Names of the checkpoints in a folder, oldest step first."""
    return [name for name in folder.names(".pt", may_be_absent=True) if _NAME.match(name)]


def checkpoints(folder: Path | str) -> list[Path]:
    """The checkpoints of a local folder, oldest step first."""
    return [Path(folder) / name for name in checkpoint_names(Folder(folder))]


def load_checkpoint(folder: Path | str, backend: Backend | None = None) -> tuple[int, dict[str, Any]] | None:
    """Step and state of the newest checkpoint that can be read, on the host; None when there is none. Damaged
    ones are skipped and named on stderr.

    With a `backend` of several processes the main one reads, for all of them, and all must call this.

    Raises:
        CheckpointError: none of them can be read.
    """
    if backend is not None:
        found: tuple[int, dict[str, Any]] | None = backend.from_main(lambda: load_checkpoint(folder))
        return found
    place, problems = Folder(folder), []
    for name in reversed(checkpoint_names(place)):
        try:
            state = read_checkpoint(place, name)
        except CheckpointError as error:
            problems.append(f"{error}")
            continue
        for problem in problems:
            print(f"passed over: {problem}", file=sys.stderr, flush=True)
        return int(name[5:13]), state
    if problems:
        raise CheckpointError(
            f"{folder}: none of its {len(problems)} checkpoint(s) can be read. The newest: {problems[0]} "
            "Remove them to start from the beginning."
        )
    return None


def read_checkpoint(folder: Folder, name: str) -> dict[str, Any]:
    """The state in a file, on the host. Raises `CheckpointError` for one that cannot be read."""
    shown = f"{folder.url.rstrip('/')}/{name}"
    try:
        with folder.read(name) as file:
            if not folder.remote:
                return dict(read_tensors(file, shown))
            # A bucket would get a request for each tensor.
            with tempfile.TemporaryFile() as copy:
                shutil.copyfileobj(file, copy, 2**24)
                copy.seek(0)
                return dict(read_tensors(copy, shown))
    except StorageError as error:
        raise CheckpointError(f"{shown} cannot be read: {error}") from error


def bytes_of(tree: Any) -> int:
    """Bytes of all tensors of a tree, and the small rest of a file."""
    if isinstance(tree, Mapping):
        return sum(map(bytes_of, tree.values())) + 1024
    if isinstance(tree, list | tuple):
        return sum(map(bytes_of, tree))
    return tree.numel() * tree.element_size() if hasattr(tree, "element_size") else 0
