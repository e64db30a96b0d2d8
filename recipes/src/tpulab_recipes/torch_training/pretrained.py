"""Checkpoints of others: their folder, here or at Hugging Face, and all their tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.torch_training.tensor_files import SUFFIXES, read_tensors

_WEIGHTS = tuple(f"*{suffix}" for suffix in SUFFIXES)


def fetch_checkpoint(place: str) -> Path:
    """The folder, downloaded where it is a name at Hugging Face. Raises `ConfigError` where there is none."""
    refuse_lost_folder("model", place)
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


def refuse_lost_folder(setting: str, place: str) -> None:
    """Raises `ConfigError` for a path of a folder that does not exist: the hub would be queried for it, for
    minutes. Names there are NAME or OWNER/NAME."""
    path = Path(place).expanduser()
    if not path.exists() and (place.startswith(("/", ".", "~")) or place.count("/") > 1):
        raise ConfigError(setting, f"{place!r} is neither a folder here nor reachable at Hugging Face.")


def read_weights(folder: Path) -> dict[str, Any]:
    """All tensors of the folder's safetensors files or, without any, of its PyTorch files, which cannot run
    code. Raises `ConfigError` for a folder without weights, `CheckpointError` for a damaged file."""
    files = [file for kind in _WEIGHTS for file in sorted(folder.glob(kind))]
    safe = [file for file in files if file.suffix == ".safetensors"]
    state: dict[str, Any] = {}
    for file in safe or files:
        state |= read_tensors(file)
    if not state:
        raise ConfigError("model", f"{folder} has no weights ({', '.join(_WEIGHTS)}).")
    return state
