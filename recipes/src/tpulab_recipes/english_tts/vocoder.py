"""A HiFi-GAN for the voice, trained on the same recordings: sound of a spectrogram, in one pass.

`small` is the paper's third version, made for CPUs, with narrow discriminators; `full` is its first. A step
updates the discriminators, then the generator, on windows of one length: one program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from tpulab_recipes.audio.hifigan import (
    Generator,
    MultiPeriodDiscriminator,
    discriminator_loss,
    feature_loss,
    fold_weight_norm,
    generator_loss,
)
from tpulab_recipes.audio.mel import MelSettings, MelSpectrogram
from tpulab_recipes.audio.vocoders import Vocoder
from tpulab_recipes.common.errors import CheckpointError, DataError
from tpulab_recipes.english_tts.config_english import EnglishTrainingConfig
from tpulab_recipes.english_tts.data import Utterance, read_wave
from tpulab_recipes.english_tts.device_type import DeviceType
from tpulab_recipes.runtime.precision import full_precision
from tpulab_recipes.torch_training import (
    Resumable,
    load_flat_adamw,
    make_flat_adamw,
    refuse_changes,
    set_learning_rate,
    snapshot,
)
from tpulab_recipes.torch_training.compiled_step import compiled_step
from tpulab_recipes.torch_training.fit import Loop, Training, fit
from tpulab_recipes.torch_training.snapshot import set_random_state
from tpulab_recipes.torch_training.tensor_files import read_tensors


@dataclass(frozen=True)
class VocoderSize:
    channels: int
    resblock: str
    kernels: tuple[int, ...]
    dilations: tuple[tuple[int, ...], ...]
    stages: int
    """Upsampling layers."""
    divisor: int
    """The discriminators' channels are the paper's divided by this."""


SIZES = {
    "small": VocoderSize(128, "2", (3, 5, 7), ((1, 2), (2, 6), (3, 12)), 3, 16),
    "full": VocoderSize(512, "1", (3, 7, 11), ((1, 3, 5),) * 3, 4, 1),
}
#: Beside `model.safetensors` of an exported voice.
VOCODER_FILE = "vocoder.safetensors"
#: Weight of the distance of spectrograms, as the paper's.
MEL_WEIGHT = 45.0


def rates_of(hop: int, stages: int) -> list[int]:
    """At most so many factors of `hop`, about equal, the largest first."""
    primes, left = [], hop
    for prime in range(2, hop + 1):
        while left % prime == 0:
            primes.append(prime)
            left //= prime
    rates = [1] * stages
    for prime in reversed(primes):
        rates[rates.index(min(rates))] *= prime
    return sorted((rate for rate in rates if rate > 1), reverse=True)


class HifiGan(torch.nn.Module):
    """Float[batch, 1, sample] of Float[batch, frame, mel], natural logarithms."""

    mel_mean: torch.Tensor
    mel_std: torch.Tensor

    def __init__(self, config: EnglishTrainingConfig) -> None:
        super().__init__()
        size = SIZES[config.vocoder_size]
        rates = rates_of(config.hop_length, size.stages)
        kernels = [2 * rate + rate % 2 for rate in rates]
        blocks = (size.resblock, size.kernels, size.dilations)
        self.generator = Generator(config.n_mels, *blocks, rates, size.channels, kernels)
        self.register_buffer("mel_mean", torch.zeros(config.n_mels))
        self.register_buffer("mel_std", torch.ones(config.n_mels))

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        wave: torch.Tensor = self.generator(((mel - self.mel_mean) / self.mel_std).transpose(1, 2))
        return wave


class VocoderTrainer(Resumable):
    """Owns generator, discriminators and both optimizers. `statistics`: of `data.prepare`."""

    backend: Any

    def __init__(self, config: EnglishTrainingConfig, backend: Any, statistics: Mapping[str, Any]) -> None:
        self.config, self.backend, self.steps_done = config, backend, 0
        self.peak = self.rate = config.vocoder_learning_rate
        on_cpu = DeviceType.of(backend) is DeviceType.CPU
        mixed = config.cpu_precision if on_cpu else "bfloat16"
        self.precision = mixed if config.use_mixed_precision else "float32"
        backend.seed(config.seed)
        made = HifiGan(config)
        made.mel_mean.copy_(torch.tensor(statistics["mel_mean"]))
        made.mel_std.copy_(torch.tensor(statistics["mel_std"]))
        self.generator: Any = backend.prepare(made)
        judges = MultiPeriodDiscriminator(divisor=SIZES[config.vocoder_size].divisor)
        self.discriminator: Any = backend.prepare(judges)
        self.model = torch.nn.ModuleDict({"g": self.generator, "d": self.discriminator})
        self.mel: Any = backend.prepare(MelSpectrogram(config.mel))
        self.optimizers = [
            make_flat_adamw(backend, [{"params": list(each.parameters())}], lr=self.rate, betas=(0.8, 0.99))
            for each in (self.generator, self.discriminator)
        ]
        self._evaluate = backend.compile(self._distance, name="vocoder_evaluate")
        backend.sync()

    def before_step(self) -> None:
        self.rate = self.peak * 0.1 ** (self.steps_done / self.config.vocoder_steps)
        for each in self.optimizers:
            set_learning_rate(self.backend, each, self.rate)

    @compiled_step
    def train_step(self, batch: Any) -> dict[str, Any]:
        """One update of each; returns the losses, still on the device."""
        wave, (generator, judges) = batch["wave"][:, None], self.optimizers
        with self.backend.precision(self.precision):
            made = self.generator(batch["mel"])
            real, generated, _, _ = self.discriminator(wave, made.detach())
            judged = discriminator_loss(real, generated)
        judged.backward()
        self.backend.optimizer_step(judges)
        self.discriminator.requires_grad_(False)
        with self.backend.precision(self.precision):
            _, maps_real = self.discriminator.judge(wave)
            generated, maps = self.discriminator.judge(made)
        self.discriminator.requires_grad_(True)
        with full_precision(made):
            far = self._far(batch, made)
            total = generator_loss(generated) + feature_loss(maps_real, maps) + MEL_WEIGHT * far
        total.backward()
        self.backend.optimizer_step(generator)
        for each in self.optimizers:
            each.zero_grad(set_to_none=True)
        return {name: one.detach() for name, one in (("loss", total), ("mel", far), ("judges", judged))}

    def _far(self, batch: Any, made: torch.Tensor) -> torch.Tensor:
        """Mean distance of log-mels."""
        return (self.mel(batch["wave"]) - self.mel(made[:, 0].float())).abs().mean()

    @torch.no_grad()
    def _distance(self, batch: Any) -> torch.Tensor:
        return self._far(batch, self.generator(batch["mel"]))

    def evaluate(self, batches: Iterator[Any]) -> float:
        """Mean distance of log-mels between recordings and the sound made of their spectrograms."""
        found = self.backend.to_host([self._evaluate(batch) for batch in self.backend.batches(batches)])
        return float(np.mean([float(one) for one in found]))

    def state(self) -> dict[str, Any]:
        generator, judges = self.optimizers
        parts = {"model": self.model, "optimizer": generator, "scheduler": judges}
        return snapshot(self.backend, **parts, step=self.steps_done, config=self.config)

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continues from a checkpoint's state. Raises `CheckpointError` for one of other sound or sizes."""
        matters = {*MelSettings.__dataclass_fields__, "n_fft", "hop_length", "win_length", "seed"}
        matters |= {"vocoder_size", "vocoder_batch_size", "vocoder_frames"}
        refuse_changes(state["config"], asdict(self.config), set(asdict(self.config)) - matters)
        self.model.load_state_dict(state["model"])
        for each, name in zip(self.optimizers, ("optimizer", "scheduler"), strict=True):
            load_flat_adamw(self.backend, each, state[name])
        self.steps_done = int(state["step"])
        self.backend.sync()
        set_random_state(self.backend, state["random"])


