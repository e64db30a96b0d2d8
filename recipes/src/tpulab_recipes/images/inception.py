"""The Frechet and the kernel inception distance (Heusel et al. 2017, arXiv 1706.08500; Binkowski et al. 2018,
arXiv 1801.01401), with the classes of torchmetrics.

Arrays in, figures out. `torch_process` calls these functions in a process of the Python that has torch.
"""

from __future__ import annotations

import os
import pickle
from functools import lru_cache
from typing import Any

import numpy as np

from tpulab_recipes.common.errors import DataError

#: Inception's weights as torch-fidelity converted them from the original ones.
INCEPTION_FILE = "weights-inception-2015-12-05-6726825d.pth"
INCEPTION_URL = f"https://github.com/toshas/torch-fidelity/releases/download/v0.2.0/{INCEPTION_FILE}"


@lru_cache(maxsize=1)
def _inception(weights: str, features: int) -> Any:
    import torch
    from torchmetrics.image.fid import FrechetInceptionDistance

    place = weights or os.path.join(torch.hub.get_dir(), "checkpoints", INCEPTION_FILE)
    try:
        if not weights and not os.path.exists(place):
            os.makedirs(os.path.dirname(place), exist_ok=True)
            torch.hub.download_url_to_file(INCEPTION_URL, place, hash_prefix="6726825d")
        # Published distances resize without antialiasing, as the original Inception did.
        return FrechetInceptionDistance(features, feature_extractor_weights_path=place, antialias=False)
    except (OSError, EOFError, RuntimeError, pickle.UnpicklingError) as error:
        raise DataError(
            f"Inception's weights could not be loaded from {place}: {str(error).splitlines()[0]} Download "
            f"{INCEPTION_URL} and put it there, or name the file with --inception_weights."
        ) from error


def load(weights: str) -> None:
    """Reads Inception's weights, or downloads them: before the work. Raises `DataError`."""
    _inception(weights, 2048)


@lru_cache(maxsize=2)
def _metric(kind: str, weights: str, features: int) -> Any:
    frechet = _inception(weights, features)
    if kind == "fid":
        return frechet
    from torchmetrics.image.kid import KernelInceptionDistance

    return KernelInceptionDistance(frechet.inception)


def update(images: np.ndarray, real: bool, weights: str, features: int = 2048, kind: str = "fid") -> None:
    """Takes in UInt8[image, height, width, 3] of the data (`real`) or of the network. `features` other than
    2048 are those of earlier layers (64, 192, 768), whose distances are not comparable."""
    import torch

    pixels = torch.from_numpy(np.ascontiguousarray(np.moveaxis(images, -1, 1)))
    _metric(kind, weights, features).update(pixels, real=real)


def distance(weights: str, features: int = 2048, kind: str = "fid") -> float:
    """The distance between the collected sets, which are then cleared. `kid` is a mean over subsets, the same
    ones each time."""
    import torch

    metric = _metric(kind, weights, features)
    if kind == "fid":
        found = float(metric.compute())
    else:
        counts = (sum(map(len, each)) for each in (metric.real_features, metric.fake_features))
        metric.subset_size = min(1000, *counts)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            found = float(metric.compute()[0])
    metric.reset()
    return found
