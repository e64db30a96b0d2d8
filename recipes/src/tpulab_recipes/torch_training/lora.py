"""Adapters of peft beside a model whose parameters stay as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpulab_recipes.common.errors import CheckpointError, MissingPackage


def add_lora(model: Any, rank: int, targets: Sequence[str]) -> Any:
    """The model in peft, with adapters of this rank on all its layers of these names."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise MissingPackage("peft", "Training with LoRA") from error
    return get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=list(targets)))


def saved_weights(model: Any) -> dict[str, Any]:
    """The part of a model in a checkpoint: with adapters, not the weights that they adapt, which come with
    the pretrained model."""
    state: dict[str, Any] = model.state_dict()
    if not hasattr(model, "peft_config"):
        return state
    return {name: value for name, value in state.items() if "lora_" in name}


def load_saved_weights(model: Any, state: Mapping[str, Any]) -> None:
    """Puts `saved_weights` back. Raises `CheckpointError` for keys that are missing or left over."""
    wanted = saved_weights(model).keys()
    # Older checkpoints hold the whole model.
    odd = {name for name in wanted ^ state.keys() if name in wanted or "lora_" in name}
    if odd:
        raise CheckpointError(f"The checkpoint is one of another model: {', '.join(sorted(odd)[:4])}.")
    model.load_state_dict(dict(state), strict=not hasattr(model, "peft_config"))


def core_of(model: Any) -> Any:
    """The model itself, even if peft wraps it; the model contains the adapters."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model
