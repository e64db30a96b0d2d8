"""Batches for training. What step N reads depends on the seed, N and the number of hosts alone, so that a
run that goes on reads exactly what it would have read.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.data import tfrecord
from tpulab_recipes.ddpm.data.encodings import SUFFIX, decode_record
from tpulab_recipes.ddpm.data.shapes import draw_shapes
from tpulab_recipes.ddpm.data.small_encoders import PatchPca, encode_text
from tpulab_recipes.ddpm.data.storage import Folder
from tpulab_recipes.ddpm.errors import ConfigError, DataError

Batch = dict[str, np.ndarray]
#: Records that are read in one piece and shuffled among themselves.
WINDOW = 256


class Source(Protocol):
    """Where batches come from."""

    def batches(self, start: int) -> Iterator[Batch]:
        """This host's batches of steps `start`, `start + 1`, … without end."""
        ...


class ShapesSource:
    """Captioned shapes, drawn once and kept encoded in memory."""

    def __init__(self, config: Config, *, count: int = 2048, process: int = 0, processes: int = 1) -> None:
        if config.in_dimensions != (8, 8, 8):
            raise ConfigError("in_dimensions", "must be [8, 8, 8] for the data set `shapes`.")
        drawn = draw_shapes(count, config.seed)
        self.config, self.process, self.processes = config, process, processes
        self.images = PatchPca.shipped().encode(drawn.images)
        self.captions = drawn.captions
        self.context: Batch = {}
        conditioning = config.model.conditioning
        if conditioning.clip_width:
            self.context["clip_emb"] = encode_text(drawn.captions, conditioning.clip_length)
        if "aesth_score" in conditioning.scalars:
            self.context["aesth_score"] = drawn.scores

    def batches(self, start: int) -> Iterator[Batch]:
        local = self.config.train.batch_size
        whole = local * self.processes
        if whole > len(self.images):
            raise DataError(f"A batch of {whole} images is more than the {len(self.images)} that there are.")
        per_epoch = len(self.images) // whole
        order, epoch = np.empty(0, int), -1
        step = start
        while True:
            if step // per_epoch != epoch:
                epoch = step // per_epoch
                order = np.random.default_rng([self.config.seed, epoch]).permutation(len(self.images))
            first = (step % per_epoch) * whole + self.process * local
            chosen = order[first : first + local]
            yield {"image": self.images[chosen]} | {name: v[chosen] for name, v in self.context.items()}
            step += 1


@dataclass(frozen=True)
class _Window:
    shard: str
    first: int
    count: int


def _windows(shard: str, records: int) -> list[_Window]:
    """Pieces of nearly equal length: a short last one would count against every host."""
    edges = np.linspace(0, records, -(-records // WINDOW) + 1).round().astype(int)
    return [_Window(shard, int(a), int(b - a)) for a, b in itertools.pairwise(edges)]


class EncodingSource:
    """Shards that `encode` wrote. Windows of records are dealt out to the hosts; each reads its own in
    pieces."""

    def __init__(self, folder: str, config: Config, *, process: int = 0, processes: int = 1) -> None:
        self.folder, self.config = Folder(folder), config
        self.process, self.processes = process, processes
        names = self.folder.names(SUFFIX)
        if not names:
            raise DataError(f"{folder} holds no {SUFFIX} files; run `encode` into it first.")
        self._places: dict[str, list[tuple[int, int]]] = {}
        for name in names:
            with self.folder.read(name) as file:
                self._places[name] = tfrecord.record_places(file, name)
            if not self._places[name]:
                raise DataError(f"{folder}/{name} is empty; delete it, or encode it again.")
        self._windows = [
            window for name, places in self._places.items() for window in _windows(name, len(places))
        ]
        self.records = sum(len(places) for places in self._places.values())
        self._batches_per_epoch()

    def batches(self, start: int) -> Iterator[Batch]:
        local, per_epoch = self.config.train.batch_size, self._batches_per_epoch()
        step = start
        while True:
            epoch, offset = divmod(step, per_epoch)
            rows = self._records_of(epoch, offset * local)
            for _ in range(per_epoch - offset):
                records = [next(rows) for _ in range(local)]
                yield {name: np.stack([record[name] for record in records]) for name in records[0]}
                step += 1

    def first(self, count: int) -> Batch:
        """Up to `count` records of the first window, the same on every host; for looking at."""
        count = min(count, self._windows[0].count)
        records = list(self._read(self._windows[0], np.arange(count)))
        return {name: np.stack([record[name] for record in records]) for name in records[0]}

    def _batches_per_epoch(self) -> int:
        # Windows are dealt out anew in each epoch; no host ever gets less than the smallest ones together.
        sizes = sorted(window.count for window in self._windows)
        count = sum(sizes[: len(sizes) // self.processes]) // self.config.train.batch_size
        if count < 1:
            raise DataError(
                f"{self.folder.url} has {self.records} records in {len(self._windows)} pieces, too few for a "
                f"batch of {self.config.train.batch_size} on each of {self.processes} hosts."
            )
        return count

    def _records_of(self, epoch: int, skip: int) -> Iterator[Batch]:
        dealt = np.random.default_rng([self.config.seed, epoch]).permutation(len(self._windows))
        for number in dealt[self.process :: self.processes]:
            window = self._windows[number]
            if skip >= window.count:
                skip -= window.count
                continue
            order = np.random.default_rng([self.config.seed, epoch, int(number)]).permutation(window.count)
            yield from self._read(window, order[skip:])
            skip = 0

    def _read(self, window: _Window, order: np.ndarray) -> Iterator[Batch]:
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
            yield decode_record(data, self.config, window.shard)


def open_source(config: Config, folder: str | None, *, process: int = 0, processes: int = 1) -> Source:
    """The source that the configuration names."""
    if config.dataset.name == "shapes" and folder is None:
        return ShapesSource(config, process=process, processes=processes)
    if folder is None:
        raise ConfigError("dataset.name", "needs a folder with encodings; name it on the command line.")
    return EncodingSource(folder, config, process=process, processes=processes)


class Prefetched(Iterator[Batch]):
    """Reads ahead on a thread, at most `ahead` batches. `close` ends the thread; use it as a context."""

    def __init__(
        self, batches: Iterator[Batch], ahead: int = 2, then: Callable[[Batch], Batch] | None = None
    ):
        self._queue: queue.Queue[Batch | BaseException | None] = queue.Queue(maxsize=ahead)
        self._closed = threading.Event()
        self._batches, self._then = batches, then
        self._thread = threading.Thread(target=self._fill, name="ddpm-input", daemon=True)
        self._thread.start()

    def __next__(self) -> Batch:
        item = self._queue.get()
        if isinstance(item, BaseException):
            raise item
        if item is None:
            raise StopIteration
        return item

    def close(self) -> None:
        self._closed.set()
        while self._thread.is_alive():
            try:
                self._queue.get(timeout=0.05)
            except queue.Empty:
                continue

    def __enter__(self) -> Prefetched:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fill(self) -> None:
        last: BaseException | None = None
        try:
            for batch in self._batches:
                self._put(batch if self._then is None else self._then(batch))
                if self._closed.is_set():
                    return
        except BaseException as error:
            last = error
        self._put(last)

    def _put(self, item: Batch | BaseException | None) -> None:
        while not self._closed.is_set():
            try:
                self._queue.put(item, timeout=0.1)
                return
            except queue.Full:
                continue
