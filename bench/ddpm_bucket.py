"""Reading encodings from a store with latency: the time until the first batch of a million records, and the
batches per second with text states.

Run in the environment `jax`: `python bench/ddpm_bucket.py [--json FILE]`. The store is in memory; every
request waits `--latency-ms` and then gets its bytes at `--megabytes` per second, as from a storage bucket.
Records are those of `cifar10` and of `laion256` (latents of 32 x 32, text states of CLIP and T5 with 30
tokens); the first section reads a million small records, because only their number matters.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import fsspec
import numpy as np
from fsspec.asyn import AsyncFileSystem

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "recipes" / "src"))

from tpulab_recipes.ddpm.config import Config, context_shapes  # noqa: E402
from tpulab_recipes.ddpm.data.encodings import encode_record  # noqa: E402
from tpulab_recipes.ddpm.data.pipeline import EncodingSource  # noqa: E402
from tpulab_recipes.ddpm.presets import load_config  # noqa: E402
from tpulab_recipes.images.tfrecord import TAIL_BYTES, write_record  # noqa: E402
from tpulab_recipes.runtime.prefetch import prefetched  # noqa: E402

#: Tokens per caption.
TOKENS = 30


class SlowStore(AsyncFileSystem):  # type: ignore[misc]
    """A store of shards that repeat the same record, so that a million fit in memory."""

    protocol = "slow"
    cachable = False
    latency_s, bytes_per_s = 0.05, 100e6
    record, shards, per_shard = b"", 0, 0
    requests, read = 0, 0

    def _content(self, path: str, start: int | None, end: int | None) -> bytes:
        name = path.rpartition("/")[2]
        if name.endswith(".json"):
            data = len(self.record) - 12 - TAIL_BYTES
            shard = name.replace(".json", "-000.tfrecord")
            return json.dumps({"lengths": {shard: [data] * self.per_shard}}).encode()[start:end]
        start, end = start or 0, end if end is not None else len(self.record) * self.per_shard
        first = start // len(self.record)
        copies = -(-end // len(self.record)) - first
        return (self.record * copies)[start - first * len(self.record) :][: end - start]

    async def _wait(self, size: int) -> None:
        type(self).requests += 1
        type(self).read += size
        await asyncio.sleep(self.latency_s + size / self.bytes_per_s)

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        found = self._content(path, start, end)
        await self._wait(len(found))
        return found

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        names = [f"encodings-{shard:05d}" for shard in range(self.shards)]
        found = [f"{path.rstrip('/')}/{name}{end}" for name in names for end in (".json", "-000.tfrecord")]
        # A listing page has a thousand names.
        for _page in range(-(-len(found) // 1000)):
            await self._wait(100_000)
        return [{"name": name, "size": 0, "type": "file"} for name in found] if detail else found


def record_of(config: Config, *, tokens: int = TOKENS) -> bytes:
    """One record of random numbers, with its frame."""
    import io

    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {"image": rng.standard_normal(config.in_dimensions)}
    for name, shape in context_shapes(config.model.conditioning).items():
        arrays[name] = rng.standard_normal((min(tokens, shape[0]), *shape[1:]) if len(shape) == 2 else shape)
    buffer = io.BytesIO()
    write_record(buffer, encode_record(arrays, "a caption"))
    return buffer.getvalue()


def first_batch(records: int) -> dict[str, float]:
    config = load_config("small").but({"dataset.name": "encodings", "train.batch_size": 256})
    SlowStore.record = record_of(config)
    SlowStore.per_shard, SlowStore.shards = 10_000, records // 10_000
    SlowStore.requests = SlowStore.read = 0
    began = time.perf_counter()
    source = EncodingSource("slow://bucket/data", config)
    source.describe()
    opened = time.perf_counter()
    batches = source.batches(0)
    next(batches)
    ended = time.perf_counter()
    batches.close()
    return {
        "records": float(source.records),
        "openS": opened - began,
        "firstBatchS": ended - began,
        "requests": float(SlowStore.requests),
        "megabytes": SlowStore.read / 1e6,
    }


def batch_rate(preset: str, workers: int | None, seconds: float) -> dict[str, float]:
    """Milliseconds per batch of 256, and this process's CPU time for it."""
    config = load_config(preset).but({"train.batch_size": 256})
    if workers is not None:
        config = config.but({"dataset.read_workers": workers})
    SlowStore.record = record_of(config)
    SlowStore.per_shard, SlowStore.shards = 1_000, 8
    with prefetched(EncodingSource("slow://bucket/data", config).batches(0), 2) as batches:
        for _ in range(3):
            next(batches)
        count, began, ran = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - began < seconds:
            next(batches)
            count += 1
        took, used = time.perf_counter() - began, time.process_time() - ran
    return {
        "recordKb": len(SlowStore.record) / 1e3,
        "workers": float(config.dataset.read_workers),
        "batchMs": took / count * 1e3,
        "batchCpuMs": used / count * 1e3,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--latency-ms", type=float, default=50)
    parser.add_argument("--megabytes", type=float, default=100, help="a second, for each request")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    SlowStore.latency_s, SlowStore.bytes_per_s = options.latency_ms / 1e3, options.megabytes * 1e6
    fsspec.register_implementation("slow", SlowStore, clobber=True)
    out = sys.stdout.write
    figures: dict[str, Any] = {"cores": len(os.sched_getaffinity(0)), "latencyMs": options.latency_ms}
    figures["first"] = first_batch(options.records)
    out(f"first batch: {figures['first']}\n")
    figures["rate"] = {}
    for preset in ("cifar10", "laion256"):
        figures["rate"][preset] = batch_rate(preset, None, options.seconds)
        out(f"{preset}: {figures['rate'][preset]}\n")
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
