"""Checkpoints of others: their folder, here or at Hugging Face, and all their tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tpulab_recipes.common.errors import ConfigError

_WEIGHTS = ("*.safetensors", "*.pth", "*.pt", "*.bin")


def fetch_checkpoint(place: str) -> Path:
    """The folder, downloaded where it is a name at Hugging Face. Raises `ConfigError` where there is none."""
    if Path(place).is_dir():
        return Path(place)
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(place, allow_patterns=["*.json", *_WEIGHTS]))
    except Exception as error:
        # The hub's errors have no common class; each means that there is no such checkpoint to be had.
        raise ConfigError(
            "model", f"{place!r} is neither a folder here nor reachable at Hugging Face ({error})."
        ) from error


def read_weights(folder: Path) -> dict[str, Any]:
    """All tensors of the folder's safetensors files or, without any, of its PyTorch files, which cannot run
    code. Raises `ConfigError` for a folder without weights."""
    import torch
    from safetensors.torch import load_file

    state: dict[str, Any] = {}
    files = [file for kind in _WEIGHTS for file in sorted(folder.glob(kind))]
    safe = [file for file in files if file.suffix == ".safetensors"]
    for file in safe or files:
        state |= load_file(file) if safe else torch.load(file, map_location="cpu", weights_only=True)
    if not state:
        raise ConfigError("model", f"{folder} has no weights ({', '.join(_WEIGHTS)}).")
    return state
