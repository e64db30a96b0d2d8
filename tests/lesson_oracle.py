"""The numbers of the getting-started notebook, recomputed in NumPy without JAX."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .lesson import CHECKOUT

DIGITS = CHECKOUT / "recipes" / "src" / "tpulab_recipes" / "digits" / "digits.npz"

Array = NDArray[np.float64]
Params = dict[str, dict[str, Array]]


def load_params(arrays: Path, tree: str) -> Params:
    """One parameter tree that the kernel saved (`initial`, `trained`, `gradient`), as float64."""
    params: Params = {}
    with np.load(arrays) as saved:
        for key in saved.files:
            kind, name, part = key.split("/")
            if kind == tree:
                params.setdefault(name, {})[part] = saved[key].astype(np.float64)
    return params


def convolve(x: Array, weight: Array) -> Array:
    """Valid cross-correlation over the trailing axes: x [batch, in, *space], weight [out, in, *window]."""
    window = weight.shape[2:]
    axes = tuple(range(2, 2 + len(window)))
    views = np.lib.stride_tricks.sliding_window_view(x, window, axis=axes)
    letters = "yx"[-len(window) :]
    offsets = "ij"[: len(window)]
    result: Array = np.einsum(f"bc{letters}{offsets},oc{offsets}->bo{letters}", views, weight, optimize=True)
    return result


def halve(x: Array) -> Array:
    """Largest of each 2 by 2 pixels; an odd last row or column is left out."""
    height, width = x.shape[2] // 2, x.shape[3] // 2
    pixels = x[:, :, : 2 * height, : 2 * width].reshape(*x.shape[:2], height, 2, width, 2)
    result: Array = pixels.max(axis=(3, 5))
    return result


def lenet(params: Params, images: Array) -> Array:
    """Logits [batch, 10] of images [batch, 1, 32, 32]."""
    x = images
    for name in ("conv1", "conv2"):
        layer = params[name]
        x = halve(np.maximum(convolve(x, layer["weight"]) + layer["bias"][:, None, None], 0))
    x = x.reshape(len(x), -1)
    for name in ("linear1", "linear2"):
        x = np.maximum(x @ params[name]["weight"] + params[name]["bias"], 0)
    return x @ params["linear3"]["weight"] + params["linear3"]["bias"]


def cross_entropy(logits: Array, labels: NDArray[np.int64]) -> float:
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return float(-log_probabilities[np.arange(len(labels)), labels].mean())


@dataclass(frozen=True)
class Draws:
    """The lesson's draws from its random generator, in its order."""

    signals: Array
    filters: Array
    one_image: Array
    first_batch: NDArray[np.int64]


@dataclass(frozen=True)
class Digits:
    images: Array
    labels: NDArray[np.int64]
    train: NDArray[np.int64]
    test: NDArray[np.int64]


def digits(seed: int) -> Digits:
    with np.load(DIGITS) as archive:
        labels = archive["labels"].astype(np.int64)
        small = archive["images"].astype(np.float64) / 16
    images = small.repeat(4, axis=1).repeat(4, axis=2)[:, None]
    order = np.random.default_rng(seed).permutation(len(images))
    return Digits(images, labels, train=order[360:], test=order[:360])


def draws(seed: int, batch_size: int) -> Draws:
    rng = np.random.default_rng(seed)
    shapes = ((20, 16, 50), (33, 16, 3), (1, 1, 32, 32))
    signals, filters, one_image = (
        rng.standard_normal(s, dtype=np.float32).astype(np.float64) for s in shapes
    )
    return Draws(signals, filters, one_image, rng.permutation(digits(seed).train)[:batch_size])
