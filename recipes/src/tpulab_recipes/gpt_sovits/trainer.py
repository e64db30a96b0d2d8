"""The two updates of GPT-SoVITS, first of the discriminators: two programs for each bucket."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import torch

from tpulab_recipes.audio.hifigan import discriminator_loss, feature_loss, generator_loss
from tpulab_recipes.audio.mel import MelSpectrogram
from tpulab_recipes.gpt_sovits.config import Config
from tpulab_recipes.gpt_sovits.modules import (
    grad_norm,
    kl_loss,
    slice_segments,
)
from tpulab_recipes.runtime.precision import full_precision
from tpulab_recipes.torch_training import (
    load_flat_adamw,
    make_flat_adamw,
    refuse_changes,
    set_learning_rate,
    snapshot,
)
from tpulab_recipes.torch_training.snapshot import set_random_state

#: Modules with a lower learning rate (`text_low_lr_rate`), one group each, in the original's order.
SLOW_MODULES = ("text_embedding", "encoder_text", "mrte")
#: The generator's inputs in a batch.
DATA_INPUTS = ("ssl", "spec", "spec_lengths", "text", "text_lengths")
FORWARD_INPUTS = (*DATA_INPUTS, "noise", "uniform")


class Trainer:
    """Owns both models and both optimizers. `steps_in_epoch`: steps after which the learning rate falls."""

    def __init__(
        self, config: Config, generator: Any, discriminator: Any, backend: Any, steps_in_epoch: int
    ) -> None:
        self.config, self.backend, self.steps_in_epoch, self.steps_done = config, backend, steps_in_epoch, 0
        self.learning_rate: float = config.learning_rate
        self.rate = config.learning_rate
        self.c_mel = config.c_mel
        self.generator = backend.prepare(generator)
        self.generator.recompute = backend.recompute if config.remat else None
        self.discriminator = backend.prepare(discriminator)
        self.mel = backend.prepare(MelSpectrogram(config.mel))
        self.weights = backend.replicate(torch.tensor([config.c_mel, config.c_kl]))
        options: dict[str, Any] = {"betas": config.betas, "eps": config.eps}
        rate = config.learning_rate
        enc_p = self.generator.enc_p
        slow = [list(getattr(enc_p, name).parameters()) for name in SLOW_MODULES]
        held = {id(each) for group in slow for each in group}
        groups: list[dict[str, Any]] = [
            {"params": [each for each in self.generator.parameters() if id(each) not in held]}
        ]
        groups += [{"params": each, "lr": rate * config.text_low_lr_rate} for each in slow]
        judges = [{"params": list(self.discriminator.parameters())}]
        self.optimizer = make_flat_adamw(backend, groups, lr=rate, **options)
        self.optimizer_d = make_flat_adamw(backend, judges, lr=rate, **options)
        self._step_d = backend.compile(self._update_discriminator, name="discriminator_step")
        self._step_g = backend.compile(self._update_generator, name="generator_step")
        self._evaluate = backend.compile(self._mel_distance, name="eval_step")
        self._made: Any = None
        backend.sync()

    @property
    def models(self) -> Any:
        """Both, as one module with the keys `g` and `d`."""
        return torch.nn.ModuleDict({"g": self.generator, "d": self.discriminator})

    @property
    def model(self) -> Any:
        return self.models

    @property
    def peak(self) -> float:
        """Learning rate before it falls from epoch to epoch; the page may change it."""
        return self.learning_rate

    @peak.setter
    def peak(self, rate: float) -> None:
        self.learning_rate = rate

    @property
    def epoch(self) -> int:
        """Counted from 1, as the original does."""
        return self.steps_done // self.steps_in_epoch + 1

    def rate_of_epoch(self, epoch: int) -> float:
        """The original's schedulers step once before the first epoch; a resumed rate starts here."""
        return self.learning_rate * self.config.lr_decay**epoch

    def before_step(self) -> None:
        """Rates and weights are tensors, so a change compiles nothing."""
        self.rate = rate = self.rate_of_epoch(self.epoch)
        shares = [1.0] + [self.config.text_low_lr_rate] * len(SLOW_MODULES)
        set_learning_rate(self.backend, self.optimizer, rate, shares)
        set_learning_rate(self.backend, self.optimizer_d, rate)
        self.weights = self.backend.replicate(torch.tensor([self.c_mel, self.config.c_kl]))

    def train_step(self, batch: Any) -> dict[str, Any]:
        """One update of each; returns the losses under the original's names, still on the device."""
        return {**self.discriminator_step(batch), **self.generator_step(batch)}

    def discriminator_step(self, batch: Any) -> dict[str, Any]:
        """First half: the generator speaks, the discriminators learn to distinguish real from generated."""
        self.generator.train()
        self.discriminator.train()
        self.before_step()
        losses: dict[str, Any] = self._step_d(batch)
        return losses

    def generator_step(self, batch: Any) -> dict[str, Any]:
        """Second half: the generator learns from its own speech."""
        losses: dict[str, Any] = self._step_g(batch)
        self.steps_done += 1
        return losses

    def _update_discriminator(self, batch: Any) -> dict[str, Any]:
        y = batch["segment"]
        with self.backend.precision(self.config.precision):
            made = self.generator(*(batch[name] for name in FORWARD_INPUTS))
            y_hat = made[0]
            real, generated, _, _ = self.discriminator(y, y_hat.detach())
            loss = discriminator_loss(real, generated)
        self.optimizer_d.zero_grad(set_to_none=True)
        loss.backward()
        norm = grad_norm(self.discriminator.parameters())
        self.backend.optimizer_step(self.optimizer_d)
        self.optimizer_d.zero_grad(set_to_none=True)
        self._made = (made, y)
        return {"loss/d/total": loss.detach(), "grad_norm_d": norm}

    def _update_generator(self, batch: Any) -> dict[str, Any]:
        (y_hat, commit, starts, _, mask, latents, _), y = self._made
        self._made = None
        z, z_p, m_p, logs_p, m_q, logs_q = latents
        del z, m_q
        frames = self.config.segment_frames
        # The discriminators judge and do not learn here: the original computes their gradients, unused.
        self.discriminator.requires_grad_(False)
        with self.backend.precision(self.config.precision):
            _, maps_real = self.discriminator.judge(y)
            generated, maps_generated = self.discriminator.judge(y_hat)
        self.discriminator.requires_grad_(True)
        with self.backend.precision("float32"), full_precision(y_hat):
            spec = slice_segments(batch["spec"], starts, frames)
            wanted = self.mel.mel(spec).clamp(min=1e-5).log()
            generated_mel = self.mel(y_hat[:, 0].float())
            mel = (wanted - generated_mel).abs().mean() * self.weights[0]
            kl = kl_loss(z_p, logs_q, m_p, logs_p, mask, self.backend.mean_over_processes) * self.weights[1]
            features = feature_loss(maps_real, maps_generated)
            total = generator_loss(generated) + features + mel + commit + kl
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()
        norm = grad_norm(self.generator.parameters())
        self.backend.optimizer_step(self.optimizer)
        self.optimizer.zero_grad(set_to_none=True)
        losses = {"total": total, "fm": features, "mel": mel, "kl_ssl": commit, "kl": kl}
        return {f"loss/g/{name}": value.detach() for name, value in losses.items()} | {"grad_norm_g": norm}

    def evaluate(self, batches: Iterable[Any]) -> float:
        """Mean |difference| of log-mels between held-out clips and the speech made of their features, in the
        clip's own voice and without noise."""
        self.generator.eval()
        found = [self._evaluate(batch) for batch in self.backend.batches(batches)]
        sums = [[float(value) for value in pair] for pair in self.backend.to_host(found)]
        return sum(total for total, _ in sums) / sum(count for _, count in sums)

    @torch.no_grad()
    def _mel_distance(self, batch: Any) -> Any:
        given = [batch[name] for name in DATA_INPUTS]
        with self.backend.precision(self.config.precision):
            silent = torch.zeros_like(batch["noise"])
            wave, mask, _ = self.generator.infer(*given, noise_scale=0.0, noise=silent)
        with full_precision(wave):
            wanted = self.mel.mel(batch["spec"]).clamp(min=1e-5).log()
            far = (wanted - self.mel(wave[:, 0].float())).abs().mean(1, keepdim=True)
            counted = mask.float() * batch["counts"].float()[:, None, None]
        return (far * counted).sum(), counted.sum()

    def state(self) -> dict[str, Any]:
        """The content of a checkpoint: models, optimizers, random numbers, the step and the settings."""
        held = snapshot(
            self.backend,
            model=self.models,
            optimizer=self.optimizer,
            scheduler=self.optimizer_d,
            step=self.steps_done,
            config=self.config,
        )
        return held | {"learning_rate": self.learning_rate}

    def load_state(self, state: dict[str, Any]) -> None:
        """Continues from a checkpoint's state. Raises `CheckpointError` for one of other settings; more
        epochs are no other settings."""
        refuse_changes(state["config"], asdict(self.config), ("epochs",))
        self.models.load_state_dict(state["model"])
        load_flat_adamw(self.backend, self.optimizer, state["optimizer"])
        load_flat_adamw(self.backend, self.optimizer_d, state["scheduler"])
        self.steps_done, self.learning_rate = int(state["step"]), float(state["learning_rate"])
        self.backend.sync()
        set_random_state(self.backend, state["random"])
