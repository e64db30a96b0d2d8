"""Shards that `encode` wrote, read by place: any record, without what lies before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tpulab_recipes.common.errors import DataError
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.data import tfrecord
from tpulab_recipes.ddpm.data.encodings import SUFFIX, decode_record


@dataclass(frozen=True)
class Span:
    """Neighbouring records of one shard."""

    shard: str
    first: int
    count: int


class EncodingShards:
    """The encodings in a folder. Opening it reads where each record lies, and none of them."""

    def __init__(self, folder: str, config: Config) -> None:
        self.folder, self._config = Folder(folder), config
        names = self.folder.names(SUFFIX)
        if not names:
            raise DataError(f"{folder} holds no {SUFFIX} files; run `encode` into it first.")
        #: (first byte of the data, length), an array for each shard: a data set has millions of records.
        self._places: dict[str, np.ndarray] = {}
        for name in names:
            with self.folder.read(name) as file:
                self._places[name] = np.asarray(tfrecord.record_places(file, name), np.int64)
            if not len(self._places[name]):
                raise DataError(f"{folder}/{name} is empty; delete it, or encode it again.")

    @property
    def counts(self) -> dict[str, int]:
        """Records of each shard, in the order of the shards' names."""
        return {name: len(places) for name, places in self._places.items()}

    def read(self, wanted: Sequence[tuple[str, int]]) -> dict[str, np.ndarray]:
        """The records (shard, number), an array for each key. Only their own bytes are read."""
        places = [tuple(map(int, self._places[shard][number])) for shard, number in wanted]
        pieces = self.folder.read_ranges(
            [
                (shard, place, length + tfrecord.TAIL_BYTES)
                for (shard, _), (place, length) in zip(wanted, places, strict=True)
            ]
        )
        records = [
            decode_record(tfrecord.checked_data(piece, length, shard, place), self._config, shard)
            for piece, (shard, _), (place, length) in zip(pieces, wanted, places, strict=True)
        ]
        return {name: np.stack([record[name] for record in records]) for name in records[0]}


class Records:
    """The records of some spans, numbered from 0 through all of them."""

    def __init__(self, shards: EncodingShards, spans: Sequence[Span]) -> None:
        self._shards, self._spans = shards, tuple(spans)
        self._ends = np.cumsum([span.count for span in self._spans])

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def read(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """These records, in this order, an array for each key."""
        wanted = []
        for number, place in zip(numbers, np.searchsorted(self._ends, numbers, side="right"), strict=True):
            span = self._spans[place]
            wanted.append((span.shard, int(number - self._ends[place]) + span.first + span.count))
        return self._shards.read(wanted)

    def spread(self, count: int) -> dict[str, np.ndarray]:
        """Up to `count` records, spread evenly over all: shards may be sorted by what they show."""
        count = min(count, len(self))
        return self.read(np.arange(count) * len(self) // count)
