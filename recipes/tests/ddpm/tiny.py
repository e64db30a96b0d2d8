"""The smallest configuration that has every part, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.model import Network
from tpulab_recipes.ddpm.presets import SMALL

TINY = {
    "model.args.ch": 8,
    "model.args.emb_ch": 16,
    "model.args.seq_width": 16,
    "model.args.head_dim": 8,
    "model.args.norm_groups": 4,
}
#: Of one level, without attention but in the middle: its programs are compiled in half the time.
SHALLOW: dict[str, Any] = TINY | {"model.args.ch_mult": [1], "model.args.attn_resolutions": []}
TRAINING = {"train.batch_size": 8, "train.learning_rate_warmup_steps": 1, "train.log_loss_every_steps": 2}


def tiny_config() -> Config:
    """The smallest network that has every part: attention, inpainting, text, a score."""
    return SMALL.but(TINY | TRAINING)


def shallow_config() -> Config:
    """For tests to which the depth of the network does not matter."""
    return SMALL.but(SHALLOW | TRAINING)


def flags(settings: Mapping[str, Any]) -> list[str]:
    """Settings as the commands take them: `--train.batch_size 8`, `--in_dimensions 8 8 8`."""
    found = []
    for name, value in settings.items():
        found += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    return found


def nonzero_network(config: Config) -> Any:
    """Parameters whose predictions are not zero: fresh networks always predict zero."""
    params = Network(config).init(1)
    kernel = params["conv_out"]["kernel"]
    params["conv_out"]["kernel"] = 0.05 * np.random.default_rng(0).standard_normal(kernel.shape, np.float32)
    return params
