"""What the tests of this recipe share. They run on eight XLA:CPU devices."""

from __future__ import annotations

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")

from collections.abc import Iterator
from dataclasses import replace

import jax
import pytest

from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.presets import SMALL


@pytest.fixture
def double_precision() -> Iterator[None]:
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


@pytest.fixture
def tiny() -> Config:
    """The smallest network that has every part: four channels of groups, attention, inpainting, text, a score."""
    model = SMALL.model
    return replace(
        SMALL,
        model=replace(
            model,
            args=replace(
                model.args, ch=8, emb_ch=16, seq_width=16, head_dim=8, norm_groups=4, attn_resolutions=(4,)
            ),
        ),
        train=replace(SMALL.train, batch_size=8, learning_rate_warmup_steps=1, log_loss_every_steps=2),
    )
