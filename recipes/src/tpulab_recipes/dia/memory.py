"""What fine-tuning needs of each chip, counted without allocating anything: a table by kind of chip, and a
refusal of what does not fit."""

from __future__ import annotations

import sys
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
    chip_of,
    plan_memory,
    refuse_too_large_on,
    slice_name,
)
from tpulab_recipes.torch_training import add_lora, core_of

CHIPS = ("v4", "v5e", "v5p", "v6e")
_LORA_RANK = 16
#: Bytes of each sliced parameter that the TPU compiler held whole at once, in float32 and bfloat16, for v5e
#: with few layers (docs/dia.md). Whether it gathers fewer where memory is short was not seen.
_COMPILED_BYTES = 6.2


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
    def compiled(self) -> int:
        """Bytes of each chip as the TPU compiler was seen to need them."""
        return compiled_bytes(self.plan, self.count)

    def clips_within(self, total: int) -> int:
        """Clips of each chip that fit, where `total` bytes are needed for `clips`; 0: none."""
        room = 0.9 * CHIP_GIB[self.chip] * GIB - (total - self.plan.activations)
        return max(0, int(room * self.clips / self.plan.activations))

    def row(self) -> dict[str, Any]:
        sizes = asdict(self.plan) | {"total": self.plan.total}
        return {
            "way": self.way,
            "chips": slice_name(self.chip, self.count),
            "clips": self.clips,
            **{name: round(value / GIB, 2) for name, value in sizes.items()},
            "compiled": round(self.compiled / GIB, 2),
            "of": CHIP_GIB[self.chip],
            "clips_compiled": self.clips_within(self.compiled),
            "most_clips": self.clips_within(self.plan.total),
        }


def compiled_bytes(plan: MemoryPlan, chips: int) -> int:
    """Where parameters are in slices, the plan with nearly all of them whole at once instead of one layer."""
    if not plan.gathered:
        return plan.total
    return plan.total - plan.gathered + int(_COMPILED_BYTES * plan.parameters * chips / 4)


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
    """`memory_plan.refuse_too_large_on` for a step of fine-tuning on all devices of the backend. Notes on
    stderr a step that is planned to fit, but not as the compiler was seen to gather."""
    parts, planned = config.grad_accum_steps, []  # type: int, list[int]

    def counted(chips: int) -> MemoryPlan:
        found = plan(model_config, config, -(-config.batch_size // (chips * parts)), chips)
        planned.append(compiled_bytes(found, chips))
        return found

    refuse_too_large_on(
        backend,
        counted,
        f"A step with {config.batch_size} clips" + (f" in {parts} parts" if parts > 1 else ""),
        "Use a smaller batch_size, more grad_accum_steps, remat, lora_rank, or shard (with --spmd) over more "
        "chips.",
    )
    limit = CHIP_GIB.get(chip_of(backend.devices()[0].kind) or "", 0)
    if planned and planned[0] > 0.9 * limit * GIB:
        print(
            "note: if the compiler gathers nearly all weights at once, as it did for fewer layers, a step "
            f"needs {planned[0] / GIB:.1f} GiB per chip of {limit:g}; on RESOURCE_EXHAUSTED, use a "
            "smaller batch_size, more grad_accum_steps, or lora_rank.",
            file=sys.stderr,
            flush=True,
        )


def _batch(model_config: Any, config: Config, clips: int) -> dict[str, torch.Tensor]:
    text = torch.ones(clips, config.text_length, dtype=torch.long)
    codes = torch.ones(clips, config.audio_length, model_config.decoder_config.num_channels, dtype=torch.long)
    return {"input_ids": text, "attention_mask": text, "decoder_input_ids": codes, "labels": codes}


def sentences(needs: Sequence[Need]) -> list[str]:
    """What fits as the TPU compiler was seen to hold weights, a sentence for each kind of chip: "v5e-8: full
    fine-tuning does not fit; LoRA fits with 4 clips per chip"."""
    lines = []
    for chip in CHIPS:
        results = []
        for need in (each for each in needs if each.chip == chip):
            clips = need.clips_within(need.compiled)
            way = need.way.split(",")[0].replace("full", "full fine-tuning")
            fitting = f"fits with {clips} clip{'s' * (clips > 1)} per chip" if clips else "does not fit"
            results.append(f"{way} {fitting}")
        lines.append(f"{slice_name(chip, needs[0].count)}: {'; '.join(results)}.")
    return lines
