"""Batches for training. What step N reads depends on the seed, N and the number of hosts alone, so that a
resumed run reads exactly what it would have read.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tpulab_recipes.common.errors import ConfigError, DataError
from tpulab_recipes.common.interruption import ended_by_parent
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.data.encodings import EncodingShards
from tpulab_recipes.ddpm.data.shapes import draw_shapes
from tpulab_recipes.ddpm.data.small_encoders import PatchPca, encode_text

Batch = dict[str, np.ndarray]


class Source(Protocol):
    """Where batches come from."""

    def batches(self, start: int) -> Iterator[Batch]:
        """This host's batches of steps `start`, `start + 1`, … without end."""
        ...

    def describe(self) -> dict[str, Any]:
        """`source`: a name for people; `records`: their number; `fingerprint`: changes with the records."""
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

    def describe(self) -> dict[str, Any]:
        fingerprint = zlib.crc32(f"shapes {len(self.images)}".encode())
        return {
            "source": "the built-in drawings",
            "records": len(self.images),
            "fingerprint": fingerprint,
        }

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
    """Records to read during training."""

    rows: Batch
    captions: list[str]
    #: False: training reads them too.
    held_out: bool


class EncodingSource:
    """Shards that `encode` wrote, read in an order that is drawn over all of them: shards may be sorted by
    what they show, as those of ImageNet are. The hosts share out each epoch without overlap.

    Held out are the last records of each shard, or a separate folder: whatever the seed, the number of
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
        is_held_out: list[np.ndarray] = []
        for records in self._shards.counts:
            # 0.1 * 30 is slightly more than 3 in floating point.
            kept = 0 if elsewhere else math.ceil(round(share * records, 6))
            is_held_out.append(np.arange(records) >= records - kept)
        self._trained_on, self._held_out = (
            np.flatnonzero(which) for which in (~np.concatenate(is_held_out), np.concatenate(is_held_out))
        )
        self.records = sum(self._shards.counts)
        if self.batches_per_epoch < 1:
            raise DataError(
                f"{folder} has {self.records} records ({self.held_out_text}), too few for a batch of "
                f"{config.train.batch_size} on each of {processes} hosts."
            )

    def describe(self) -> dict[str, Any]:
        fingerprint = self._shards.fingerprint()
        return {"source": self._shards.folder.url, "records": self.records, "fingerprint": fingerprint}

    @property
    def batches_per_epoch(self) -> int:
        """Batches of each host until all records have been read, except for an incomplete last batch."""
        return len(self._trained_on) // (self.config.train.batch_size * self.processes)

    def batches(self, start: int) -> Iterator[Batch]:
        import absl.flags
        import grain

        local, dataset = self.config.train.batch_size, self.config.dataset
        # Each epoch has its own order, and leaves out different records.
        whole = self.batches_per_epoch * local * self.processes
        order = grain.MapDataset.range(len(self._trained_on)).shuffle(seed=self.config.seed)[:whole]
        mine = order[self.process :: self.processes].batch(local).repeat()[start:].map(self._read)
        ahead = grain.ReadOptions(num_threads=dataset.read_ahead, prefetch_buffer_size=dataset.read_ahead)
        batches = mine.to_iter_dataset(ahead)
        if dataset.read_workers:
            # grain reads absl's flags, which are not parsed in a notebook.
            if not absl.flags.FLAGS.is_parsed():
                absl.flags.FLAGS.mark_as_parsed()
            batches = batches.mp_prefetch(grain.MultiprocessingOptions(num_workers=dataset.read_workers))
        with closing(iter(batches)) as reader:
            with ended_by_parent() if dataset.read_workers else nullcontext():
                first = next(reader)  # Starts the workers.
            yield first
            yield from reader

    def _read(self, places: np.ndarray) -> Batch:
        return self._shards.read(self._trained_on[places])

    def examples(self, count: int) -> Examples:
        """Up to `count` records that training does not read, the same on every host; where nothing is held
        out, records that it reads."""
        elsewhere = self.config.dataset.held_out_dir
        held_out = bool(elsewhere) or len(self._held_out) > 0
        shards = EncodingShards(elsewhere, self.config) if elsewhere else self._shards
        those = None if elsewhere else self._held_out if held_out else self._trained_on
        numbers = shards.spread(count, those)
        return Examples(shards.read(numbers), shards.captions(numbers), held_out)

    @property
    def held_out_text(self) -> str:
        """Describes the held-out data, for people."""
        elsewhere = self.config.dataset.held_out_dir
        if elsewhere:
            return f"held out: what {elsewhere} holds"
        count = len(self._held_out)
        return f"held out: {count} of {self.records} records" if count else "nothing is held out"


def open_source(
    config: Config, folder: str | None, *, process: int | None = None, processes: int | None = None
) -> Source:
    """The source that the configuration names: the part of this host by default."""
    if process is None or processes is None:
        import jax

        process, processes = jax.process_index(), jax.process_count()
    if config.dataset.name == "shapes" and folder is None:
        return ShapesSource(config, process=process, processes=processes)
    if folder is None:
        raise ConfigError("dataset.name", "needs a folder with encodings; name it on the command line.")
    return EncodingSource(folder, config, process=process, processes=processes)
