"""Sound of mel spectrograms: by Griffin and Lim, or by a trained HiFi-GAN. On the host."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from tpulab_recipes.audio.griffin_lim import wave_of
from tpulab_recipes.audio.mel import MelSettings, MelSpectrogram
from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.torch_training.pretrained import loaded

#: Float[sample] of Float[frame, mel], natural logarithms.
Vocoder = Callable[[NDArray[np.float32]], NDArray[np.float32]]


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
