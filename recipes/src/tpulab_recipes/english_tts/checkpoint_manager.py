"""Checkpoints under the seed's names, written and read by `torch_training`: whole or not at all, tensors and
plain values only, so that a file from elsewhere cannot run code.

A checkpoint has `epoch`, `step`, `model_state_dict`, `optimizer_state_dict`, `scheduler_state_dict`, `loss`,
`config`, `scaler` and `random`, the states of all random numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tpulab_recipes.common.errors import CheckpointError, ConfigError
from tpulab_recipes.common.inputs import read_json
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.english_tts.data import PhonemeProcessor
from tpulab_recipes.runtime import Backend
from tpulab_recipes.torch_training import checkpoint
from tpulab_recipes.torch_training.tensor_files import read_tensors

#: Below the folder of the checkpoints: the checkpoint with the lowest validation loss.
BEST = "best"
#: Name in a trainer's state (`torch_training.snapshot`), and the seed's name.
_NAMES = {
    "model": "model_state_dict",
    "optimizer": "optimizer_state_dict",
    "scheduler": "scheduler_state_dict",
}


def save_checkpoint(
    backend: Backend,
    folder: str | Path,
    state: Mapping[str, Any],
    *,
    epoch: int,
    loss: float,
    keep_last_n: int = 3,
    best: bool = False,
) -> Path:
    """Writes the state of a trainer after `epoch` epochs; `best`: as the best one, beside the others.

    Raises `StorageError` where it does not fit the disk or cannot be written.
    """
    seed = {_NAMES.get(name, name): value for name, value in state.items()}
    seed |= {"epoch": epoch, "loss": loss, "scaler": state.get("scaler", {})}
    place = Path(folder) / BEST if best else Path(folder)
    written = checkpoint.save_checkpoint(
        backend, place, int(state["step"]), seed, keep=1 if best else keep_last_n
    )
    return Path(written)


def load_checkpoint(place: str | Path, backend: Backend | None = None) -> dict[str, Any] | None:
    """The state that a trainer loads, with `epoch` and `loss`; of a file, or of the newest of a folder that
    can be read. None where the folder has none. Raises `CheckpointError` for what cannot be read. With a
    `backend` of several processes the main one reads, for all of them."""
    if backend is not None:
        read: dict[str, Any] | None = backend.from_main(lambda: load_checkpoint(place))
        return read
    path, ours = Path(place), {name: key for key, name in _NAMES.items()}
    if path.suffix == ".pt" or path.is_file():
        found = checkpoint.read_checkpoint(Folder(path.parent), path.name)
    elif (newest := checkpoint.load_checkpoint(path)) is not None:
        found = newest[1]
    else:
        return None
    return {ours.get(name, name): value for name, value in found.items()}


def find_latest_checkpoint(folder: str | Path) -> Path | None:
    """The checkpoint of the highest step, damaged or not."""
    found = checkpoint.checkpoints(folder)
    return found[-1] if found else None


def save_phoneme_processor(folder: str | Path, processor: PhonemeProcessor) -> Path:
    """Writes its symbols as JSON."""
    place = Path(folder) / "phonemes.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps({"symbols": processor.symbols, "trained": sorted(processor.trained)}))
    return place


def load_phoneme_processor(folder: str | Path) -> PhonemeProcessor:
    """Raises `CheckpointError` where there is none."""
    place = Path(folder) / "phonemes.json"
    try:
        written = read_json(place)
        return PhonemeProcessor(written["symbols"], written.get("trained", ()))
    except (ConfigError, KeyError, TypeError) as error:
        raise CheckpointError(f"{place} cannot be read as a table of symbols ({error}).") from error


def save_final_model(folder: str | Path, model: Any, config: Any, processor: PhonemeProcessor) -> Path:
    """Writes `model.safetensors`, `config.json` and `phonemes.json`: all that speaking needs."""
    from safetensors.torch import save_file

    place = Path(folder)
    save_phoneme_processor(place, processor)
    (place / "config.json").write_text(json.dumps(config.to_dict(), indent=2))
    weights = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    save_file(weights, place / "model.safetensors")
    return place


def load_final_model(folder: str | Path) -> tuple[Any, Any, PhonemeProcessor]:
    """Model, settings and symbols of `save_final_model`. Raises `CheckpointError` for keys that are missing
    or left over."""
    from tpulab_recipes.english_tts.config_english import EnglishTrainingConfig
    from tpulab_recipes.english_tts.model import KokoroModel

    place = Path(folder)
    if not place.is_dir():
        raise CheckpointError(f"{place} is no folder of an exported voice; train one first.")
    processor = load_phoneme_processor(place)
    try:
        config = EnglishTrainingConfig.from_dict(read_json(place / "config.json", "model"))
        model = KokoroModel(config, len(processor))
        model.load_state_dict(read_tensors(place / "model.safetensors"))
    except (TypeError, RuntimeError) as error:
        raise CheckpointError(f"{place} has no voice that can be read: {error}") from error
    return model, config, processor
