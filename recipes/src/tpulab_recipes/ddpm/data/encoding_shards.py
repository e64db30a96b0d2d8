"""Shards that `encode` wrote, read by place: any record, without what lies before it."""

from __future__ import annotations

import numpy as np

from tpulab_recipes.common.errors import DataError
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.data import tfrecord
from tpulab_recipes.ddpm.data.encodings import SUFFIX, decode_record


class EncodingShards:
    """The encodings in a folder, numbered through all shards in the order of their names. Opening it reads
    where each record lies, and none of them."""

    def __init__(self, folder: str, config: Config) -> None:
        self.folder, self._config = Folder(folder), config
        self._names = self.folder.names(SUFFIX)
        if not self._names:
            raise DataError(f"{folder} holds no {SUFFIX} files; run `encode` into it first.")
        places = []
        for name in self._names:
            with self.folder.read(name) as file:
                places.append(np.asarray(tfrecord.record_places(file, name), np.int64))
            if not len(places[-1]):
                raise DataError(f"{folder}/{name} is empty; delete it, or encode it again.")
        #: Records of each shard.
        self.counts = [len(some) for some in places]
        #: (first byte of the data, length) of each record: arrays, as a data set has millions.
        self._places = np.concatenate(places)
        self._shard = np.repeat(np.arange(len(places)), self.counts)

    def read(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """These records, in this order, an array for each key. Only their own bytes are read."""
        wanted = [(self._names[self._shard[number]], *map(int, self._places[number])) for number in numbers]
        pieces = self.folder.read_ranges(
            [(shard, place, length + tfrecord.TAIL_BYTES) for shard, place, length in wanted]
        )
        records = [
            decode_record(tfrecord.checked_data(piece, length, shard, place), self._config, shard)
            for piece, (shard, place, length) in zip(pieces, wanted, strict=True)
        ]
        return {name: np.stack([record[name] for record in records]) for name in records[0]}

    def spread(self, count: int, numbers: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Up to `count` of the records with these numbers (None: of all), spread evenly over them: shards may
        be sorted by what they show."""
        numbers = np.arange(len(self._places)) if numbers is None else numbers
        count = min(count, len(numbers))
        return self.read(numbers[np.arange(count) * len(numbers) // count])
