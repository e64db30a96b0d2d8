"""The smallest configuration that has every part, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.model import Network
from tpulab_recipes.ddpm.presets import SMALL


def tiny_config() -> Config:
    """The smallest network that has every part: attention, inpainting, text, a score."""
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


def flags(settings: Mapping[str, Any]) -> list[str]:
    """Settings as the commands take them: `--train.batch_size 8`, `--in_dimensions 8 8 8`."""
    found = []
    for name, value in settings.items():
        found += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    return found


def shallow_config() -> Config:
    """Of one level, without attention but in the middle: its programs are compiled in seconds."""
    config = tiny_config()
    args = replace(config.model.args, ch_mult=(1,), attn_resolutions=())
    return replace(config, model=replace(config.model, args=args))


def speaking_network(config: Config) -> Any:
    """Parameters that say something: fresh networks say nothing at all, whatever they are asked."""
    params = Network(config).init(1)
    kernel = params["conv_out"]["kernel"]
    params["conv_out"]["kernel"] = 0.05 * np.random.default_rng(0).standard_normal(kernel.shape, np.float32)
    return params
