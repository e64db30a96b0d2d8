"""Encoded images on disk: one TFRecord `Example` for each, every array a bfloat16 `TensorProto`.

Keys: `image` (latents), `clip_emb`, `t5_emb` and `bert_emb` (text states without the padding),
`clip_image_emb`, `aesth_score`, `height`, `width`; `class`, a whole number (bfloat16 distinguishes 256 of
them); and `txt`, the caption itself.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from tpulab_recipes.common.errors import DataError
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.ddpm.config import TEXT_STATES, Config, context_shapes
from tpulab_recipes.images import tfrecord
from tpulab_recipes.images.messages import decode_example, decode_tensor, encode_example, encode_tensor

SUFFIX = ".tfrecord"


def encode_record(arrays: Mapping[str, Any], caption: str) -> bytes:
    """One image as it lies on disk. Text states come without rows of padding."""
    features: dict[str, Any] = {
        name: int(value) if name == "class" else encode_tensor(np.asarray(value, ml_dtypes.bfloat16))
        for name, value in arrays.items()
    }
    return encode_example(features | {"txt": caption})


def empty_batch(config: Config, count: int) -> dict[str, np.ndarray]:
    """Zeros for what training needs of `count` records: latents in fp32, the rest as stored."""
    shapes = {"image": config.in_dimensions} | context_shapes(config.model.conditioning)
    kinds = {"image": np.dtype(np.float32), "class": np.dtype(np.int32)}
    other = np.dtype(ml_dtypes.bfloat16)
    return {key: np.zeros((count, *shape), kinds.get(key, other)) for key, shape in shapes.items()}


def decode_record(data: bytes, batch: Mapping[str, np.ndarray], row: int, name: str) -> None:
    """Writes one record into a row of `empty_batch`; the padding of text states stays zero."""
    features = decode_example(data, name)
    for key, rows in batch.items():
        if key not in features:
            known = ", ".join(sorted(features)) or "nothing"
            raise DataError(
                f"{name} has no {key!r} (it holds {known}); encode it again, or switch that conditioning "
                "off in model.conditioning."
            )
        (stored,) = features[key]
        value = decode_tensor(stored, name) if isinstance(stored, bytes) else np.asarray(stored)
        place, shape = rows[row], rows.shape[1:]
        if key in TEXT_STATES and value.ndim == 2 and value.shape[1:] == shape[1:]:
            value = value[: len(place)]
            place[: len(value)] = value
        elif value.shape == shape:
            rows[row] = value
        else:
            raise DataError(
                f"{name}: {key!r} has the shape {value.shape}, but the configuration expects {shape}; it was "
                "encoded for another configuration."
            )


class EncodingShards:
    """The encodings in a folder, numbered through all shards in the order of their names.

    Opening it reads the reports of `encode`, which give the place of each record, and no record; of shards
    without a report, the headers of all records.
    """

    def __init__(self, folder: str, config: Config) -> None:
        self.folder, self._config = Folder(folder), config
        self._names = self.folder.names(SUFFIX)
        if not self._names:
            raise DataError(f"{folder} holds no {SUFFIX} files; run `encode` into it first.")
        known = self._reported_lengths()
        if lost := sorted(known.keys() - set(self._names)):
            raise DataError(
                f"{folder}/{lost[0]} does not exist, and a report still names it ({len(lost)} such shards); "
                "run `encode` again, which makes it again, or delete the report too."
            )
        places = []
        for name in self._names:
            if name in known:
                found = tfrecord.places_of(known[name])
            else:
                with self.folder.read(name) as file:
                    found = tfrecord.record_places(file, name)
            if not found:
                raise DataError(f"{folder}/{name} is empty; delete it, or encode it again.")
            places.append(np.asarray(found, np.int64))
        #: Records of each shard.
        self.counts = [len(some) for some in places]
        #: (first byte of the data, length) of each record: arrays, as a data set has millions.
        self._places = np.concatenate(places)
        self._shard = np.repeat(np.arange(len(places)), self.counts)

    def _reported_lengths(self) -> dict[str, list[int]]:
        lengths: dict[str, list[int]] = {}
        for report in self.folder.get_all(self.folder.names(".json")).values():
            try:
                lengths |= json.loads(report).get("lengths") or {}
            except (ValueError, AttributeError, TypeError):
                continue
        return lengths

    def fingerprint(self) -> int:
        """Changes with the records: their number and their lengths, shard by shard; not with the folder."""
        return zlib.crc32(json.dumps([self._names, self.counts]).encode() + self._places[:, 1].tobytes())

    def read(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """These records, in this order, an array for each key. Only their own bytes are read."""
        batch = empty_batch(self._config, len(numbers))
        for row, (data, shard) in enumerate(self._stored(numbers)):
            decode_record(data, batch, row, shard)
        return batch

    def captions(self, numbers: np.ndarray) -> list[str]:
        found = (decode_example(data, shard).get("txt", [b""])[0] for data, shard in self._stored(numbers))
        return [bytes(caption).decode("utf-8", "replace") for caption in found]

    def _stored(self, numbers: np.ndarray) -> Iterator[tuple[bytes, str]]:
        """The bytes of these records, and the names of their shards."""
        wanted = [(self._names[self._shard[number]], *map(int, self._places[number])) for number in numbers]
        pieces = self.folder.read_ranges(
            [(shard, place, length + tfrecord.TAIL_BYTES) for shard, place, length in wanted]
        )
        for piece, (shard, place, length) in zip(pieces, wanted, strict=True):
            yield tfrecord.checked_data(piece, length, shard, place), shard

    def spread(self, count: int, numbers: np.ndarray | None = None) -> np.ndarray:
        """Up to `count` of these numbers of records (None: of all), spread evenly over them: shards may be
        sorted by what they show."""
        numbers = np.arange(len(self._places)) if numbers is None else numbers
        count = min(count, len(numbers))
        return numbers[np.arange(count) * len(numbers) // count]
