"""Sound of mel spectrograms, on the host: by a trained HiFi-GAN, or with phases by Griffin and Lim (1984; the
faster form of Perraudin et al. 2013)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tpulab_recipes.audio.mel import MelSettings, MelSpectrogram
from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.torch_training.pretrained import loaded

#: Float[sample] of Float[frame, mel], natural logarithms.
Vocoder = Callable[[NDArray[np.float32]], NDArray[np.float32]]
ROUNDS = 40
#: How far each round extrapolates beyond its estimate.
MOMENTUM = 0.9


def griffin_lim_vocoder(settings: MelSettings) -> Vocoder:
    """Sound without trained weights."""
    mel = MelSpectrogram(settings)
    return lambda log_mel: wave_of(torch.from_numpy(log_mel.T.copy())[None], mel)[0].numpy()


def load_vocoder(place: str, settings: MelSettings) -> Vocoder:
    """`SpeechT5HifiGan` of transformers, a folder or a name at Hugging Face, which takes decadic logarithms;
    empty: Griffin-Lim. Raises `ConfigError` where there is none, or one for other bands or another rate."""
    if not place:
        return griffin_lim_vocoder(settings)
    from transformers import SpeechT5HifiGan

    model = loaded("vocoder", place, SpeechT5HifiGan.from_pretrained).eval()
    made, hop = model.config, int(np.prod(model.config.upsample_rates))
    s = settings
    if (made.model_in_dim, made.sampling_rate, hop) != (s.n_mels, s.sample_rate, s.hop):
        raise ConfigError(
            "vocoder",
            f"{place!r} takes {made.model_in_dim} bands at {made.sampling_rate} Hz with {hop} samples a "
            f"frame, and this voice has {s.n_mels}, {s.sample_rate} and {s.hop}.",
        )

    @torch.no_grad()
    def vocode(log_mel: NDArray[np.float32]) -> NDArray[np.float32]:
        wave: NDArray[np.float32] = model(torch.from_numpy(log_mel) / np.log(10)).numpy()
        return wave

    return vocode


@torch.no_grad()
def wave_of(log_mel: torch.Tensor, mel: MelSpectrogram) -> torch.Tensor:
    """Float[batch, sample] in [-1, 1], `hop` samples a frame, of Float[batch, mel, frame], natural logarithms
    of magnitudes. A mel spectrogram has no phases; guessed ones make a voice a little hollow."""
    filters = mel.filters.cpu()
    magnitude = (torch.linalg.pinv(filters) @ log_mel.cpu().float().exp()).clamp(min=0)
    # torch's transform has a frame at either end.
    s, frames = mel.settings, magnitude.shape[-1]
    magnitude = torch.nn.functional.pad(magnitude, (0, 1), mode="replicate")
    # It also needs at least one window: shorter spectrograms are padded with silence, which is cut off again.
    magnitude = torch.nn.functional.pad(magnitude, (0, max(0, s.n_fft // s.hop + 1 - frames)))
    return griffin_lim(magnitude, s)[:, : frames * s.hop].clamp(-1, 1)


@torch.no_grad()
def griffin_lim(
    magnitude: torch.Tensor,
    settings: MelSettings,
    *,
    rounds: int = ROUNDS,
    momentum: float = MOMENTUM,
    seed: int | None = 0,
    pad_mode: str = "reflect",
) -> torch.Tensor:
    """Float[batch, (frame - 1) * hop] of Float[batch, n_fft / 2 + 1, frame] with centred frames.

    Args:
        seed: of the phases to begin with, the same at each call; None: all are 0. librosa's `griffinlim` is
            the same with `init=None`, `pad_mode="constant"` and the momentum m / (1 + m) instead of m.
    """
    samples = (magnitude.shape[-1] - 1) * settings.hop
    shape: dict[str, Any] = {
        "n_fft": settings.n_fft,
        "hop_length": settings.hop,
        "win_length": settings.window,
        "window": torch.hann_window(settings.window),
    }
    turns = torch.zeros_like(magnitude)
    if seed is not None:
        turns = torch.rand(magnitude.shape, generator=torch.Generator().manual_seed(seed))
    phases = torch.polar(torch.ones_like(magnitude), 2 * torch.pi * turns)
    before = torch.zeros_like(phases)
    for _ in range(rounds):
        wave = torch.istft(magnitude * phases, length=samples, **shape)
        found = torch.stft(wave, return_complex=True, pad_mode=pad_mode, **shape)
        ahead = found + momentum * (found - before)
        phases, before = ahead / ahead.abs().clamp(min=1e-9), found
    found_wave: torch.Tensor = torch.istft(magnitude * phases, length=samples, **shape)
    return found_wave
