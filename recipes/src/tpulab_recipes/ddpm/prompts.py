"""From a prompt to what the network is told, with the encoders that the configuration names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.ddpm.config import Config, context_shapes
from tpulab_recipes.ddpm.data.small_encoders import PatchPca, encode_text

#: The score that pictures are asked for unless something else is said.
DEFAULT_SCORE = 6.5


def context_for(
    prompts: Sequence[str],
    config: Config,
    *,
    aesth_score: float = DEFAULT_SCORE,
    side: int | None = None,
    classes: Sequence[int] | None = None,
) -> dict[str, np.ndarray]:
    """One row for each prompt. `side` is the height and width that the network is told; `classes` for
    networks that know classes."""
    conditioning, count = config.model.conditioning, len(prompts)
    shapes = context_shapes(conditioning)
    context: dict[str, np.ndarray] = {}
    if "clip_emb" in shapes:
        context["clip_emb"] = _text(prompts, config, "clip", shapes["clip_emb"])
    if "t5_emb" in shapes:
        context["t5_emb"] = _text(prompts, config, "t5", shapes["t5_emb"])
    if "clip_image_emb" in shapes:
        # Nobody has an image to show when asking by text: told nothing.
        context["clip_image_emb"] = np.zeros((count, *shapes["clip_image_emb"]), np.float32)
    size = side or config.dataset.args.image_size
    for name in conditioning.scalars:
        value = aesth_score if name == "aesth_score" else size
        context[name] = np.full(count, value, np.float32)
    if conditioning.num_classes:
        if classes is None:
            raise ConfigError("model.conditioning.num_classes", "this network needs a class for each image.")
        context["class"] = np.asarray(classes, np.int32)
    return context


def _text(prompts: Sequence[str], config: Config, which: str, shape: tuple[int, ...]) -> np.ndarray:
    name = config.model.clip_model_id if which == "clip" else config.model.t5_model_id
    if name == "small":
        return encode_text(prompts, shape[0])
    from tpulab_recipes.ddpm.data.pretrained import encode_prompts

    return encode_prompts(list(prompts), which, name, shape)


def decode_images(latents: np.ndarray, config: Config) -> np.ndarray:
    """Float32[image, height, width, 3] in [-1, 1] from latents."""
    if config.in_pixels:
        return np.clip(latents, -1, 1)
    if config.model.vae_id == "small":
        return PatchPca.shipped().decode(latents)
    from tpulab_recipes.ddpm.data.pretrained import decode_latents

    return decode_latents(latents, config.model.vae_id)
