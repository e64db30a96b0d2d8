"""How far samples are from a folder of images: `evaluate --reference-dir`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np

from tpulab_recipes.common.errors import DataError
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.common.torch_process import call
from tpulab_recipes.images.files import fit_image
from tpulab_recipes.images.frechet import FEATURES, frechet_distance, image_features
from tpulab_recipes.images.shards import count_images, read_images

#: Minimum images of each set. With no more images than features, a covariance has directions without any
#: spread, and the distance reflects the number of images more than their content.
LEAST = {"frechet": FEATURES + 1, "fid": 2_049, "kid": 100}
#: Published FID values compare this many images.
PUBLISHED = 50_000
_BATCH = 64
_INCEPTION = "tpulab_recipes.images.inception"


def require_inception(weights: str = "") -> None:
    """Raises `DataError` where Inception's weights are unavailable."""
    call(f"{_INCEPTION}:load", weights=weights)


def inception_distance(
    kind: str, data: Iterable[np.ndarray], made: Iterable[np.ndarray], weights: str = ""
) -> float:
    """`fid` or `kid` between two sets of Float[image, height, width, 3] in [-1, 1], in pieces."""
    for real, pieces in ((True, data), (False, made)):
        for some in pieces:
            _update(some, kind, weights, real=real)
    return float(call(f"{_INCEPTION}:distance", weights=weights, kind=kind))


def _update(images: np.ndarray, kind: str, weights: str, *, real: bool) -> None:
    pixels = np.rint((images.clip(-1, 1) + 1) * 127.5).astype(np.uint8)
    call(f"{_INCEPTION}:update", images=pixels, real=real, weights=weights, kind=kind)


class Comparison:
    """`frechet` is the distance of our own fixed features; `fid` and `kid` are of Inception's."""

    def __init__(
        self, folder: str, size: int, image_format: str, kind: str = "frechet", weights: str = ""
    ) -> None:
        """The shards of images in a folder, stored in this format, each made a square of `size`. `weights` is
        Inception's file; empty: torch's cache."""
        self._folder, self._size, self._format = Folder(folder), size, image_format
        self._kind, self._weights = kind, weights
        self._shards = self._folder.names(".tfrecord")
        self._there = sum(count_images(self._folder, self._shards).values())
        self._features: list[np.ndarray] = []
        self.check(self._there, f"{folder} holds")

    def check(self, count: int, these: str = "--num-images makes") -> None:
        """Raises `DataError` for too few images; for samples, before they are generated."""
        if count < LEAST[self._kind]:
            more = f", and published figures compare {PUBLISHED:,}" if self._kind == "fid" else ""
            raise DataError(
                f"{these} {count:,} images, too few: `--distance {self._kind}` needs at least "
                f"{LEAST[self._kind]:,} samples and as many images of the data{more}."
            )

    def add(self, images: np.ndarray) -> None:
        """Takes in samples, Float[image, height, width, 3] in [-1, 1], which need not be stored."""
        if self._kind == "frechet":
            self._features.append(image_features(images, _BATCH))
        else:
            _update(images, self._kind, self._weights, real=False)

    def result(self) -> dict[str, float]:
        """The distance of the samples, and the number of images they were compared with."""
        if self._kind == "frechet":
            data = [image_features(some, _BATCH) for some in self._reference()]
            distance = frechet_distance(np.concatenate(data), np.concatenate(self._features))
        else:
            distance = inception_distance(self._kind, self._reference(), (), self._weights)
        return {self._kind: distance, "reference_images": self._there}

    def _reference(self) -> Iterator[np.ndarray]:
        images = (
            fit_image(image.pixels, self._size)
            for name in self._shards
            for image in read_images(self._folder, name, self._format)
        )
        while batch := list(itertools.islice(images, _BATCH)):
            yield np.stack(batch).astype(np.float32) / 127.5 - 1
