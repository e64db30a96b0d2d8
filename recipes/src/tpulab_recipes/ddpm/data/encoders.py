"""The encoders as the configuration names them: `small` ones of this repository, published ones by their
names at Hugging Face, or none for pixels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tpulab_recipes.common.errors import DataError
from tpulab_recipes.common.torch_process import call
from tpulab_recipes.ddpm.config import TEXT_STATES, Config, context_shapes
from tpulab_recipes.ddpm.data.small_encoders import PatchPca, encode_text

#: Functions that run in the process with torch.
TORCH_MODELS = "tpulab_recipes.ddpm.data.torch_models"


def place_encoders(device: str, config: Config) -> bool:
    """Has published encoders run on an accelerator, where there is one (`torch_models.choose_device`), and
    prints where. Returns whether it is needed for them."""
    model, shapes = config.model, context_shapes(config.model.conditioning)
    names = [] if config.in_pixels else [model.vae_id]
    names += [model.clip_model_id] * ("clip_image_emb" in shapes)
    names += [text_encoder(key, config) for key in TEXT_STATES if key in shapes]
    if set(names) <= {"small"}:
        return False
    where, is_accelerator = call(f"{TORCH_MODELS}:choose_device", requested=device)
    print(f"the encoders run on {where}", flush=True)
    return bool(is_accelerator)


def text_encoder(key: str, config: Config) -> str:
    """The name of the encoder whose states are stored as `key`."""
    return str(getattr(config.model, f"{key.removesuffix('_emb')}_model_id"))


def text_states(captions: Sequence[str], key: str, config: Config) -> list[np.ndarray]:
    """Float32[token, width] of each caption for one of `TEXT_STATES`, without padding; none of an empty
    one, which conditions nothing."""
    name = text_encoder(key, config)
    length, width = context_shapes(config.model.conditioning)[key]
    if name == "small":
        padded = encode_text(captions, length)
        return [states[states.any(axis=1)] for states in padded]
    found: list[np.ndarray] = call(
        f"{TORCH_MODELS}:text_states",
        captions=list(captions),
        which=key.removesuffix("_emb"),
        name=name,
        length=length,
        width=width,
    )
    return found


def encode_images(images: np.ndarray, config: Config) -> np.ndarray:
    """Float32[image, *in_dimensions] of Float32[image, height, width, 3] in [-1, 1]: means, for a VAE."""
    name = config.model.vae_id
    if config.in_pixels:
        return images
    if name == "small":
        return PatchPca.shipped().encode(images)
    # As bytes: a quarter of what float32 would send to the other process.
    pixels = np.rint((images + 1) * 127.5).astype(np.uint8)
    latents: np.ndarray = call(f"{TORCH_MODELS}:encode_latents", images=pixels, name=name)
    if latents.shape[1:] != config.in_dimensions:
        raise DataError(
            f"{name} makes latents of {latents.shape[1:]} of images of {images.shape[1]} pixels, but "
            f"in_dimensions is {config.in_dimensions}; change one of them, or name another VAE."
        )
    return latents


def decode_images(latents: np.ndarray, config: Config) -> np.ndarray:
    """Float32[image, height, width, 3] in [-1, 1] from latents."""
    if config.in_pixels:
        return np.clip(latents, -1, 1)
    if config.model.vae_id == "small":
        return PatchPca.shipped().decode(latents)
    images: np.ndarray = call(
        f"{TORCH_MODELS}:decode_latents", latents=np.asarray(latents), name=config.model.vae_id
    )
    return images


def clip_scores(images: np.ndarray, captions: Sequence[str], name: str, batch: int) -> list[float]:
    """`torch_models.clip_scores` of Float32[image, height, width, 3] in [-1, 1], without those that have no
    caption."""
    reported = [number for number, caption in enumerate(captions) if caption]
    found: list[float] = []
    for first in range(0, len(reported), batch):
        some = reported[first : first + batch]
        pixels = np.rint((images[some].clip(-1, 1) + 1) * 127.5).astype(np.uint8)
        words = [captions[number] for number in some]
        found += list(call(f"{TORCH_MODELS}:clip_scores", images=pixels, captions=words, name=name))
    return found


def encode_rows(images: np.ndarray, captions: Sequence[str], config: Config) -> list[dict[str, np.ndarray]]:
    """The stored values of each image and caption, limited to the inputs of the network."""
    columns: dict[str, Sequence[np.ndarray]] = {"image": list(encode_images(images, config))}
    shapes = context_shapes(config.model.conditioning)
    for key in TEXT_STATES:
        if key in shapes:
            columns[key] = text_states(captions, key, config)
    if "clip_image_emb" in shapes:
        columns["clip_image_emb"] = call(
            f"{TORCH_MODELS}:image_embeddings",
            images=np.rint((images + 1) * 127.5).astype(np.uint8),
            name=config.model.clip_model_id,
            width=config.model.conditioning.clip_image_width,
        )
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
