"""The golden arrays, and the tiny model that they were computed with."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tpulab_recipes.dia.model import make_static, model_of, read_config

GOLDEN = Path(__file__).parent / "golden"


@cache
def golden(name: str) -> Any:
    return np.load(GOLDEN / f"{name}.npz", allow_pickle=False)


def tensor(name: str, key: str) -> torch.Tensor:
    return torch.tensor(golden(name)[key])


def near(ours: torch.Tensor, name: str, key: str, tolerance: float = 1e-5) -> None:
    """Within the bound of golden/README.md, and of the same shape."""
    reference = tensor(name, key)
    assert ours.shape == reference.shape
    bound = tolerance * max(1.0, float(reference.abs().max()))
    assert float((ours.detach() - reference).abs().max()) <= bound


def original_weights() -> dict[str, torch.Tensor]:
    """The tiny model's state dict under nari-labs' keys."""
    file = golden("tiny_forward")
    return {key[6:]: torch.tensor(file[key]) for key in file.files if key.startswith("p/dia/")}


def config() -> Any:
    return read_config(json.loads(str(golden("tiny_forward")["meta"]))["config"])[0]


def reference_model(rule: str = "0626", *, ends_sooner: bool = False) -> Any:
    """The tiny model, static; `ends_sooner` adds what `generate.npz` adds to the logits of EOS."""
    weights = original_weights()
    if ends_sooner:
        weights["decoder.logits_dense.weight"][:, 0, 32] += tensor("generate", "in/eos_boost")
    return make_static(model_of(weights, config(), rule))


def streams() -> dict[str, torch.Tensor]:
    """The forward pass of `tiny_forward.npz`: (unconditional, conditional) for each of two texts."""
    text = tensor("tiny_forward", "in/text")[:, 0]
    return {
        "input_ids": torch.stack([torch.zeros_like(text), text], 1).flatten(0, 1),
        "attention_mask": (text != 0).long().repeat_interleave(2, 0),
        "decoder_input_ids": tensor("tiny_forward", "in/tokens").repeat_interleave(2, 0),
    }


def by_channel(logits: torch.Tensor, channels: int = 9) -> torch.Tensor:
    """transformers' Float[batch * channel, time, id] as Float[batch, time, channel, id]."""
    return logits.unflatten(0, (-1, channels)).transpose(1, 2)
