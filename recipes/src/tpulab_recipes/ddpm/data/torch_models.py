"""The published encoders, with the classes of diffusers and transformers.

Arrays in, arrays out. `torch_process` calls these functions in a process of the Python that has the packages:
nothing here may import JAX, or take an argument that cannot be pickled.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tpulab_recipes.common.errors import DataError


def _load(kind: Any, name: str, **more: Any) -> Any:
    try:
        return kind.from_pretrained(name, **more)
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        raise DataError(
            f"{name} could not be loaded: {str(error).strip().splitlines()[0]} Check the name, the "
            "connection, or the token (--auth-token, or HF_TOKEN) for models that need an account."
        ) from error


@lru_cache(maxsize=1)
def _transformers() -> Any:
    import transformers

    # Half of a CLIP is loaded on purpose: no report of the other half's weights.
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


@lru_cache(maxsize=2)
def _text_encoder(which: str, name: str) -> tuple[Any, Any]:
    import torch

    transformers = _transformers()
    kind = transformers.CLIPTextModel if which == "clip" else transformers.T5EncoderModel
    # Some repositories hold halves, in which T5 overflows.
    model = _load(kind, name, dtype=torch.float32)
    return _load(transformers.AutoTokenizer, name), model.eval()


@lru_cache(maxsize=1)
def _image_encoder(name: str) -> tuple[Any, Any]:
    import torch

    transformers = _transformers()
    # The vision model alone takes the width of its projection from a part of the configuration that some
    # repositories leave out.
    model = _load(transformers.CLIPModel, name, dtype=torch.float32)
    return _load(transformers.CLIPImageProcessor, name), model.eval()


@lru_cache(maxsize=1)
def _vae(name: str) -> Any:
    import diffusers

    # In the repository of a whole pipeline the VAE has a folder of its own.
    try:
        vae = _load(diffusers.AutoencoderKL, name, subfolder="vae")
    except DataError as pipeline:
        try:
            vae = _load(diffusers.AutoencoderKL, name)
        except DataError:
            raise pipeline from None
    # One image at a time: a batch of 64 at 512 pixels would take tens of gigabytes.
    vae.enable_slicing()
    return vae.eval()


def text_states(captions: Sequence[str], which: str, name: str, length: int, width: int) -> list[np.ndarray]:
    """Float32[token, width] for each caption, without padding: CLIP's last but one layer, T5's last.

    An empty caption has no states: the network is told nothing.
    """
    import torch

    tokenizer, model = _text_encoder(which, name)
    longest = getattr(model.config, "max_position_embeddings", None)
    if longest and length > longest:
        raise DataError(
            f"{name} takes {longest} tokens, the configuration has {which}_length={length}; "
            f"set model.conditioning.{which}_length={longest}."
        )
    if model.config.hidden_size != width:
        raise _wrong_width(name, "states", model.config.hidden_size, f"{which}_width", width)
    asked = tokenizer(
        list(captions), truncation=True, max_length=length, padding="max_length", return_tensors="pt"
    )
    with torch.no_grad():
        found = model(**asked, output_hidden_states=which == "clip")
    states = found.hidden_states[-2] if which == "clip" else found.last_hidden_state
    counts = asked["attention_mask"].sum(dim=1).tolist()
    return [
        row[: count if caption else 0].numpy()
        for caption, row, count in zip(captions, states, counts, strict=True)
    ]


def image_embeddings(images: np.ndarray, name: str, width: int) -> np.ndarray:
    """Float32[image, width]: CLIP's projected embedding of UInt8[image, height, width, 3]."""
    import torch

    processor, model = _image_encoder(name)
    if model.config.projection_dim != width:
        raise _wrong_width(name, "embeddings", model.config.projection_dim, "clip_image_width", width)
    shown = processor(images=list(images), return_tensors="pt", input_data_format="channels_last")
    with torch.no_grad():
        return model.get_image_features(**shown).pooler_output.numpy()


def encode_latents(images: np.ndarray, name: str) -> np.ndarray:
    """Float32[image, height, width, channel] of Float32[image, height, width, 3] in [-1, 1]: the mean of
    what the VAE makes of them, scaled as its configuration says."""
    import torch

    vae = _vae(name)
    with torch.no_grad():
        mean = vae.encode(_channels_first(images)).latent_dist.mean
    latents = (mean - (vae.config.shift_factor or 0.0)) * vae.config.scaling_factor
    return latents.movedim(1, -1).numpy()


def decode_latents(latents: np.ndarray, name: str) -> np.ndarray:
    """Float32[image, height, width, 3] in [-1, 1]."""
    import torch

    vae = _vae(name)
    with torch.no_grad():
        mean = _channels_first(latents) / vae.config.scaling_factor + (vae.config.shift_factor or 0.0)
        return vae.decode(mean).sample.movedim(1, -1).clamp(-1, 1).numpy()


def save_encoders(folder: str, names: dict[str, str]) -> dict[str, list[str]]:
    """Saves the encoders `clip`, `t5` and `vae` of these names into folders of a diffusers pipeline. Returns
    the entries of its `model_index.json`."""
    entries: dict[str, list[str]] = {}
    parts: dict[str, Any] = {}
    for which, ending in (("clip", ""), ("t5", "_2")):
        if which in names:
            parts[f"tokenizer{ending}"], parts[f"text_encoder{ending}"] = _text_encoder(which, names[which])
    if "vae" in names:
        parts["vae"] = _vae(names["vae"])
    for part, model in parts.items():
        model.save_pretrained(os.path.join(folder, part))
        kind = type(model)
        entries[part] = ["diffusers" if part == "vae" else "transformers", kind.__name__]
    return entries


def _channels_first(images: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(images, -1, 1)))


def _wrong_width(name: str, what: str, found: int, key: str, width: int) -> DataError:
    return DataError(
        f"{name} gives {what} of width {found}, the configuration has {key}={width}; "
        f"set model.conditioning.{key}={found}, or name another model."
    )
