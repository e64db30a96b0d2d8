"""Fine-tuning: one program for training, one for evaluation, whatever the lengths of the clips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tpulab_recipes.dia.config import Config
from tpulab_recipes.dia.data import IGNORED, Clip, Layout, eval_batches
from tpulab_recipes.dia.model import LORA_TARGETS, make_static
from tpulab_recipes.runtime.precision import full_precision
from tpulab_recipes.torch_training import (
    Resumable,
    ScannedLayers,
    add_lora,
    average_of,
    backward_in_parts,
    compiled_step,
    core_of,
    load_saved_weights,
    make_adamw,
    saved_weights,
    set_learning_rate,
    warmup_cosine,
)


def loss_sum(model: Any, batch: dict[str, Any], first_weight: float = 1.0) -> Any:
    """Cross-entropy, summed over all labels that count, those of the first channel `first_weight` times.
    Norms and the head compute in float32."""
    core = core_of(model)
    hidden = core.model(
        input_ids=batch["input_ids"],
        attention_mask=batch["attention_mask"],
        decoder_input_ids=batch["decoder_input_ids"],
        use_cache=False,
    )[0]
    with full_precision(hidden):
        logits = core.logits_dense(hidden.float())
    labels = batch["labels"].long()
    logits = logits.reshape(labels.numel(), -1)
    entropy = torch.nn.functional.cross_entropy
    if first_weight == 1:
        return entropy(logits, labels.flatten(), ignore_index=IGNORED, reduction="sum")
    losses = entropy(logits, labels.flatten(), ignore_index=IGNORED, reduction="none").view(labels.shape)
    return losses.sum() + (first_weight - 1) * losses[..., 0].sum()


def label_count(labels: Any, first_weight: float = 1.0) -> Any:
    """Total weight of the labels that count, Float[]."""
    counted = (labels != IGNORED).float()
    return counted.sum() + (first_weight - 1) * counted[..., 0].sum()


class Trainer(Resumable):
    """Owns model and optimizer. `total_steps` fixes the schedule of the learning rate."""

    def __init__(self, config: Config, model: Any, backend: Any, total_steps: int) -> None:
        self.config, self.backend, self.total_steps, self.steps_done = config, backend, total_steps, 0
        self.peak: float = config.peak
        self.layout = Layout.of(model.config)
        model = make_static(model)
        scanned = config.scan_layers and backend.scan is not None
        halves = model.model.encoder, model.model.decoder
        for half in halves:
            for layer in half.layers:
                layer.register_forward_hook(lambda _, __, out: backend.divide_rows(out))
        if config.remat and not scanned:
            model._set_gradient_checkpointing(True, backend.recompute)
            for embedding in (model.model.encoder.embedding, model.model.decoder.embeddings):
                # Where embeddings are frozen (LoRA), recomputed layers would not pass gradients on.
                embedding.register_forward_hook(lambda _, __, out: out.requires_grad_())
        if config.lora_rank:
            model = add_lora(model, config.lora_rank, LORA_TARGETS)
        for half in halves if scanned else ():
            half.layers = ScannedLayers(half.layers, backend.scan, remat=config.remat)
        self.model: Any = backend.prepare(model, shard=config.shard)
        self.optimizer = make_adamw(
            backend,
            self.model,
            learning_rate=config.peak,
            weight_decay=config.weight_decay,
            betas=(0.9, 0.95),
            clip_norm=config.clip_norm,
        )
        self.average = average_of(backend, self.model, shard=config.shard) if config.ema else None
        self._count = backend.compile(self.losses, name="eval_step")
        backend.sync()

    def before_step(self) -> None:
        """The rate is written into a tensor, and so is no constant of the program."""
        self.rate = self.peak * warmup_cosine(self.steps_done, self.config.warmup_steps, self.total_steps)
        set_learning_rate(self.backend, self.optimizer, self.rate)

    @compiled_step
    def train_step(self, batch: Any) -> Any:
        """One update with a batch on the device; returns its mean loss, still on the device."""
        weight = self.config.first_channel_weight
        # Of all processes: the mean over all labels is not the mean of their means.
        counted = self.backend.mean_over_processes(label_count(batch["labels"], weight))  # type: ignore[attr-defined]
        counted = counted.clamp(min=1)

        def share_of_loss(part: dict[str, Any]) -> Any:
            with self.backend.precision(self.config.precision):
                return loss_sum(self.model, part, weight) / counted

        loss = backward_in_parts(share_of_loss, batch, self.config.grad_accum_steps)
        self.backend.optimizer_step(self.optimizer)  # type: ignore[attr-defined]
        self.optimizer.zero_grad(set_to_none=True)
        if self.average is not None:
            with torch.no_grad():
                for kept, new in zip(self.average.parameters(), self.model.parameters(), strict=True):
                    if kept is not new:
                        kept.lerp_(new, 1 - self.config.ema)
        return loss

    @property
    def trained(self) -> Any:
        """The model to evaluate and to export: the running average where there is one."""
        return self.model if self.average is None else self.average

    def evaluate(self, clips: Sequence[Clip]) -> float:
        """Mean cross-entropy of the clips' codes, with their texts."""
        self.trained.eval()
        batches = self.backend.batches(eval_batches(clips, self.config, self.layout))
        totals, counts = zip(*self.backend.to_host([self._count(batch) for batch in batches]), strict=True)
        return sum(map(float, totals)) / sum(map(float, counts))

    @torch.no_grad()
    def losses(self, batch: Any) -> Any:
        """Summed loss, and the number of labels that count."""
        with self.backend.precision(self.config.precision):
            return loss_sum(self.trained, batch), (batch["labels"] != IGNORED).sum()

    def state(self) -> dict[str, Any]:
        average = {}
        if self.average is not None:
            average = {"average": self.backend.to_host(saved_weights(self.average))}
        return super().state() | {"peak": self.peak} | average

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self.peak = float(state["peak"])
        if self.average is not None:
            load_saved_weights(self.average, state["average"])
            self.backend.sync()

    def load_weights(self, state: dict[str, Any]) -> None:
        """Loads only the weights of a checkpoint, to export them."""
        load_saved_weights(self.model, state["model"])
        if self.average is not None:
            load_saved_weights(self.average, state["average"])