def windows(
    utterances: Sequence[Utterance], c: EnglishTrainingConfig, first: int, kind: int = 3
) -> Iterator[dict[str, NDArray[np.float32]]]:
    """Batches from number `first` on: `mel`, Float32[B, frame, mel], and `wave`, Float32[B, sample], of
    windows anywhere in these utterances. Raises `DataError` where none is long enough."""
    size, hop = c.vocoder_frames, c.hop_length
    long = [one for one in utterances if len(one.mel) >= size]
    if not long:
        raise DataError(f"no utterance has {size} frames, as vocoder_frames wants.")
    for number in count(first):
        random, mels, waves = np.random.default_rng([c.seed, kind, number]), [], []
        for place in random.integers(len(long), size=c.vocoder_batch_size):
            start = int(random.integers(len(long[place].mel) - size + 1))
            mels.append(long[place].mel[start : start + size])
            wave = read_wave(c.output_dir, long[place].name)
            waves.append(wave[start * hop : (start + size) * hop])
        yield {"mel": np.stack(mels), "wave": np.stack(waves)}


def train_vocoder(trainer: Any) -> HifiGan:
    """Trains the HiFi-GAN of an `EnglishTrainer` on its recordings, or resumes it, in `vocoder/`."""
    c, held_out = trainer.config, trainer.held_out or trainer.train_set
    own = VocoderTrainer(c, trainer.backend, trainer.statistics)
    fit(
        Training(
            name=f"HiFi-GAN, {c.vocoder_size}",
            trainer=own,
            batches=lambda first: windows(trainer.train_set, c, first),
            in_epoch=c.vocoder_steps,
            epochs=1,
            output=str(Path(c.output_dir) / "vocoder"),
            fingerprint=trainer.fingerprint,
            evaluate=lambda: {"held_out_mel": own.evaluate(islice(windows(held_out, c, 0, 4), 8))},
            shown=lambda row: f"loss {row['loss']:.2f}, mel {row['mel']:.3f}",
            remedy="Lower vocoder_batch_size.",
            ahead=c.num_workers,
        ),
        Loop(save_minutes=c.save_minutes, log_every=c.log_interval, evaluate_every=1000),
    )
    return own.generator


def save_vocoder(folder: str | Path, model: HifiGan) -> None:
    """Writes `vocoder.safetensors`, whose sizes are in the voice's `config.json`."""
    weights = fold_weight_norm(deepcopy(model).cpu()).state_dict()
    save_file({name: each.contiguous() for name, each in weights.items()}, Path(folder) / VOCODER_FILE)


def trained_vocoder(folder: str | Path, config: EnglishTrainingConfig) -> Vocoder | None:
    """The HiFi-GAN that was exported with a voice; None: there is none. On the host. Raises
    `CheckpointError` for a file that cannot be read."""
    file = Path(folder) / VOCODER_FILE
    if not file.exists():
        return None
    model = fold_weight_norm(HifiGan(config)).eval()
    try:
        model.load_state_dict(read_tensors(file))
    except RuntimeError as error:
        raise CheckpointError(f"{file} is no vocoder of this voice: {error}") from error

    @torch.no_grad()
    def vocode(log_mel: NDArray[np.float32]) -> NDArray[np.float32]:
        wave: NDArray[np.float32] = model(torch.from_numpy(log_mel)[None])[0, 0].numpy()
        return wave

    return vocode
