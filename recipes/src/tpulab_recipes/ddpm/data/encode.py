"""`encode`: from shards of images to shards of latents and text states, all in bfloat16.

Each shard of images becomes one or more shards of encodings and a report, which is written last: it holds the
length of each record, so that training finds records without reading the shards. An interrupted run continues
with the shards that have no report; a shard that has changed since is encoded again.
"""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tpulab_recipes.common.errors import ConfigError, DataError
from tpulab_recipes.common.progress import Progress
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.data.encoders import encode_rows
from tpulab_recipes.ddpm.data.encodings import SUFFIX, encode_record
from tpulab_recipes.images.files import fit_image
from tpulab_recipes.images.shards import CLASS_KEY, SCORE_KEY, CaptionedImage, count_images, read_images
from tpulab_recipes.images.tfrecord import write_record
from tpulab_recipes.runtime.prefetch import prefetched


def encode(
    config: Config,
    data_dir: str,
    write_dir: str,
    progress: Progress,
    *,
    batch_size: int = 64,
    score_col: str = SCORE_KEY,
    class_col: str = CLASS_KEY,
    process: int = 0,
    processes: int = 1,
) -> dict[str, int]:
    """Encodes this host's share of the shards. Returns the numbers of shards and images."""
    if batch_size < 1:
        raise ConfigError("--batch-size", f"must be at least 1, not {batch_size}.")
    source = Folder(data_dir)
    if source.same_as(write_dir):
        raise ConfigError("--write-dir", f"{write_dir} is the folder that is read; name another.")
    out = Folder(write_dir).make()
    shards = source.names(".tfrecord")
    if not shards:
        raise DataError(f"{data_dir} holds no .tfrecord files; run `import` or `download` into it first.")
    mine = shards[process::processes]
    stored = set(out.names(may_be_absent=True))
    sizes = {name: source.size(name) for name in mine}
    missing = [name for name in mine if not _is_encoded(out, stored, name, sizes[name])]
    counts = count_images(source, missing)
    progress.start(
        "encode", sum(counts.values()), f"{len(mine) - len(missing)} of {len(mine)} shards are complete"
    )
    reported_classes = config.model.conditioning.num_classes > 0
    for name in missing:
        images = read_images(
            source,
            name,
            config.dataset.args.image_format,
            score_col=score_col,
            class_col=class_col if reported_classes else None,
        )
        records = _records(config, images, batch_size, zlib.crc32(name.encode()), progress)
        per_shard = config.dataset.args.number_encodings_per_shard
        lengths: dict[str, list[int]] = {}
        while piece := list(itertools.islice(records, per_shard)):
            part = f"{_stem(name)}-{len(lengths):03d}{SUFFIX}"
            with out.write(part) as file:
                for record in piece:
                    write_record(file, record)
            lengths[part] = [len(record) for record in piece]
        report = {"from": name, "bytes": sizes[name], "images": sum(map(len, lengths.values()))}
        out.put(f"{_stem(name)}.json", json.dumps(report | {"lengths": lengths}))
    progress.finish()
    return {"shards": len(mine), "encoded": len(missing), "images": sum(counts.values())}


def _is_encoded(out: Folder, stored: set[str], name: str, size: int) -> bool:
    """Whether this shard, of this size, has a report and all that the report names."""
    if f"{_stem(name)}.json" not in stored:
        return False
    try:
        report = json.loads(out.get(f"{_stem(name)}.json"))
        return report.get("bytes", size) == size and set(report.get("lengths") or {}) <= stored
    except (ValueError, AttributeError, TypeError):
        return False


def _records(
    config: Config, images: Iterator[CaptionedImage], size: int, seed: int, progress: Progress
) -> Iterator[bytes]:
    args = config.dataset.args
    rng = np.random.default_rng([config.seed, seed])
    cropping = rng if args.resize_method == "random_crop" else None
    # The next images are read while these are encoded.
    with prefetched(iter(lambda: list(itertools.islice(images, size)), []), 2) as batches:
        yield from (record for batch in batches for record in _encoded(batch, config, cropping, progress))


def _encoded(
    batch: list[CaptionedImage], config: Config, cropping: Any, progress: Progress
) -> Iterator[bytes]:
    args = config.dataset.args
    pixels = np.stack([fit_image(image.pixels, args.image_size, cropping) for image in batch])
    scaled = pixels.astype(np.float32) / 127.5 - 1
    rows = encode_rows(scaled, [image.caption for image in batch], config)
    for image, row in zip(batch, rows, strict=True):
        stored: dict[str, Any] = {**row, "aesth_score": image.aesth_score}
        stored |= {"height": float(image.height), "width": float(image.width)}
        if image.label is not None:
            stored["class"] = _checked(image.label, config)
        kept = {key: value for key, value in stored.items() if key not in args.remove_keys}
        yield encode_record(kept, image.caption)
    progress.advance(len(batch))


def _checked(label: int, config: Config) -> int:
    classes = config.model.conditioning.num_classes
    if not 0 <= label < classes:
        raise DataError(
            f"An image has the class {label}, but model.conditioning.num_classes is {classes}: classes are "
            f"numbered from 0 to {classes - 1}."
        )
    return label


def _stem(name: str) -> str:
    return "encodings-" + name.removesuffix(".tfrecord")
