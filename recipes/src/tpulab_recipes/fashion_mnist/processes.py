"""The older way to use many cores with PyTorch/XLA: one process for each device, gradients averaged between
them.

One program over all devices (notebook 02) is simpler and is what a notebook should use; this is here for code
that still works so. Each process reads its own rows, as a `DistributedSampler` says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tpulab_recipes import runtime
from tpulab_recipes.fashion_mnist.config import Config
from tpulab_recipes.fashion_mnist.data import Batch, Images, load
from tpulab_recipes.fashion_mnist.trainer import Trainer
from tpulab_recipes.runtime import World


def rows_of_process(images: Images, world: World, seed: int, epoch: int) -> np.ndarray:
    """Numbers of the rows that this process trains on: all processes together see each once (some twice, to
    fill up)."""
    from torch.utils.data import DistributedSampler

    sampler = DistributedSampler(
        range(len(images)),
        num_replicas=world.process_count,
        rank=world.process_index,
        shuffle=True,
        seed=seed,
    )
    sampler.set_epoch(epoch)
    return np.fromiter(sampler, np.int64)


def batches_of_process(images: Images, config: Config, world: World, epoch: int) -> Iterator[Batch]:
    """Batches of `batch_size` rows for each process; a ragged rest is left out."""
    rows = rows_of_process(images, world, config.seed, epoch)
    for start in range(0, len(rows) - config.batch_size + 1, config.batch_size):
        chosen = rows[start : start + config.batch_size]
        yield {"pixels": images.pixels[chosen], "labels": images.labels[chosen].astype(np.int32)}


def correct_of_process(trainer: Trainer, images: Images, world: World) -> tuple[int, int]:
    """How many images of this process's share it reads correctly, and how many it read. The shares do not
    overlap."""
    mine = slice(world.process_index, None, world.process_count)
    share = Images(images.pixels[mine], images.labels[mine])
    found = trainer.evaluate(share)
    return int((found.predicted == share.labels).sum()), len(share)


def train_in_process(index: int, folder: str, report: str, config: Config) -> None:
    """What each process does: train, evaluate its share, and let the main one write the figures of all to
    `report`."""
    backend = runtime.use("torch_xla")
    world = backend.world()
    trainer, train = Trainer(config, backend), load(folder, "train")
    losses = []
    for epoch in range(config.epochs):
        for batch in backend.batches(batches_of_process(train, config, world, epoch)):
            losses.append(trainer.train_step(batch))
    backend.sync()
    correct, read = correct_of_process(trainer, load(folder, "test"), world)
    sums = backend.reduce_metrics({"correct": correct, "read": read}, how="sum")
    loss = backend.reduce_metrics({"loss": losses[-1]})["loss"]
    if world.is_main:
        figures = {"processes": world.process_count, "accuracy": sums["correct"] / sums["read"], "loss": loss}
        Path(report).write_text(json.dumps({**figures, "index": index, "read": sums["read"]}))
