"""The published encoders, with the classes of diffusers and transformers.

Arrays in, arrays out. `torch_process` calls these functions in a process of the Python that has the packages:
nothing here may import JAX, or take an argument that cannot be pickled.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tpulab_recipes.common.errors import DataError
from tpulab_recipes.runtime import DeviceRuntimeError
from tpulab_recipes.runtime.chips import count_chips
from tpulab_recipes.runtime.selection import make

#: Rows of a program on an accelerator; the last batch is padded, so that there is one program.
_TEXTS, _IMAGES = 64, 8
#: None: the host CPU, in float32. Accelerators compute in bfloat16.
_device: Any = None


def choose_device(requested: str) -> tuple[str, bool]:
    """Where the encoders run from now on: `cpu`, `cuda`, `xla`, or `auto`, an accelerator where there is
    one. Returns it in words, and whether it is one. Raises `DataError` for one that is not there."""
    global _device
    import torch

    for cached in (_text_encoder, _image_encoder, _vae):
        cached.cache_clear()
    chips = count_chips()
    has_xla = importlib.util.find_spec("torch_xla") is not None
    on_cuda = requested in ("auto", "cuda") and torch.cuda.is_available()
    if requested == "cuda" and not on_cuda:
        raise DataError("PyTorch sees no CUDA device here; leave out --encode-on cuda.")
    if requested == "xla" and not has_xla:
        raise DataError("This Python has no torch_xla; leave out --encode-on xla.")
    if on_cuda:
        _device = torch.device("cuda")
        return f"{torch.cuda.get_device_name()}, in bfloat16", True
    if requested == "xla" or (requested == "auto" and chips and has_xla):
        os.environ.pop("PJRT_DEVICE", None)  # The host CPU, in the process where JAX owns the chips.
        try:
            backend: Any = make("torch_xla", "tpu" if chips else "cpu")
        except DeviceRuntimeError as error:
            raise DataError(f"{error} --encode-on cpu takes the host.") from error
        _device = backend.device()
        return f"{backend.describe()}, in bfloat16", True
    _device = None
    return "the host CPU, in float32", False


def _placed(model: Any) -> Any:
    import torch

    return model.eval() if _device is None else model.eval().to(_device, torch.bfloat16)


def _in_blocks(compute: Callable[..., Any], rows: int, *inputs: Any) -> Any:
    """Float32 of `compute`, which gets `rows` rows at a time on an accelerator, else all of them."""
    import torch

    with torch.no_grad():
        if _device is None:
            return compute(*inputs).float()
        parts = []
        for first in range(0, len(inputs[0]), rows):
            block = [each[first : first + rows] for each in inputs]
            count = len(block[0])
            whole = [torch.cat([each, each[-1:].expand(rows - count, *each.shape[1:])]) for each in block]
            parts.append(compute(*(each.to(_device) for each in whole)).cpu()[:count].float())
        return torch.cat(parts)


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

    # Only half of a CLIP is loaded, on purpose: transformers must not warn of the other half's weights.
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


@lru_cache(maxsize=3)
def _text_encoder(which: str, name: str) -> tuple[Any, Any]:
    import torch

    transformers = _transformers()
    kinds = {"clip": "CLIPTextModel", "t5": "T5EncoderModel", "bert": "BertModel"}
    # Some repositories hold halves, in which T5 overflows.
    model = _load(getattr(transformers, kinds[which]), name, dtype=torch.float32)
    return _load(transformers.AutoTokenizer, name), _placed(model)


@lru_cache(maxsize=1)
def _image_encoder(name: str) -> tuple[Any, Any]:
    import torch

    transformers = _transformers()
    # The vision model alone takes the width of its projection from a part of the configuration that some
    # repositories leave out.
    model = _load(transformers.CLIPModel, name, dtype=torch.float32)
    return _load(transformers.CLIPImageProcessor, name), _placed(model)


@lru_cache(maxsize=1)
def _vae(name: str) -> Any:
    import diffusers

    # In the repository of a whole pipeline the VAE has its own folder.
    try:
        vae = _load(diffusers.AutoencoderKL, name, subfolder="vae")
    except DataError as pipeline:
        try:
            vae = _load(diffusers.AutoencoderKL, name)
        except DataError:
            raise pipeline from None
    if _device is None:
        # One image at a time: a batch of 64 at 512 pixels would take tens of gigabytes.
        vae.enable_slicing()
    return _placed(vae)


def text_states(captions: Sequence[str], which: str, name: str, length: int, width: int) -> list[np.ndarray]:
    """Float32[token, width] for each caption, without padding: CLIP's last but one layer, the last of T5 and
    BERT.

    An empty caption has no states: it conditions nothing.
    """
    tokenizer, model = _text_encoder(which, name)
    longest = getattr(model.config, "max_position_embeddings", None)
    if longest and length > longest:
        raise DataError(
            f"{name} takes {longest} tokens, the configuration has {which}_length={length}; "
            f"set model.conditioning.{which}_length={longest}."
        )
    if model.config.hidden_size != width:
        raise _wrong_width(name, "states", model.config.hidden_size, f"{which}_width", width)
    tokens = tokenizer(
        list(captions), truncation=True, max_length=length, padding="max_length", return_tensors="pt"
    )

    def compute(*inputs: Any) -> Any:
        found = model(**dict(zip(tokens, inputs, strict=True)), output_hidden_states=which == "clip")
        return found.hidden_states[-2] if which == "clip" else found.last_hidden_state

    states = _in_blocks(compute, _TEXTS, *tokens.values())
    counts = tokens["attention_mask"].sum(dim=1).tolist()
    return [
        row[: count if caption else 0].numpy()
        for caption, row, count in zip(captions, states, counts, strict=True)
    ]


def image_embeddings(images: np.ndarray, name: str, width: int) -> np.ndarray:
    """Float32[image, width]: CLIP's projected embedding of UInt8[image, height, width, 3]."""
    processor, model = _image_encoder(name)
    if model.config.projection_dim != width:
        raise _wrong_width(name, "embeddings", model.config.projection_dim, "clip_image_width", width)
    shown = processor(images=list(images), return_tensors="pt", input_data_format="channels_last")

    def compute(pixels: Any) -> Any:
        return model.get_image_features(pixel_values=pixels.to(model.dtype)).pooler_output

    return _in_blocks(compute, _TEXTS, shown["pixel_values"]).numpy()


