"""What training needs of each chip, counted without allocating anything."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch

from tpulab_recipes.english_tts.config_english import EnglishTrainingConfig
from tpulab_recipes.english_tts.data import SYMBOLS, batch_of
from tpulab_recipes.english_tts.model import KokoroModel, losses
from tpulab_recipes.runtime.memory_plan import (
    MemoryPlan,
    RecomputeOnMeta,
    bfloat16_on_meta,
    plan_memory,
    refuse_too_large_on,
)


def plan(config: EnglishTrainingConfig, utterances: int) -> MemoryPlan:
    """Bytes of a chip with so many utterances of the longest bucket, as a TPU computes them."""
    recompute = RecomputeOnMeta() if config.gradient_checkpointing else None
    lowered = bfloat16_on_meta if config.use_mixed_precision else nullcontext
    rows = batch_of([None] * utterances, max(config.frame_buckets), config)

    def loss(model: Any) -> Any:
        batch = {name: torch.from_numpy(value).to("meta") for name, value in rows.items()}
        batch["mel"] = model.normalised(batch["mel"])
        names = ("phonemes", "phoneme_lengths", "durations", "mel", "mel_lengths")
        with lowered():
            return losses(config, model(*(batch[name] for name in names)), batch).total

    whole = plan_memory(lambda: KokoroModel(config, len(SYMBOLS), recompute), loss, recompute=recompute)
    return replace(whole, optimizer=whole.optimizer + whole.parameters) if config.ema else whole


def refuse_too_large(config: EnglishTrainingConfig, backend: Any) -> None:
    """`memory_plan.refuse_too_large_on` for a step on all devices of the backend."""
    refuse_too_large_on(
        backend,
        lambda chips: plan(config, -(-config.batch_size // chips)),
        f"A step with {config.batch_size} utterances of {max(config.frame_buckets)} frames",
        "Use a smaller batch_size, frame_buckets without the longest, gradient_checkpointing, or more chips "
        "(with --spmd).",
    )
