"""Fashion-MNIST, real or synthetic, in batches of fixed shapes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tpulab_recipes.images.garments import draw_dataset
from tpulab_recipes.images.idx import IdxError, read_idx, write_idx

_PARTS = {"train": "train", "test": "t10k"}
Batch = dict[str, NDArray[np.generic]]


@dataclass(frozen=True)
class Images:
    """`pixels`: uint8 [image, 28, 28], 0 is background. `labels`: uint8 [image], 0 to 9."""

    pixels: NDArray[np.uint8]
    labels: NDArray[np.uint8]

    def __post_init__(self) -> None:
        if self.pixels.ndim != 3 or self.labels.shape != self.pixels.shape[:1]:
            raise IdxError(
                f"Images {self.pixels.shape} and labels {self.labels.shape} do not belong together."
            )
        if len(self.labels) and int(self.labels.max()) > 9:
            raise IdxError(f"A label is {int(self.labels.max())}; Fashion-MNIST has the classes 0 to 9.")

    def __len__(self) -> int:
        return len(self.labels)


def load(folder: str, part: str) -> Images:
    """`train` or `test` from the four idx files of Fashion-MNIST, gzipped or not.

    Args:
        folder: a path, or an address such as `gs://my-bucket/fashion-mnist`.

    Raises:
        IdxError: the files are not there or are not what they should be.
    """
    if part not in _PARTS:
        raise ValueError(f'There is no part "{part}"; choose train or test.')
    stem = f"{folder.rstrip('/')}/{_PARTS[part]}"
    return Images(_read_either(f"{stem}-images-idx3-ubyte"), _read_either(f"{stem}-labels-idx1-ubyte"))


def _read_either(stem: str) -> NDArray[np.uint8]:
    try:
        return read_idx(f"{stem}.gz")
    except IdxError as compressed:
        if not str(compressed).startswith("There is no file"):
            raise
    try:
        return read_idx(stem)
    except IdxError as error:
        raise IdxError(
            f"{error} Fashion-MNIST is four files (train- and t10k-, images-idx3-ubyte and "
            f"labels-idx1-ubyte, with .gz "
            "or without); put them there, or leave the folder empty for the images that this recipe draws."
        ) from error


def synthetic_folder(train: int = 2000, test: int = 500, seed: int = 0) -> str:
    """A folder with drawn garments in the format of Fashion-MNIST; made at the first call, then kept in the
    cache."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    cache = (base if base.is_absolute() else Path.home() / ".cache") / "tpulab"
    folder = cache / f"drawn-fashion-1-{train}-{test}-{seed}"
    if not (folder / "done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for part, (name, count) in enumerate((("train", train), ("t10k", test))):
            pixels, labels = draw_dataset(count, seed=2 * seed + part)
            write_idx(folder / f"{name}-images-idx3-ubyte.gz", pixels)
            write_idx(folder / f"{name}-labels-idx1-ubyte.gz", labels)
        (folder / "done").touch()
    return str(folder)


def train_batches(images: Images, batch_size: int, seed: int, epoch: int) -> Iterator[Batch]:
    """Shuffled batches of exactly `batch_size`; leftover rows belong to another epoch."""
    order = np.random.default_rng((seed, epoch)).permutation(len(images))
    for start in range(0, len(images) - batch_size + 1, batch_size):
        chosen = order[start : start + batch_size]
        yield {"pixels": images.pixels[chosen], "labels": images.labels[chosen].astype(np.int32)}


def train_epochs(images: Images, batch_size: int, seed: int, epochs: int) -> Iterator[Batch]:
    """The batches of all epochs, one epoch after the other."""
    for epoch in range(epochs):
        yield from train_batches(images, batch_size, seed, epoch)


def eval_batches(images: Images, batch_size: int) -> Iterator[Batch]:
    """Every image once, in order; the last batch is padded, and `counts` is 0 for the padding rows.

    So a ragged end changes neither the shape nor the accuracy.
    """
    for start in range(0, len(images), batch_size):
        pixels, labels = images.pixels[start : start + batch_size], images.labels[start : start + batch_size]
        missing = batch_size - len(labels)
        yield {
            "pixels": np.pad(pixels, ((0, missing), (0, 0), (0, 0))),
            "labels": np.pad(labels.astype(np.int32), (0, missing)),
            "counts": np.pad(np.ones(len(labels), np.float32), (0, missing)),
        }
