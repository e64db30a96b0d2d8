"""The classifier with its optimizer on a backend: one program for training, one for evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tpulab_recipes.fashion_mnist.alexnet import AlexNet
from tpulab_recipes.fashion_mnist.config import CLASS_NAMES, Config
from tpulab_recipes.fashion_mnist.data import Images, eval_batches
from tpulab_recipes.fashion_mnist.images import (
    IMAGENET_DEVIATION,
    IMAGENET_MEAN,
    enlarging_matrix,
    prepare_images,
)
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


class Trainer(Resumable):
    """Owns model and optimizer. Seeds everything, so that equal settings give equal first weights."""

    def __init__(self, config: Config, backend: Backend) -> None:
        self.config, self.backend, self.steps_done = config, backend, 0
        backend.seed(config.seed)
        self.model: Any = backend.prepare(  # type: ignore[attr-defined]
            AlexNet(len(CLASS_NAMES), width=config.width, dropout=config.dropout)
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
        """One update with a batch on the device (`pixels`, `labels`); answers its mean loss, still on the
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