def clip_scores(images: np.ndarray, captions: Sequence[str], name: str) -> np.ndarray:
    """Float32[image]: 100 times the cosine between CLIP's embeddings of UInt8[image, height, width, 3] and of
    its caption, at least 0 (Hessel et al. 2021, arXiv 2104.08718)."""
    from torch.nn.functional import cosine_similarity

    processor, model = _image_encoder(name)
    shown = processor(images=list(images), return_tensors="pt", input_data_format="channels_last")
    longest = model.config.text_config.max_position_embeddings
    tokens = _load(_transformers().AutoTokenizer, name)(
        list(captions), truncation=True, max_length=longest, padding="max_length", return_tensors="pt"
    )

    def compute(pixels: Any, words: Any, mask: Any) -> Any:
        seen = model.get_image_features(pixel_values=pixels.to(model.dtype)).pooler_output
        read = model.get_text_features(input_ids=words, attention_mask=mask).pooler_output
        return cosine_similarity(seen.float(), read.float())

    inputs = shown["pixel_values"], tokens["input_ids"], tokens["attention_mask"]
    return (100 * _in_blocks(compute, _IMAGES, *inputs)).clamp(min=0).numpy()


def encode_latents(images: np.ndarray, name: str) -> np.ndarray:
    """Float32[image, height, width, channel] of UInt8[image, height, width, 3], or of Float32 in [-1, 1]: the
    mean of what the VAE makes of them, scaled as its configuration says."""
    vae = _vae(name)

    def compute(pixels: Any) -> Any:
        scaled = pixels if pixels.is_floating_point() else pixels.float() / 127.5 - 1
        return vae.encode(scaled.to(vae.dtype)).latent_dist.mean

    mean = _in_blocks(compute, _IMAGES, _channels_first(images))
    latents = (mean - (vae.config.shift_factor or 0.0)) * vae.config.scaling_factor
    return latents.movedim(1, -1).numpy()


def decode_latents(latents: np.ndarray, name: str) -> np.ndarray:
    """Float32[image, height, width, 3] in [-1, 1]."""
    vae = _vae(name)
    mean = _channels_first(latents) / vae.config.scaling_factor + (vae.config.shift_factor or 0.0)
    images = _in_blocks(lambda some: vae.decode(some.to(vae.dtype)).sample, _IMAGES, mean)
    return images.movedim(1, -1).clamp(-1, 1).numpy()


def save_encoders(folder: str, names: dict[str, str]) -> dict[str, list[str]]:
    """Saves the encoders `clip`, `t5`, `bert` and `vae` of these names into folders of a diffusers
    pipeline. Returns the entries of its `model_index.json`."""
    entries: dict[str, list[str]] = {}
    parts: dict[str, Any] = {}
    for which, ending in (("clip", ""), ("t5", "_2"), ("bert", "_3")):
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
