"""Adapters of peft beside a model whose parameters stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpulab_recipes.common.errors import MissingPackage


def add_lora(model: Any, rank: int, targets: Sequence[str]) -> Any:
    """The model in peft, with adapters of this rank on all its layers of these names."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise MissingPackage("peft", "Training with LoRA") from error
    return get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=list(targets)))


def core_of(model: Any) -> Any:
    """The model itself, also inside of peft's; its adapters are in it."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model
