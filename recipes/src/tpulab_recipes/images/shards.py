"""Shards of images: TFRecord files as `download`, `import` or img2dataset write them, each with a report.

The report is written after its shard, so a shard with a report is whole. It lists the rows that were left
out, each with its reason, and the length of each record, so that readers need not scan the shard for them.
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from typing import Any, Literal

import numpy as np

from tpulab_recipes.common.errors import DataError
from tpulab_recipes.common.interruption import ended_by_parent
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.images.files import decode_image, encode_image, is_heic, resize_smallest_side
from tpulab_recipes.images.messages import decode_example, encode_example
from tpulab_recipes.images.tfrecord import read_records, record_places, write_record

#: Where shards store the score, and where the tables of LAION have it.
SCORE_KEY = "AESTHETIC_SCORE"
#: Where shards store the class.
CLASS_KEY = "class"
#: Training sees a square of each image; resized by its smaller side, a longer one would fill the memory.
MAX_ASPECT_RATIO = 20


class SkippedImage(Exception):
    """An image cannot be used. The text is the reason, for the report."""


@dataclass(frozen=True, kw_only=True)
class ShardOptions:
    """How images are stored."""

    write_dir: str
    """Folder for the shards of images."""
    image_size: int = 256
    """Smaller side after resizing."""
    min_image_size: int = 64
    """Skip smaller images."""
    processes_count: int = 16
    """Processes that decode and resize."""
    samples_per_shard: int = 10_000
    """Images of a shard."""
    image_format: Literal["jpg", "png"] = "jpg"


@dataclass(frozen=True)
class Row:
    """The values stored with an image."""

    source: str
    """Address or file name."""
    caption: str = ""
    label: int | None = None
    score: float | None = None


def image_record(data: bytes | np.ndarray, row: Row, options: ShardOptions, key: str) -> bytes:
    """An image as it lies in a shard. `data` is a file, or UInt8[height, width, 3]. Raises `SkippedImage`."""
    try:
        pixels = data if isinstance(data, np.ndarray) else decode_image(data, row.source)
    except DataError as error:
        heic = isinstance(data, bytes) and is_heic(data)
        raise SkippedImage("heic" if heic else "not_an_image") from error
    height, width = pixels.shape[:2]
    if min(height, width) < options.min_image_size:
        raise SkippedImage("too_small")
    if max(height, width) > MAX_ASPECT_RATIO * min(height, width):
        raise SkippedImage("too_elongated")
    if min(height, width) != options.image_size:
        pixels = resize_smallest_side(pixels, options.image_size)
    image = {"key": key, options.image_format: encode_image(pixels, options.image_format)}
    return _described(image, {"height": height, "width": width}, row)


def corrected_record(record: bytes, row: Row) -> bytes:
    """The same image with the caption, score and class of this row."""
    features = {name: values[0] for name, values in decode_example(record).items()}
    size = {
        name: value for name, value in json.loads(features["json"]).items() if name in ("height", "width")
    }
    return _described(features, size, row)


def _described(image: dict[str, Any], size: dict[str, Any], row: Row) -> bytes:
    about = size | {"url": row.source}
    if row.score is not None:
        about[SCORE_KEY] = row.score
    if row.label is not None:
        about[CLASS_KEY] = row.label
    # The names of img2dataset's other formats; its TFRecords have no `json`, and a feature for each column.
    return encode_example(image | {"txt": row.caption, "json": json.dumps(about)})


@dataclass(kw_only=True)
class ShardReport:
    """The images in a shard, and the rows without one."""

    source: str
    """The table, archive or folder that it was made from."""
    rows: int
    fingerprint: int
    """Changes with the rows of the source: of a table, with their addresses."""
    texts: int = 0
    """Changes with the captions, scores and classes of a table."""
    images: int = 0
    left_out: list[tuple[int, str, str]] = field(default_factory=list)
    """(row, address or file name, reason)."""
    lengths: list[int] = field(default_factory=list)
    """Bytes of each record."""

    @property
    def problems(self) -> dict[str, int]:
        return dict(Counter(reason for _, _, reason in self.left_out).most_common())


def read_report(folder: Folder, name: str, stored: Collection[str]) -> ShardReport | None:
    """The report of the shard `name`; None where there is none that can be used, or its shard is not among
    the files `stored` in the folder."""
    if f"{name}.json" not in stored:
        return None
    try:
        found = json.loads(folder.get(f"{name}.json"))
        # Older reports have no `texts`.
        report = ShardReport(**{key: found[key] for key in ShardReport.__dataclass_fields__ if key in found})
        report.left_out = [(int(row), str(source), str(reason)) for row, source, reason in report.left_out]
    except (ValueError, KeyError, TypeError):
        return None
    return report if not report.images or f"{name}.tfrecord" in stored else None


def count_images(folder: Folder, names: Sequence[str]) -> dict[str, int]:
    """The number of images in each of these shards: from their reports where there are some, else from the
    headers of their records."""
    stored = set(folder.names())
    counts = {}
    for name in names:
        stem = name.removesuffix(".tfrecord")
        report = read_report(folder, stem, stored)
        if report is None:
            with folder.read(name) as file:
                counts[name] = len(record_places(file, name))
        else:
            counts[name] = report.images
    return counts


def write_shard(folder: Folder, name: str, records: Mapping[int, bytes], report: ShardReport) -> None:
    """The records in the order of their rows, then the report."""
    report.images, report.lengths = len(records), [len(records[row]) for row in sorted(records)]
    if records:
        with folder.write(f"{name}.tfrecord") as file:
            for row in sorted(records):
                write_record(file, records[row])
    about = {key: getattr(report, key) for key in ShardReport.__dataclass_fields__}
    folder.put(f"{name}.json", json.dumps(about | {"problems": report.problems}))


def stored_records(folder: Folder, name: str) -> dict[int, bytes]:
    """The records of a shard that `write_shard` wrote, by their rows."""
    with folder.read(f"{name}.tfrecord") as file:
        records = list(read_records(file, name))
    keys = (decode_example(record, name)["key"][0].decode() for record in records)
    return {int(key.rpartition("-")[2]): record for key, record in zip(keys, records, strict=True)}


@contextmanager
def decoders(count: int) -> Iterator[ProcessPoolExecutor | None]:
    """Processes that decode and resize images; None for fewer than two, where this process does it."""
    if count < 2:
        yield None
        return
    try:
        # Spawned: a forked child of a process with threads may hang.
        with ProcessPoolExecutor(count, get_context("spawn"), _end_with_parent) as pool:
            with ended_by_parent():
                for _ in range(count):
                    pool.submit(int)  # Each starts a process.
            try:
                yield pool
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    except BrokenExecutor as error:
        raise DataError(
            "A process that decodes images was killed, as the system does when memory runs out; give a "
            "smaller --processes-count and run the same command again."
        ) from error


def _end_with_parent() -> None:
    """A process whose parent was killed would wait for work forever."""
    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@dataclass(frozen=True)
class CaptionedImage:
    """One image of a shard."""

    pixels: np.ndarray  # UInt8[height, width, 3]
    caption: str
    aesth_score: float  # 0: unknown
    #: Size before it was resized.
    height: int
    width: int
    #: None unless it was requested.
    label: int | None = None


def read_images(
    folder: Folder, name: str, image_format: str, *, score_col: str = SCORE_KEY, class_col: str | None = None
) -> Iterator[CaptionedImage]:
    """All images of a shard, with the score and, if requested, the class under these names.

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
    image_format = image_format or ("jpg" if "jpg" in features else "png")
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
    """The known values of an image: separate features, as img2dataset's TFRecord writer stores them, and
    values in `json`, as `download` and img2dataset's other writers do. Missing values are left out."""
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
    return number(about[name], name, place)


