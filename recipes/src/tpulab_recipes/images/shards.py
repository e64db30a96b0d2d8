"""Shards of images as `download` or img2dataset writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpulab_recipes.common.errors import DataError
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.images.files import decode_image
from tpulab_recipes.images.messages import decode_example
from tpulab_recipes.images.tfrecord import read_records

#: Where `download` puts the score, and where the tables of LAION have it.
SCORE_KEY = "AESTHETIC_SCORE"
#: Where `download` puts the class.
CLASS_KEY = "class"


@dataclass(frozen=True)
class CaptionedImage:
    """One image of a shard."""

    pixels: np.ndarray  # UInt8[height, width, 3]
    caption: str
    aesth_score: float  # 0: not known
    #: Size before it was resized.
    height: int
    width: int
    #: None where nobody asked for it.
    label: int | None = None


def read_images(
    folder: Folder, name: str, image_format: str, *, score_col: str = SCORE_KEY, class_col: str | None = None
) -> Iterator[CaptionedImage]:
    """All images of a shard, with the score and, where it is asked for, the class under these names.

    Raises `DataError` for an empty or damaged shard, or one without images of this format.
    """
    empty = True
    with folder.read(name) as file:
        for index, data in enumerate(read_records(file, name)):
            empty = False
            yield _image(data, image_format, f"{name}, record {index}", score_col, class_col)
    if empty:
        raise DataError(f"{name} is empty; delete it, or download it again.")


def _image(
    data: bytes, image_format: str, place: str, score_col: str, class_col: str | None
) -> CaptionedImage:
    features = decode_example(data, place)
    for needed in (image_format, "txt"):
        if needed not in features:
            raise DataError(
                f"{place} has no {needed!r} (it holds {', '.join(sorted(features))}); set "
                "dataset.args.image_format to the key of its images."
            )
    pixels = decode_image(features[image_format][0], place)
    about = _about(features, place)
    height, width = pixels.shape[:2]
    return CaptionedImage(
        pixels,
        features["txt"][0].decode("utf-8", "replace"),
        _number(about, (score_col, SCORE_KEY), place) or 0.0,
        int(_number(about, ("original_height", "height"), place) or height),
        int(_number(about, ("original_width", "width"), place) or width),
        None if class_col is None else _label(about, class_col, place),
    )


def _about(features: dict[str, list[Any]], place: str) -> dict[str, Any]:
    """What is known of an image: features of their own, as img2dataset's TFRecord writer stores them, and
    those in `json`, as `download` and img2dataset's other writers do. What is missing has no value."""
    about = {name: values[0] for name, values in features.items() if values and values[0] != b""}
    if "json" in features:
        try:
            about |= json.loads(features["json"][0])
        except ValueError as error:
            raise DataError(f"{place}: its json cannot be read: {error}") from error
    return about


def _number(about: dict[str, Any], names: Sequence[str], place: str) -> float | None:
    """The first of these that has a value."""
    name = next((name for name in names if about.get(name) is not None), None)
    if name is None:
        return None
    try:
        return float(about[name])
    except (TypeError, ValueError) as error:
        raise DataError(f"{place}: {name!r} is {about[name]!r}, not a number.") from error


def _label(about: dict[str, Any], class_col: str, place: str) -> int:
    label = _number(about, (class_col, CLASS_KEY), place)
    if label is None:
        raise DataError(
            f"{place} has no {class_col!r} (it holds {', '.join(sorted(about))}), but this network is told "
            "classes; name the column with --class-col, at `download` and at `encode`."
        )
    return int(label)
