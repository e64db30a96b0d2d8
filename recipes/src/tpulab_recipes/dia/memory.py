"""What fine-tuning needs of each chip, counted without allocating anything: a table by kind of chip, and a
refusal of what does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from tpulab_recipes.dia.config import Config
from tpulab_recipes.dia.model import LORA_TARGETS, make_static
from tpulab_recipes.dia.trainer import loss_sum
from tpulab_recipes.runtime.memory_plan import (
    CHIP_GIB,
    GIB,
    MemoryPlan,
    bfloat16_on_meta,
    plan_memory,
    refuse_too_large_on,
    slice_name,
)
from tpulab_recipes.torch_training import add_lora, core_of

CHIPS = ("v4", "v5e", "v5p", "v6e")
_LORA_RANK = 16


@dataclass(frozen=True)
class Need:
    """One way to train on one host of `count` chips of a kind."""

    way: str
    chip: str
    count: int
    clips: int
    """Of each chip."""
    plan: MemoryPlan

    @property
    def most(self) -> int:
        """Clips of each chip that fit; 0: none."""
        room = 0.9 * CHIP_GIB[self.chip] * GIB - (self.plan.total - self.plan.activations)
        return max(0, int(room * self.clips / self.plan.activations))

    def row(self) -> dict[str, Any]:
        sizes = asdict(self.plan) | {"total": self.plan.total}
        return {
            "way": self.way,
            "chips": slice_name(self.chip, self.count),
            "clips": self.clips,
            **{name: round(value / GIB, 2) for name, value in sizes.items()},
            "of": CHIP_GIB[self.chip],
            "most_clips": self.most,
        }


def table(model_config: Any, config: Config, clips: int, count: int = 8) -> list[Need]:
    """Full fine-tuning sharded over `count` chips, and adapters beside whole parameters, on each kind.

    Parameters and moments are float32. Activations are what PyTorch keeps for the backward pass, an upper
    bound; they grow with the clips in proportion. With `config.remat` they are the inputs of the layers and
    what one layer keeps.
    """
    adapters = config.but(lora_rank=config.lora_rank or _LORA_RANK, shard=False)
    ways = {f"full, sharded over {count}": config.but(lora_rank=0, shard=True), "LoRA": adapters}
    plans = {way: plan(model_config, each, clips, count) for way, each in ways.items()}
    return [Need(way, chip, count, clips, found) for way, found in plans.items() for chip in CHIPS]


def plan(model_config: Any, config: Config, clips: int, count: int) -> MemoryPlan:
    """Bytes on each of `count` chips, each with `clips` clips at a time."""
    from transformers import DiaForConditionalGeneration

    lowered = bfloat16_on_meta if config.precision == "bfloat16" else nullcontext

    def make_model() -> Any:
        model = make_static(DiaForConditionalGeneration(model_config))
        return add_lora(model, config.lora_rank, LORA_TARGETS) if config.lora_rank else model

    def counted(layers: int | None) -> MemoryPlan:
        def loss(model: Any) -> Any:
            core = core_of(model).model
            for half in (core.encoder, core.decoder):
                half.layers = half.layers[:layers]
            with lowered():
                return loss_sum(model, _batch(model_config, config, clips))

        return plan_memory(make_model, loss, chips=count, shard=config.shard)

    whole = counted(None)
    if config.ema:
        whole = replace(whole, optimizer=whole.optimizer + whole.parameters)
    if not config.remat:
        return whole
    # Each layer keeps its input only and, while its backward pass runs, what it keeps without remat.
    encoder, decoder = model_config.encoder_config, model_config.decoder_config
    inputs = encoder.num_hidden_layers * config.text_length * encoder.hidden_size
    inputs += decoder.num_hidden_layers * config.audio_length * decoder.hidden_size
    kept = min(whole.activations, counted(1).activations + 4 * clips * inputs)
    return replace(whole, activations=kept)


def refuse_too_large(model_config: Any, config: Config, backend: Any) -> None:
    """`memory_plan.refuse_too_large_on` for a step of fine-tuning on all devices of the backend."""
    parts = config.grad_accum_steps
    refuse_too_large_on(
        backend,
        lambda chips: plan(model_config, config, -(-config.batch_size // (chips * parts)), chips),
        f"A step with {config.batch_size} clips" + (f" in {parts} parts" if parts > 1 else ""),
        "Use a smaller batch_size, more grad_accum_steps, remat, lora_rank, or shard (with --spmd) over more "
        "chips.",
    )


def _batch(model_config: Any, config: Config, clips: int) -> dict[str, torch.Tensor]:
    text = torch.ones(clips, config.text_length, dtype=torch.long)
    codes = torch.ones(clips, config.audio_length, model_config.decoder_config.num_channels, dtype=torch.long)
    return {"input_ids": text, "attention_mask": text, "decoder_input_ids": codes, "labels": codes}


def sentences(needs: Sequence[Need]) -> list[str]:
    """What fits, in words, a sentence for each kind of chip: "v5e-8: full fine-tuning does not fit; LoRA fits
    with 4 clips per chip"."""
    lines = []
    for chip in CHIPS:
        said = []
        for need in (each for each in needs if each.chip == chip):
            at_most = "at most " if need.plan.gathered else ""
            fitting = f"fits with {at_most}{need.most} clip{'s' * (need.most > 1)} per chip"
            way = need.way.split(",")[0].replace("full", "full fine-tuning")
            said.append(f"{way} {fitting if need.most else 'does not fit'}")
        lines.append(f"{slice_name(chip, needs[0].count)}: {'; '.join(said)}.")
    if any(need.plan.gathered for need in needs):
        lines.append(
            "At most: the plan counts one gathered layer, and the TPU compiler gathers several while "
            "memory is free; with few layers it needed up to twice the plan (docs/dia.md)."
        )
    return lines
