"""Checkpoints of the second stage as RVC-Boss/GPT-SoVITS reads and writes them, v1 and v2.

Three containers hold a state dict: a training checkpoint (`model`), the published `s2G`/`s2D` and an exported
voice (`weight`; in half precision, and without `enc_q`). An exported voice also holds its configuration as an
object of the original's own class, which is read here without running that class.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

import torch

from tpulab_recipes.audio.hifigan import MultiPeriodDiscriminator, fold_weight_norm, unfold_weight_norm
from tpulab_recipes.common.errors import CheckpointError
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.gpt_sovits.config import Config, s2_json
from tpulab_recipes.gpt_sovits.models import SYMBOL_COUNTS, SynthesizerTrn
from tpulab_recipes.runtime.trees import tree_map
from tpulab_recipes.torch_training.tensor_files import read_tensors

State = dict[str, torch.Tensor]
_LATER_VERSIONS = {b"02": "v3", b"03": "v3 (LoRA)", b"04": "v4 (LoRA)", b"05": "v2Pro", b"06": "v2ProPlus"}

#: The original's class of configurations, from wherever a file was written.
_HPARAMS = ("utils.HParams", "GPT_SoVITS.utils.HParams", "__main__.HParams")


class _Plain(dict[str, Any]):
    """Stands for the original's HParams: attributes become keys."""

    def __setstate__(self, state: Any) -> None:
        self.update(state)


def read_container(file: str | Path) -> tuple[State, dict[str, Any]]:
    """State dict in float32, and what else the file holds as plain values. Runs no code of the file.

    Raises `CheckpointError`: missing, unreadable, of a later version, or without a state dict.
    """
    try:
        with Path(file).open("rb") as opened:
            later = _LATER_VERSIONS.get(opened.read(2))
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read as a checkpoint: {error.strerror}.") from error
    if later:
        raise CheckpointError(f"{file} is a {later} voice; v1 and v2 can be read here.")
    held = read_tensors(file, stand_ins=dict.fromkeys(_HPARAMS, _Plain))
    state = held.get("weight", held.get("model")) if isinstance(held, dict) else None
    if not isinstance(state, dict) or not state:
        raise CheckpointError(
            f"{file} has neither `weight` nor `model`, so it is no checkpoint of GPT-SoVITS."
        )
    for key, value in state.items():
        if not isinstance(key, str) or not isinstance(value, torch.Tensor):
            raise CheckpointError(f"{file} has {type(value).__name__} as {key!r}, not a tensor by name.")
    tensors = {key: value.float() if value.is_floating_point() else value for key, value in state.items()}
    return tensors, {key: value for key, value in held.items() if key not in ("weight", "model")}


def version_of(state: State) -> str:
    """v1 or v2, by the rows of the text embedding."""
    table = state.get("enc_p.text_embedding.weight", torch.zeros(0))
    rows = table.shape[0] if table.ndim else 1
    versions = {count: version for version, count in SYMBOL_COUNTS.items()}
    if rows not in versions:
        raise CheckpointError(f"A text embedding of {rows} rows is neither v1's (322) nor v2's (732).")
    return versions[rows]


def load_weights(model: Any, state: State, name: str = "the checkpoint", may_lack: str = "") -> None:
    """Puts a state dict, folded or not, into a model. `may_lack` is what its keys may begin with: `enc_q.` in
    an exported voice. Raises `CheckpointError` naming keys that are missing, left over or misshapen."""
    folded = not any(key.endswith("weight_v") for key in state)
    if folded:
        fold_weight_norm(model)
    ours = model.state_dict()
    missing = [key for key in ours.keys() - state.keys() if not (may_lack and key.startswith(may_lack))]
    odd = [key for key in ours.keys() & state.keys() if ours[key].shape != state[key].shape]
    found = {"missing": missing, "left over": state.keys() - ours.keys(), "of another shape": odd}
    problems = [
        f"{what}: {', '.join(sorted(keys)[:4])} ({len(keys)})" for what, keys in found.items() if keys
    ]
    if problems:
        raise CheckpointError(f"{name} does not fit the model; {'; '.join(problems)}. Check the settings.")
    model.load_state_dict(state, strict=False)
    if folded:
        unfold_weight_norm(model)


def make_models(config: Config) -> tuple[SynthesizerTrn, MultiPeriodDiscriminator]:
    """Generator and discriminator with random weights, which depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        generator = SynthesizerTrn(**config.model)
        return generator, MultiPeriodDiscriminator(config.periods, config.discriminator_divisor)


def start_models(config: Config, s2g: str = "", s2d: str = "") -> Any:
    """As `make_models`, with the weights of these files where they are given."""
    models = make_models(config)
    for model, file in zip(models, (s2g, s2d), strict=True):
        if not file:
            continue
        state, _ = read_container(file)
        if model is models[0] and (found := version_of(state)) != config.version:
            raise CheckpointError(
                f"{file} is a {found} voice and the settings are {config.version}'s; give --version {found}."
            )
        load_weights(model, state, file, may_lack="enc_q.")
    return models


def load_voice(file: str | Path, config: Config) -> SynthesizerTrn:
    """A generator from any of the containers, ready to speak; `enc_q` may be missing."""
    state, _ = read_container(file)
    model, _ = make_models(config.but(version=version_of(state)))
    load_weights(model, state, str(file), may_lack="enc_q.")
    return model.eval()


def export_voice(model: Any, config: Config, file: str | Path, info: str) -> None:
    """Writes an exported voice: half precision, without `enc_q`; the configuration is a plain dict, which the
    original's reader takes as well (`DictToAttrRecursive`)."""
    state = OrderedDict(
        (key, value.detach().cpu().half() if value.is_floating_point() else value.cpu())
        for key, value in model.state_dict().items()
        if "enc_q" not in key
    )
    save_container({"weight": state, "config": s2_json(config), "info": info}, file)


def export_training(model: Any, config: Config, file: str | Path, epoch: int, optimizer: Any = None) -> None:
    """Writes a training checkpoint (`G_*.pth`, `D_*.pth`), from which the original resumes."""
    held = {
        "model": {key: value.detach().cpu() for key, value in model.state_dict().items()},
        "iteration": epoch,
        "optimizer": None if optimizer is None else _plain_optimizer(optimizer),
        "learning_rate": config.learning_rate,
    }
    save_container(held, file)


def _plain_optimizer(optimizer: Any) -> dict[str, Any]:
    """The optimizer's state as AdamW writes it outside of a compiled step."""

    def plain(value: Any) -> Any:
        return value.detach().cpu() if isinstance(value, torch.Tensor) else value

    state: dict[str, Any] = tree_map(plain, optimizer.state_dict())
    for group in state["param_groups"]:
        group["lr"], group["capturable"] = float(group["lr"]), False
    return state


def save_container(held: dict[str, Any], file: str | Path) -> None:
    place = Path(file)
    with Folder(place.parent).make().write(place.name) as opened:
        torch.save(OrderedDict(held), opened)
