"""From a prompt to the conditions of the network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.ddpm.config import TEXT_STATES, Config, context_shapes
from tpulab_recipes.ddpm.data.encoders import decode_images, text_states

__all__ = ["DEFAULT_SCORE", "context_for", "decode_images"]
#: The default aesthetic score of sampled pictures.
DEFAULT_SCORE = 6.5


def context_for(
    prompts: Sequence[str],
    config: Config,
    *,
    aesth_score: float = DEFAULT_SCORE,
    side: int | None = None,
    classes: Sequence[int] | None = None,
) -> dict[str, np.ndarray]:
    """One row for each prompt. `side` is the height and width given as a condition; `classes` for
    networks that know classes."""
    conditioning, count = config.model.conditioning, len(prompts)
    size = side or config.dataset.args.image_size
    context: dict[str, np.ndarray] = {}
    for name, shape in context_shapes(conditioning).items():
        # No image condition either: a prompt brings no image.
        context[name] = np.zeros((count, *shape), np.float32)
        if name in TEXT_STATES:
            for row, states in zip(context[name], text_states(prompts, name, config), strict=True):
                row[: len(states)] = states
        elif name in conditioning.scalars:
            context[name][:] = aesth_score if name == "aesth_score" else size
    if conditioning.num_classes:
        if classes is None:
            raise ConfigError("model.conditioning.num_classes", "this network needs a class for each image.")
        context["class"] = np.asarray(classes, np.int32)
    return context
