"""The published encoders, through transformers and diffusers, where both are installed and the weights are
at hand.

They run in torch on the host (or on a GPU when torch sees one): encoding happens once, before training.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.errors import DataError, MissingPackage

#: What the latents of Stable Diffusion's VAE are multiplied with to have a standard deviation near one.
LATENT_SCALE = 0.18215


def _packages() -> tuple[Any, Any, Any]:
    purpose = "Encoding with published models (for trying things, set the encoders to `small`)"
    try:
        import torch
    except ImportError as error:
        raise MissingPackage("torch", purpose) from error
    try:
        import transformers
    except ImportError as error:
        raise MissingPackage("transformers", purpose) from error
    try:
        import diffusers
    except ImportError as error:
        raise MissingPackage("diffusers", purpose) from error
    return torch, transformers, diffusers


def _load(kind: Any, name: str, token: str | None, **more: Any) -> Any:
    try:
        return kind.from_pretrained(name, token=token, **more)
    except (OSError, ValueError) as error:
        raise DataError(
            f"{name} could not be loaded: {str(error).splitlines()[0]} Check the name, the connection, or "
            "the token (--auth_token) for models that need an account."
        ) from error


@lru_cache(maxsize=2)
def _text_encoder(which: str, name: str, token: str | None) -> tuple[Any, Any]:
    _, transformers, _ = _packages()
    if which == "clip":
        tokenizer = _load(transformers.CLIPTokenizerFast, name, token)
        model = _load(transformers.CLIPTextModel, name, token)
    else:
        tokenizer = _load(transformers.AutoTokenizer, name, token)
        model = _load(transformers.T5EncoderModel, name, token)
    return tokenizer, model.eval()


@lru_cache(maxsize=1)
def _vae(name: str, token: str | None) -> Any:
    _, _, diffusers = _packages()
    try:
        return diffusers.AutoencoderKL.from_pretrained(name, subfolder="vae", token=token).eval()
    except (OSError, ValueError):
        return _load(diffusers.AutoencoderKL, name, token).eval()


@lru_cache(maxsize=1)
def _image_encoder(name: str, token: str | None) -> tuple[Any, Any]:
    _, transformers, _ = _packages()
    processor = _load(transformers.CLIPImageProcessor, name, token)
    return processor, _load(transformers.CLIPVisionModelWithProjection, name, token).eval()


def text_states(
    captions: Sequence[str], which: str, name: str, length: int, token: str | None
) -> list[np.ndarray]:
    """Float32[token, width] for each caption, without padding: CLIP's last but one layer, T5's last."""
    torch, _, _ = _packages()
    tokenizer, model = _text_encoder(which, name, token)
    told = tokenizer(
        list(captions), truncation=True, max_length=length, padding="max_length", return_tensors="pt"
    )
    with torch.no_grad():
        found = model(**told, output_hidden_states=which == "clip")
    states = found.hidden_states[-2] if which == "clip" else found.last_hidden_state
    lengths = told["attention_mask"].sum(dim=1).tolist()
    return [row[:count].float().numpy() for row, count in zip(states, lengths, strict=True)]


def encode_prompts(
    prompts: Sequence[str], which: str, name: str, shape: tuple[int, ...], token: str | None = None
) -> np.ndarray:
    """Float32[prompt, length, width], padded with zeros; an empty prompt is told nothing."""
    states = np.zeros((len(prompts), *shape), np.float32)
    for row, (prompt, found) in enumerate(
        zip(prompts, text_states(prompts, which, name, shape[0], token), strict=True)
    ):
        if found.shape[1] != shape[1]:
            raise DataError(
                f"{name} gives states of width {found.shape[1]}, the configuration expects {shape[1]}."
            )
        if prompt:
            states[row, : len(found)] = found
    return states


def decode_latents(latents: np.ndarray, name: str, token: str | None = None) -> np.ndarray:
    """Float32[image, height, width, 3] in [-1, 1]."""
    torch, _, _ = _packages()
    with torch.no_grad():
        scaled = torch.from_numpy(np.ascontiguousarray(latents.transpose(0, 3, 1, 2))) / LATENT_SCALE
        images = _vae(name, token).decode(scaled).sample
    return np.clip(images.float().numpy().transpose(0, 2, 3, 1), -1, 1)


class PretrainedEncoders:
    """VAE means, CLIP and T5 states, and CLIP's image embedding."""

    def __init__(self, config: Config, token: str | None = None) -> None:
        _packages()
        self._config, self._token = config, token

    def __call__(self, images: np.ndarray, captions: Sequence[str]) -> list[dict[str, np.ndarray]]:
        torch, _, _ = _packages()
        model, conditioning = self._config.model, self._config.model.conditioning
        rows = (
            [{"image": image} for image in images] if self._config.in_pixels else self._latents(torch, images)
        )
        if conditioning.clip_width:
            self._add(rows, "clip_emb", captions, "clip", model.clip_model_id, conditioning.clip_length)
        if conditioning.t5_width:
            self._add(rows, "t5_emb", captions, "t5", model.t5_model_id, conditioning.t5_length)
        if conditioning.clip_image_width:
            processor, encoder = _image_encoder(model.clip_model_id, self._token)
            shown = processor(images=list(((images + 1) * 127.5).astype(np.uint8)), return_tensors="pt")
            with torch.no_grad():
                embedded = encoder(**shown).image_embeds.float().numpy()
            for row, embedding in zip(rows, embedded, strict=True):
                row["clip_image_emb"] = embedding
        return rows

    def _latents(self, torch: Any, images: np.ndarray) -> list[dict[str, np.ndarray]]:
        with torch.no_grad():
            pixels = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
            encoded = _vae(self._config.model.vae_id, self._token).encode(pixels)
            mean = encoded.latent_dist.mean * LATENT_SCALE
        return [{"image": row} for row in mean.float().numpy().transpose(0, 2, 3, 1)]

    def _add(
        self,
        rows: list[dict[str, np.ndarray]],
        key: str,
        captions: Sequence[str],
        which: str,
        name: str,
        length: int,
    ) -> None:
        for row, states in zip(rows, text_states(captions, which, name, length, self._token), strict=True):
            row[key] = states
