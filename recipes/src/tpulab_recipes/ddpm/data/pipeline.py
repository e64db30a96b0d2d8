"""Batches for training. What step N reads depends on the seed, N and the number of hosts alone, so that a
run that goes on reads exactly what it would have read.
"""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.data.encoding_shards import EncodingShards, Window, windows
from tpulab_recipes.ddpm.data.shapes import draw_shapes
from tpulab_recipes.ddpm.data.small_encoders import PatchPca, encode_text
from tpulab_recipes.ddpm.data.storage import Folder
from tpulab_recipes.ddpm.errors import ConfigError, DataError

Batch = dict[str, np.ndarray]


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
class Examples:
    """Records to look at while training goes on."""

    rows: Batch
    #: False: training reads them too.
    held_out: bool


class EncodingSource:
    """Shards that `encode` wrote. Windows of records are dealt out to the hosts; each reads its own in
    pieces.

    Held out are the last records of each shard, or a folder of their own: whatever the seed, the number of
    hosts and the shards that are added later, a record that was held out stays so.
    """

    def __init__(self, folder: str, config: Config, *, process: int = 0, processes: int = 1) -> None:
        self.config, self.process, self.processes = config, process, processes
        self._shards = EncodingShards(folder, config)
        share, elsewhere = config.dataset.held_out_share, config.dataset.held_out_dir
        if elsewhere and Folder(elsewhere).path("") == self._shards.folder.path(""):
            raise ConfigError(
                "dataset.held_out_dir", f"{elsewhere} is the folder that training reads; name another."
            )
        self._windows: list[Window] = []
        self._held_out: list[Window] = []
        for name, records in self._shards.counts.items():
            # 0.1 times 30 is a little more than 3 in binary.
            kept = 0 if elsewhere else math.ceil(round(share * records, 6))
            self._windows += windows(name, records - kept)
            self._held_out += [Window(name, records - kept, kept)] if kept else []
        self.records = sum(self._shards.counts.values())
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

    def examples(self, count: int) -> Examples:
        """Up to `count` records that training does not read, the same on every host; where nothing is held
        out, of those that it reads."""
        elsewhere = self.config.dataset.held_out_dir
        if elsewhere:
            shards = EncodingShards(elsewhere, self.config)
            whole = [Window(name, 0, records) for name, records in shards.counts.items()]
            return Examples(shards.spread(whole, count), held_out=True)
        among = self._held_out or self._windows
        return Examples(self._shards.spread(among, count), held_out=bool(self._held_out))

    @property
    def held_out_words(self) -> str:
        """What is held out, for people."""
        elsewhere = self.config.dataset.held_out_dir
        if elsewhere:
            return f"held out: what {elsewhere} holds"
        count = sum(window.count for window in self._held_out)
        return f"held out: {count} of {self.records} records" if count else "nothing is held out"

    def _batches_per_epoch(self) -> int:
        # Windows are dealt out anew in each epoch; no host ever gets less than the smallest ones together.
        sizes = sorted(window.count for window in self._windows)
        count = sum(sizes[: len(sizes) // self.processes]) // self.config.train.batch_size
        if count < 1:
            raise DataError(
                f"{self._shards.folder.url} has {self.records} records in {len(self._windows)} pieces "
                f"({self.held_out_words}), too few for a batch of {self.config.train.batch_size} on each of "
                f"{self.processes} hosts."
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
            yield from self._shards.read(window, order[skip:])
            skip = 0


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
