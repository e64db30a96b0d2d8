"""ResNet18 with SGD on a backend, and its made-up batches, with or without a mistake."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tpulab_recipes.resnet_profiling.config import Config, Mistake
from tpulab_recipes.resnet_profiling.resnet import ResNet18
from tpulab_recipes.runtime import Backend
from tpulab_recipes.torch_training import create_optimizer_state, set_learning_rate, use_tensor_learning_rate

Batch = dict[str, NDArray[Any]]


class Trainer:
    """Owns model and optimizer; one update is one call of `train_step`."""

    def __init__(self, config: Config, backend: Backend) -> None:
        self.config, self.backend = config, backend
        backend.seed(config.seed)
        self.model: Any = backend.prepare(ResNet18(width=config.width))  # type: ignore[attr-defined]
        self.model.train()
        self.optimizer = torch.optim.SGD(
            self.model.parameters(),
            lr=config.learning_rate,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
        )
        use_tensor_learning_rate(backend, self.optimizer)
        create_optimizer_state(self.optimizer)
        self.train_step = backend.compile(self.train_step)  # type: ignore[method-assign]
        backend.sync()

    def set_learning_rate(self, value: Any) -> None:
        """Takes effect with the next step and compiles nothing."""
        set_learning_rate(self.backend, self.optimizer, value)

    def train_step(self, batch: Any) -> Any:
        """One update with a batch on the device (`images`, `labels`); returns its mean loss, still on the
        device."""
        loss = torch.nn.functional.nll_loss(self.model(batch["images"]), batch["labels"].long())
        loss.backward()
        self.backend.optimizer_step(self.optimizer)  # type: ignore[attr-defined]
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


def made_up_batches(config: Config, steps: int) -> Iterator[Batch]:
    """`steps` batches of zeros with label 0: reading data costs nothing, so a profile shows only the
    program."""
    images = np.zeros((config.batch_size, 3, 32, 32), np.float32)
    labels = np.zeros(config.batch_size, np.int32)
    for _ in range(steps):
        yield {"images": images, "labels": labels}


def steps_in_epoch(config: Config) -> int:
    """Number of whole batches in one pass over the made-up training images."""
    return config.train_images // config.batch_size


def batches_with_mistake(
    config: Config, steps: int, mistake: Mistake, *, input_s: float = 0.2
) -> Iterator[Batch]:
    """The same batches, spoiled on purpose.

    `slow-input` takes `input_s` seconds for each batch; `changing-shapes` makes every third batch one row
    smaller than the one of that kind before. `sync-each-step` is a mistake of the loop, not of the batches
    (`loss.item()`).
    """
    for number, batch in enumerate(made_up_batches(config, steps)):
        if mistake == "slow-input":
            time.sleep(input_s)
        if mistake == "changing-shapes" and number % 3 == 2:
            rows = config.batch_size - 1 - number // 3
            if rows < 1:
                raise ValueError(
                    f"{steps} steps make more shapes than a batch of {config.batch_size} rows has."
                )
            batch = {name: array[:rows] for name, array in batch.items()}
        yield batch
