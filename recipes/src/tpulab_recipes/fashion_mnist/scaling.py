"""How the time of a step changes with the number of parts that a batch is divided into."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median

from tpulab_recipes.fashion_mnist.data import Images, train_batches
from tpulab_recipes.fashion_mnist.trainer import Trainer


@dataclass(frozen=True)
class Scaling:
    """`step_ms`: median of the measured steps, compilation left out."""

    parts: int
    step_ms: float
    images_per_second: float


def measure_scaling(trainer: Trainer, images: Images, parts: list[int], *, steps: int = 4) -> list[Scaling]:
    """Trains `steps` steps with each number of parts, after one step that compiles.

    All devices take part each time: those that share a part compute the same, as a chip without work of its
    own would. Waits for the device after each step, so that the clock sees the whole of it; a real loop must
    not.
    """
    config, backend = trainer.config, trainer.backend
    found = []
    for count in parts:
        times: list[float] = []
        batches = train_batches(images, config.batch_size, config.seed, epoch=0)
        for number, batch in enumerate(backend.batches(batches, parts=count)):
            backend.sync()
            began = time.perf_counter()
            trainer.train_step(batch)
            backend.sync()
            if number > 0:
                times.append(time.perf_counter() - began)
            if len(times) == steps:
                break
        step_s = median(times)
        found.append(Scaling(count, 1e3 * step_s, config.batch_size / step_s))
    return found


def replicas_are_equal(trainer: Trainer) -> bool:
    """Whether every device of this process holds the same bits of every parameter."""
    for parameter in trainer.model.parameters():
        first, *others = trainer.backend.shards(parameter)
        if any(other.tobytes() != first.tobytes() for other in others):
            return False
    return True