def number(value: Any, name: str, place: str) -> float | None:
    """A number in a table, or none: NaN is how tables store a missing one. Raises `DataError`."""
    try:
        found = float(value)
    except (TypeError, ValueError) as error:
        raise DataError(f"{place}: {name!r} is {value!r}, not a number.") from error
    return None if math.isnan(found) else found


def class_of(value: Any, name: str, place: str) -> int | None:
    """A class in a table or archive; none for a missing one, and for a negative one, which is how data sets
    mark images without a class. Raises `DataError` for anything else, such as a name."""
    if value is None or (isinstance(value, str | bytes) and not value.strip()):
        return None
    found = number(value, name, place)
    if found is not None and found % 1 != 0:
        raise DataError(f"{place}: {name!r} is {value!r}, not a whole number; classes are numbered from 0.")
    return None if found is None or found < 0 else int(found)


def _label(about: dict[str, Any], class_col: str, place: str) -> int:
    name = next((name for name in (class_col, CLASS_KEY) if about.get(name) is not None), class_col)
    label = class_of(about.get(name), name, place)
    if label is None:
        raise DataError(
            f"{place} has no {class_col!r} (it holds {', '.join(sorted(about))}), but this network needs "
            "classes; name the column with --class-col, at `download` or `import` and at `encode`."
        )
    return label
