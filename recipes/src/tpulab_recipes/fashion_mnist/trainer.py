"""The classifier with its optimizer on a backend: one program for training, one for evaluation; and how the
time of a step changes with the number of parts that a batch is divided into."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tpulab_recipes.fashion_mnist.alexnet import (
    IMAGENET_DEVIATION,
    IMAGENET_MEAN,
    AlexNet,
    enlarging_matrix,
    prepare_images,
)
from tpulab_recipes.fashion_mnist.config import CLASS_NAMES, Config
from tpulab_recipes.fashion_mnist.data import Images, eval_batches, train_batches
from tpulab_recipes.runtime import Backend
from tpulab_recipes.torch_training import (
    Resumable,
    compiled_step,
    create_optimizer_state,
    set_learning_rate,
    use_tensor_learning_rate,
)


@dataclass(frozen=True)
class Evaluation:
    """`predicted`: int [image]. `confusion`: int [true class, predicted class]."""

    predicted: NDArray[np.int64]
    labels: NDArray[np.uint8]
    loss: float

    @property
    def accuracy(self) -> float:
        return float((self.predicted == self.labels).mean())

    @property
    def confusion(self) -> NDArray[np.int64]:
        counts = np.zeros((len(CLASS_NAMES), len(CLASS_NAMES)), np.int64)
        np.add.at(counts, (self.labels, self.predicted), 1)
        return counts


@dataclass(frozen=True)
class Scaling:
    """`step_ms`: median of the measured steps, compilation left out."""

    parts: int
    step_ms: float
    images_per_second: float


class Trainer(Resumable):
    """Owns model and optimizer. Seeds everything, so that equal settings give equal first weights."""

    def __init__(self, config: Config, backend: Backend, *, shard: bool = False) -> None:
        self.config, self.backend, self.steps_done = config, backend, 0
        backend.seed(config.seed)
        self.model: Any = backend.prepare(  # type: ignore[attr-defined]
            AlexNet(len(CLASS_NAMES), width=config.width, dropout=config.dropout), shard=shard
        )
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=config.learning_rate)
        use_tensor_learning_rate(backend, self.optimizer)
        create_optimizer_state(self.optimizer)
        channels = (3, 1, 1)
        self._enlarge = backend.replicate(enlarging_matrix(config.image_size))
        self._mean = backend.replicate(np.array(IMAGENET_MEAN, np.float32).reshape(channels))
        self._deviation = backend.replicate(np.array(IMAGENET_DEVIATION, np.float32).reshape(channels))
        self._read = backend.compile(self.read, name="eval_step")
        backend.sync()

    @property
    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())

    def set_learning_rate(self, value: Any) -> None:
        """Takes effect with the next step and compiles nothing."""
        set_learning_rate(self.backend, self.optimizer, value)

    @compiled_step
    def train_step(self, batch: Any) -> Any:
        """One update with a batch on the device (`pixels`, `labels`); returns its mean loss, still on the
        device."""
        loss = self._loss(batch["pixels"], batch["labels"]).mean()
        loss.backward()
        self.backend.optimizer_step(self.optimizer)  # type: ignore[attr-defined]
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def evaluate(self, images: Images, *, batch_size: int | None = None) -> Evaluation:
        """Reads every image once; a ragged last batch counts only its own rows."""
        self.model.eval()
        predicted, losses = [], []
        for batch in self.backend.batches(eval_batches(images, batch_size or self.config.batch_size)):
            classes, loss = self._read(batch)
            predicted.append(classes)
            losses.append(loss)
        rows = np.concatenate([np.asarray(part) for part in self.backend.to_host(predicted)])
        total = sum(float(part) for part in self.backend.to_host(losses))
        return Evaluation(rows[: len(images)].astype(np.int64), images.labels, total / len(images))

    def predict(self, pixels: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Classes [image] of bytes [image, 28, 28], read in batches of the usual size."""
        return self.evaluate(Images(pixels, np.zeros(len(pixels), np.uint8))).predicted

    def _loss(self, pixels: Any, labels: Any) -> Any:
        """Cross-entropy of each image [image]."""
        with self.backend.precision(self.config.precision):
            logits = self.model(prepare_images(pixels, self._enlarge, self._mean, self._deviation))
        return torch.nn.functional.cross_entropy(logits.float(), labels.long(), reduction="none")

    @torch.no_grad()
    def read(self, batch: Any) -> tuple[Any, Any]:
        """Classes [image], and the sum of the losses of the rows that count."""
        with self.backend.precision(self.config.precision):
            logits = self.model(prepare_images(batch["pixels"], self._enlarge, self._mean, self._deviation))
        losses = torch.nn.functional.cross_entropy(logits.float(), batch["labels"].long(), reduction="none")
        return logits.argmax(dim=-1), (losses * batch["counts"]).sum()


def measure_scaling(trainer: Trainer, images: Images, parts: list[int], *, steps: int = 4) -> list[Scaling]:
    """Trains `steps` steps with each number of parts, after one step that compiles.

    All devices take part each time: those that share a part compute the same, as a chip without its own work
    would. Waits for the device after each step, so that the clock sees the whole of it; a real loop must
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
