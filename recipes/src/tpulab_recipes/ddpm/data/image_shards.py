"""Shards of images as `download` or img2dataset writes them, and shards of shapes made here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpulab_recipes.ddpm.data.images import decode_image, encode_image
from tpulab_recipes.ddpm.data.protos import decode_example, encode_example
from tpulab_recipes.ddpm.data.shapes import iterate_shapes
from tpulab_recipes.ddpm.data.storage import Folder
from tpulab_recipes.ddpm.data.tfrecord import read_records, write_record
from tpulab_recipes.ddpm.errors import DataError


@dataclass(frozen=True)
class CaptionedImage:
    """One image of a shard."""

    pixels: np.ndarray  # UInt8[height, width, 3]
    caption: str
    aesth_score: float  # 0: not known
    #: Size before it was resized.
    height: int
    width: int


def read_images(folder: Folder, name: str, image_format: str) -> Iterator[CaptionedImage]:
    """All images of a shard. Raises `DataError` for an empty or damaged one, or one without images of this
    format."""
    empty = True
    with folder.read(name) as file:
        for index, data in enumerate(read_records(file, name)):
            empty = False
            yield _image(data, image_format, f"{name}, record {index}")
    if empty:
        raise DataError(f"{name} is empty; delete it, or download it again.")


def _image(data: bytes, image_format: str, place: str) -> CaptionedImage:
    try:
        features = decode_example(data)
    except ValueError as error:
        raise DataError(f"{place}: {error}") from error
    for needed in (image_format, "txt"):
        if needed not in features:
            raise DataError(
                f"{place} has no {needed!r} (it holds {', '.join(sorted(features))}); set "
                "dataset.args.image_format to the key of its images."
            )
    pixels = decode_image(features[image_format][0], place)
    about: dict[str, Any] = {}
    if "json" in features:
        try:
            about = json.loads(features["json"][0])
        except ValueError as error:
            raise DataError(f"{place}: its json cannot be read: {error}") from error
    height, width = pixels.shape[:2]
    return CaptionedImage(
        pixels,
        features["txt"][0].decode("utf-8", "replace"),
        float(about.get("AESTHETIC_SCORE") or 0.0),
        int(about.get("original_height") or about.get("height") or height),
        int(about.get("original_width") or about.get("width") or width),
    )


def write_shape_images(folder: Folder, count: int, seed: int = 0, per_shard: int = 512) -> list[str]:
    """Shards of captioned shapes as PNG: a data set for trying the pipeline without a network."""
    folder.make()
    records = [
        encode_example(
            {
                "png": encode_image(shape["image"], "png"),
                "txt": shape["txt"],
                "json": json.dumps({"AESTHETIC_SCORE": shape["aesth_score"], "height": 16, "width": 16}),
            }
        )
        for shape in iterate_shapes(count, seed)
    ]
    names = []
    for number, first in enumerate(range(0, count, per_shard)):
        names.append(f"shapes-{number:05d}.tfrecord")
        with folder.write(names[-1]) as file:
            for record in records[first : first + per_shard]:
                write_record(file, record)
    return names
