"""The published encoders as the configuration names them: of images and captions, of prompts, of latents."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tpulab_recipes.common.errors import DataError
from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.data.torch_process import call, torch_python


def encode_prompts(prompts: Sequence[str], which: str, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Float32[prompt, length, width], padded with zeros; an empty prompt is told nothing."""
    length, width = shape
    states = np.zeros((len(prompts), length, width), np.float32)
    found = call("text_states", captions=list(prompts), which=which, name=name, length=length, width=width)
    for row, one in zip(states, found, strict=True):
        row[: len(one)] = one
    return states


def decode_latents(latents: np.ndarray, name: str) -> np.ndarray:
    """Float32[image, height, width, 3] in [-1, 1]."""
    return call("decode_latents", latents=np.asarray(latents), name=name)


class PretrainedEncoders:
    """VAE means, CLIP and T5 states, and CLIP's image embedding."""

    def __init__(self, config: Config) -> None:
        torch_python()
        self._config = config

    def __call__(self, images: np.ndarray, captions: Sequence[str]) -> list[dict[str, np.ndarray]]:
        model, told = self._config.model, self._config.model.conditioning
        columns = {"image": images if self._config.in_pixels else self._latents(images)}
        for which, name, length, width in (
            ("clip", model.clip_model_id, told.clip_length, told.clip_width),
            ("t5", model.t5_model_id, told.t5_length, told.t5_width),
        ):
            if width:
                columns[f"{which}_emb"] = call(
                    "text_states",
                    captions=list(captions),
                    which=which,
                    name=name,
                    length=length,
                    width=width,
                )
        if told.clip_image_width:
            columns["clip_image_emb"] = call(
                "image_embeddings",
                images=np.rint((images + 1) * 127.5).astype(np.uint8),
                name=model.clip_model_id,
                width=told.clip_image_width,
            )
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def _latents(self, images: np.ndarray) -> np.ndarray:
        latents = call("encode_latents", images=images, name=self._config.model.vae_id)
        if latents.shape[1:] != self._config.in_dimensions:
            raise DataError(
                f"{self._config.model.vae_id} makes latents of {latents.shape[1:]} of images of "
                f"{images.shape[1]} pixels, but in_dimensions is {self._config.in_dimensions}; change one of "
                "them, or name another VAE."
            )
        return latents
