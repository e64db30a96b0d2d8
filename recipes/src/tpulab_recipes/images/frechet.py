"""How far apart two sets of images are: the Frechet distance of fixed features (Heusel et al. 2017, arXiv
1706.08500).

The features are those of a small convolutional network with fixed random weights, which need no download.
The distance shows whether one set of samples is nearer to the data than another; it is not comparable with
published FIDs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

FEATURES = 64
#: Images in one call. Fewer are filled up with black ones, so that sets of any size share one program.
BATCH = 512
_WIDTHS = (24, 48)


@lru_cache(maxsize=1)
def _weights() -> list[np.ndarray]:
    rng = np.random.default_rng(1706)
    inputs, kernels = 3, []
    for width in _WIDTHS:
        kernels.append(rng.standard_normal((3, 3, inputs, width)) * np.sqrt(2 / (9 * inputs)))
        inputs = width
    kernels.append(rng.standard_normal((4 * 4 * inputs, FEATURES)) / np.sqrt(4 * 4 * inputs))
    return [kernel.astype(np.float32) for kernel in kernels]


@jax.jit
def _features(images: Any) -> Any:
    *kernels, last = _weights()
    h = images
    for kernel in kernels:
        h = jax.lax.conv_general_dilated(
            h, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        h = jnp.maximum(h, 0.1 * h)
        h = jax.image.resize(h, (h.shape[0], h.shape[1] // 2, h.shape[2] // 2, h.shape[3]), "linear")
    h = jax.image.resize(h, (h.shape[0], 4, 4, h.shape[3]), "linear")
    return h.reshape(h.shape[0], -1) @ last


def compilations() -> int:
    """How many programs there are for the features in this process: one for each size of images."""
    return int(_features._cache_size())


def image_features(images: np.ndarray, batch: int = BATCH) -> np.ndarray:
    """Float64[image, 64] of Float[image, height, width, 3] in [-1, 1]. Height and width: at least 8."""
    pieces = []
    for first in range(0, len(images), batch):
        piece = np.asarray(images[first : first + batch], np.float32)
        filled = np.concatenate([piece, np.zeros((batch - len(piece), *piece.shape[1:]), np.float32)])
        pieces.append(np.asarray(_features(filled), np.float64)[: len(piece)])
    return np.concatenate(pieces)


def frechet_distance(first: np.ndarray, second: np.ndarray) -> float:
    """|mean difference|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2)) of two sets of features, Float[sample, feature]."""
    mean1, mean2 = first.mean(axis=0), second.mean(axis=0)
    cov1, cov2 = np.cov(first, rowvar=False), np.cov(second, rowvar=False)
    # The eigenvalues of C1 C2 are those of the symmetric S C2 S with S = C1^(1/2): real, and not negative.
    values, vectors = np.linalg.eigh(cov1)
    root = (vectors * np.sqrt(values.clip(0))) @ vectors.T
    shared = np.sqrt(np.linalg.eigvalsh(root @ cov2 @ root).clip(0)).sum()
    distance = float(np.sum((mean1 - mean2) ** 2) + np.trace(cov1) + np.trace(cov2) - 2 * shared)
    return max(distance, 0.0)
