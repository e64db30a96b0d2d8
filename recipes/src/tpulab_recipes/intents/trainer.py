"""BERT with AdamW, warm-up and linear decay on a backend: one program for training, one for evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.intents.config import BERT_BASE, Config
from tpulab_recipes.intents.data import Encoded, eval_batches
from tpulab_recipes.runtime import Backend
from tpulab_recipes.torch_training import Resumable, compiled_step, make_adamw, set_learning_rate
from tpulab_recipes.torch_training.learning_rate import fitting_warmup
from tpulab_recipes.torch_training.pretrained import loaded


def make_model(config: Config, names: tuple[str, ...], vocabulary: int, length: int) -> Any:
    """A sentence classifier of `transformers`: of random weights and small, or as `config.model` says."""
    from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification

    labels = {"id2label": dict(enumerate(names)), "label2id": {name: n for n, name in enumerate(names)}}
    if config.model == BERT_BASE:
        # The defaults of transformers are the configuration of bert-base-uncased: 12 layers of 768. A smaller
        # vocabulary uses the first of its 30,522 entries.
        return BertForSequenceClassification(BertConfig(num_labels=len(names), **labels))
    if config.model:
        kind = AutoModelForSequenceClassification
        return loaded(
            "model", config.model, lambda place: kind.from_pretrained(place, num_labels=len(names), **labels)
        )
    small = BertConfig(
        vocab_size=vocabulary,
        hidden_size=config.hidden,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        intermediate_size=4 * config.hidden,
        max_position_embeddings=length,
        num_labels=len(names),
        **labels,
    )
    return BertForSequenceClassification(small)


def prepared_mask(mask: Any) -> Any:
    """[sentence, token] of ones and zeros to bool [sentence, 1, 1, token], which attention takes as it is.

    Of a mask with two axes `transformers` asks whether it is all ones, to leave it out: it reads a value back
    at every step, and makes a second program for batches without padding.
    """
    return mask[:, None, None, :].bool()


def rate_at(config: Config, step: int, total_steps: int) -> float:
    """Share of the peak learning rate at a step (from 0): up to 1 over the warm-up, then linear down to 0 at
    the end."""
    warmup = fitting_warmup(config.warmup_steps, total_steps)
    if step < warmup:
        return (step + 1) / warmup
    return max(0.0, (total_steps - step) / max(1, total_steps - warmup))


@dataclass(frozen=True)
class Evaluation:
    """`predicted`, `labels`: int [sentence]."""

    predicted: NDArray[np.int64]
    labels: NDArray[np.int32]

    @property
    def accuracy(self) -> float:
        return float((self.predicted == self.labels).mean())

    @property
    def weighted_f1(self) -> float:
        """F1 of each intent, weighted by how many sentences have it (scikit-learn's definition)."""
        from sklearn.metrics import f1_score

        return float(f1_score(self.labels, self.predicted, average="weighted", zero_division=0))


class Trainer(Resumable):
    """Owns model and optimizer. `total_steps` fixes the schedule of the learning rate."""

    def __init__(self, config: Config, model: Any, backend: Backend, total_steps: int) -> None:
        self.config, self.backend, self.total_steps, self.steps_done = config, backend, total_steps, 0
        self.peak: float = config.learning_rate
        self.model: Any = backend.prepare(model)  # type: ignore[attr-defined]
        self.optimizer = make_adamw(
            backend,  # type: ignore[arg-type]
            self.model,
            learning_rate=config.learning_rate,
            weight_decay=config.weight_decay,
        )
        self._predict = backend.compile(self.predict, name="eval_step")
        backend.sync()

    @property
    def learning_rate(self) -> float:
        """Of the next step."""
        return self.peak * rate_at(self.config, self.steps_done, self.total_steps)

    def before_step(self) -> None:
        """The rate is written into a tensor, and so is no constant of the program."""
        self.rate = self.learning_rate
        set_learning_rate(self.backend, self.optimizer, self.rate)

    @compiled_step
    def train_step(self, batch: Any) -> Any:
        """One update with a batch on the device; returns its mean loss, still on the device."""
        with self.backend.precision(self.config.precision):
            loss = self._logits_and_loss(batch)[1]
        loss.backward()
        self.backend.optimizer_step(self.optimizer)  # type: ignore[attr-defined]
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def evaluate(self, data: Encoded, *, batch_size: int | None = None) -> Evaluation:
        """Reads every sentence once; padding rows of the last batch are dropped."""
        self.model.eval()
        rows = []
        for batch in self.backend.batches(eval_batches(data, batch_size or self.config.batch_size)):
            rows.append(self._predict(batch))
        predicted = np.concatenate([np.asarray(part) for part in self.backend.to_host(rows)])
        return Evaluation(predicted[: len(data)].astype(np.int64), data.labels)

    @torch.no_grad()
    def predict(self, batch: Any) -> Any:
        """Intents [sentence]."""
        with self.backend.precision(self.config.precision):
            return self._logits_and_loss(batch)[0].argmax(dim=-1)

    def state(self) -> dict[str, Any]:
        return super().state() | {"peak": self.peak}

    def load_state(self, state: dict[str, Any]) -> None:
        """As `Resumable`; with more epochs the learning rate falls to the new end from there on. Raises
        `ConfigError` for a checkpoint beyond the last step."""
        super().load_state(state)
        if self.steps_done > self.total_steps:
            raise ConfigError(
                "epochs",
                f"{self.config.epochs} are {self.total_steps:,} steps, and the checkpoint has "
                f"{self.steps_done:,}: set more epochs, or use another folder.",
            )
        self.peak = float(state["peak"])

    def _logits_and_loss(self, batch: Any) -> tuple[Any, Any]:
        mask = prepared_mask(batch["attention_mask"])
        logits = self.model(input_ids=batch["input_ids"], attention_mask=mask).logits
        return logits, torch.nn.functional.cross_entropy(logits.float(), batch["labels"].long())
