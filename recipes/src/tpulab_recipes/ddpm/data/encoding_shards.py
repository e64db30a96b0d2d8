"""Shards that `encode` wrote, read by place: some records of a shard, without what lies before them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.data import tfrecord
from tpulab_recipes.ddpm.data.encodings import SUFFIX, decode_record
from tpulab_recipes.ddpm.data.storage import Folder
from tpulab_recipes.ddpm.errors import DataError

#: Records that are read in one piece and shuffled among themselves.
WINDOW = 256


@dataclass(frozen=True)
class Window:
    """Records of one shard that stand beside each other."""

    shard: str
    first: int
    count: int


def windows(shard: str, records: int) -> list[Window]:
    """Pieces of nearly equal length: a short last one would count against every host."""
    edges = np.linspace(0, records, -(-records // WINDOW) + 1).round().astype(int)
    return [Window(shard, int(a), int(b - a)) for a, b in itertools.pairwise(edges)]


class EncodingShards:
    """The encodings in a folder. Opening it reads where each record lies, and none of them."""

    def __init__(self, folder: str, config: Config) -> None:
        self.folder, self._config = Folder(folder), config
        names = self.folder.names(SUFFIX)
        if not names:
            raise DataError(f"{folder} holds no {SUFFIX} files; run `encode` into it first.")
        self._places: dict[str, list[tuple[int, int]]] = {}
        for name in names:
            with self.folder.read(name) as file:
                self._places[name] = tfrecord.record_places(file, name)
            if not self._places[name]:
                raise DataError(f"{folder}/{name} is empty; delete it, or encode it again.")

    @property
    def counts(self) -> dict[str, int]:
        """Records of each shard, in the order of the shards' names."""
        return {name: len(places) for name, places in self._places.items()}

    def read(self, window: Window, order: np.ndarray) -> Iterator[dict[str, np.ndarray]]:
        """The records `order` of a window, counted from its first."""
        places = self._places[window.shard][window.first : window.first + window.count]
        first, last = places[0][0], places[-1][0] + places[-1][1] + 4
        with self.folder.read(window.shard) as file:
            file.seek(first)
            piece = file.read(last - first)
        for index in order:
            place, length = places[index]
            data = piece[place - first : place - first + length]
            stored = piece[place - first + length : place - first + length + 4]
            if len(data) < length or int.from_bytes(stored, "little") != tfrecord.masked_crc(data):
                raise DataError(f"{window.shard}: the record at byte {place} is damaged; encode it again.")
            yield decode_record(data, self._config, window.shard)

    def spread(self, among: Sequence[Window], count: int) -> dict[str, np.ndarray]:
        """Up to `count` records, spread evenly over these windows: shards may be sorted by what they show."""
        ends = np.cumsum([window.count for window in among])
        total = int(ends[-1])
        count = min(count, total)
        records: list[dict[str, np.ndarray]] = []
        for number in np.arange(count) * total // count:
            place = int(np.searchsorted(ends, number, side="right"))
            window = among[place]
            index = int(number - ends[place] + window.count)
            one = Window(window.shard, window.first + index, 1)
            records += self.read(one, np.zeros(1, int))
        return {name: np.stack([record[name] for record in records]) for name in records[0]}
