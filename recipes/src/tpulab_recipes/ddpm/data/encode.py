"""`encode`: from shards of images to shards of latents and text states, all in bfloat16.

Each shard of images becomes shards of encodings of its own, which appear when they are whole; an interrupted
run goes on with the shards that have none.
"""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tpulab_recipes.common.errors import DataError
from tpulab_recipes.common.progress import Progress
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.data.encoders import encode_rows
from tpulab_recipes.ddpm.data.encodings import SUFFIX, encode_record
from tpulab_recipes.images.files import fit_image
from tpulab_recipes.images.shards import CLASS_KEY, SCORE_KEY, CaptionedImage, read_images
from tpulab_recipes.images.tfrecord import count_records, write_record


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
    source, out = Folder(data_dir), Folder(write_dir).make()
    shards = source.names(".tfrecord")
    if not shards:
        raise DataError(f"{data_dir} holds no .tfrecord files; run `download` into it first.")
    mine = shards[process::processes]
    there = set(out.names(may_be_absent=True))
    missing = [name for name in mine if f"{_stem(name)}.json" not in there]
    counts = {name: count_records(source, name) for name in missing}
    progress.start(
        "encode", sum(counts.values()), f"{len(mine) - len(missing)} of {len(mine)} shards are there"
    )
    told_classes = config.model.conditioning.num_classes > 0
    for name in missing:
        images = read_images(
            source,
            name,
            config.dataset.args.image_format,
            score_col=score_col,
            class_col=class_col if told_classes else None,
        )
        records = _records(config, images, batch_size, zlib.crc32(name.encode()), progress)
        per_shard, done = config.dataset.args.number_encodings_per_shard, 0
        while piece := list(itertools.islice(records, per_shard)):
            with out.write(f"{_stem(name)}-{done // per_shard:03d}{SUFFIX}") as file:
                for record in piece:
                    write_record(file, record)
            done += len(piece)
        out.put(f"{_stem(name)}.json", json.dumps({"from": name, "images": done}))
    progress.finish()
    return {"shards": len(mine), "encoded": len(missing), "images": sum(counts.values())}


def _records(
    config: Config, images: Iterator[CaptionedImage], size: int, seed: int, progress: Progress
) -> Iterator[bytes]:
    args = config.dataset.args
    rng = np.random.default_rng([config.seed, seed])
    cropping = rng if args.resize_method == "random_crop" else None
    while batch := list(itertools.islice(images, size)):
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
