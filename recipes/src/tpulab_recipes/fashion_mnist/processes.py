"""The data of one of several processes: its rows to train on, as `DistributedSampler` divides them, and its
share of the test. Notebook 02 starts two; `runtime` averages their gradients."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tpulab_recipes.fashion_mnist.config import Config
from tpulab_recipes.fashion_mnist.data import Batch, Images
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
