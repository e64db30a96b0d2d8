"""Checkpoints of others: their folder, here or at Hugging Face, and all their tensors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.common.inputs import read_json
from tpulab_recipes.torch_training.tensor_files import SUFFIXES, read_tensors

T = TypeVar("T")
_WEIGHTS = tuple(f"*{suffix}" for suffix in SUFFIXES)


def fetch_checkpoint(place: str) -> Path:
    """The folder, downloaded where it is a name at Hugging Face. Raises `ConfigError` where there is none."""
    if Path(place).is_dir():
        return Path(place)
    from huggingface_hub import snapshot_download

    return Path(
        loaded("model", place, lambda name: snapshot_download(name, allow_patterns=["*.json", *_WEIGHTS]))
    )


def loaded(setting: str, place: str, load: Callable[[str], T]) -> T:
    """`load(place)`, a `from_pretrained` of transformers, of a folder here or a name at Hugging Face.

    Raises `ConfigError`, of the setting, where there is none or it cannot be loaded, and `CheckpointError`
    for a damaged file.
    """
    refuse_lost_folder(setting, place)
    try:
        return load(place)
    except Exception as error:  # The hub, transformers, PyTorch and safetensors have no common class.
        reason, folder = " ".join(str(error).split())[:300].rstrip("."), Path(place)
        if not folder.is_dir():
            raise ConfigError(
                setting,
                f"{place!r} is neither a folder here nor reachable at Hugging Face ({reason}); without a "
                "network here, run `hf download NAME --local-dir FOLDER` elsewhere, and copy the folder.",
            ) from error
        # A damaged file has its own error.
        if (folder / "config.json").exists():
            read_json(folder / "config.json", setting)
        for file in _weight_files(folder):
            read_tensors(file)
        raise ConfigError(setting, f"{place!r} cannot be loaded ({reason}).") from error


def refuse_lost_folder(setting: str, place: str) -> None:
    """Raises `ConfigError` for a path of a folder that does not exist: the hub would be queried for it, for
    minutes. Names there are NAME or OWNER/NAME."""
    path = Path(place).expanduser()
    if not path.exists() and (place.startswith(("/", ".", "~")) or place.count("/") > 1):
        raise ConfigError(setting, f"{place!r} is neither a folder here nor reachable at Hugging Face.")


def read_weights(folder: Path) -> dict[str, Any]:
    """All tensors of the folder's safetensors files or, without any, of its PyTorch files, which cannot run
    code. Raises `ConfigError` for a folder without weights, `CheckpointError` for a damaged file."""
    state: dict[str, Any] = {}
    for file in _weight_files(folder):
        state |= read_tensors(file)
    if not state:
        raise ConfigError("model", f"{folder} has no weights ({', '.join(_WEIGHTS)}).")
    return state


def _weight_files(folder: Path) -> list[Path]:
    files = [file for kind in _WEIGHTS for file in sorted(folder.glob(kind))]
    return [file for file in files if file.suffix == ".safetensors"] or files
