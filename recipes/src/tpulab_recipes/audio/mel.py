"""Mel spectrograms that XLA compiles well: the Fourier transform is a convolution with cosines and sines.

No complex numbers and no `reflection_pad1d`, which torch_xla does not lower. The filters are librosa's
(Slaney's scale and norm). With `center=True` the magnitude is librosa's; with
`center=False` the log mel is the one that HiFi-GAN, VITS and GPT-SoVITS train on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class MelSettings:
    """The defaults are those of the English TTS recipe (22,050 Hz)."""

    sample_rate: int = 22_050
    n_fft: int = 1024
    hop: int = 256
    """Samples from one frame to the next."""
    window: int = 1024
    """Length of the Hann window; a shorter one than `n_fft` stands in its middle."""
    n_mels: int = 80
    f_min: float = 0.0
    f_max: float | None = None
    """Hz; None: half the sample rate."""
    center: bool = True
    """Frames are centred on their samples, with zeros beyond the ends, as librosa does by default. False: the
    signal is reflected by (n_fft - hop) / 2 at both ends, so that `samples / hop` frames come out."""

    def __post_init__(self) -> None:
        if not 0 < self.window <= self.n_fft:
            raise ValueError(f"window ({self.window}) must be between 1 and n_fft ({self.n_fft}).")
        if self.hop < 1 or self.n_mels < 1:
            raise ValueError("hop and n_mels must be at least 1.")

    @property
    def padding(self) -> int:
        """Samples that are added at either end."""
        return self.n_fft // 2 if self.center else (self.n_fft - self.hop) // 2


class MelSpectrogram(torch.nn.Module):
    """Mel spectrograms of Float[batch, sample]. Its tables move with `.to(device)` and are never saved.

    On a TPU run it under `backend.precision("float32")`: bfloat16 products hide the quiet bins.
    """

    fourier: torch.Tensor
    filters: torch.Tensor

    def __init__(self, settings: MelSettings) -> None:
        super().__init__()
        from librosa.filters import mel

        self.settings = settings
        self.register_buffer("fourier", torch.from_numpy(_fourier(settings)), persistent=False)
        filters = mel(
            sr=settings.sample_rate,
            n_fft=settings.n_fft,
            n_mels=settings.n_mels,
            fmin=settings.f_min,
            fmax=settings.f_max,
        )
        self.register_buffer("filters", torch.from_numpy(np.float32(filters)), persistent=False)

    def magnitude(self, waves: torch.Tensor, floor: float = 1e-8) -> torch.Tensor:
        """Float[batch, n_fft / 2 + 1, frame]: sqrt(re² + im² + floor). The floor keeps the gradient of
        silence finite."""
        pad = self.settings.padding
        if self.settings.center:
            padded = torch.nn.functional.pad(waves, (pad, pad))
        else:
            if waves.shape[-1] <= pad:
                raise ValueError(f"a wave needs more than {pad} samples, and has {waves.shape[-1]}.")
            # Slices instead of reflection_pad1d.
            left, right = waves[:, 1 : pad + 1].flip(-1), waves[:, -pad - 1 : -1].flip(-1)
            padded = torch.cat((left, waves, right), dim=-1)
        parts = torch.nn.functional.conv1d(padded[:, None], self.fourier, stride=self.settings.hop)
        real, imaginary = parts.chunk(2, dim=1)
        return (real * real + imaginary * imaginary + floor).sqrt()

    def mel(self, magnitude: torch.Tensor) -> torch.Tensor:
        """Float[batch, n_mels, frame] of Float[batch, n_fft / 2 + 1, frame]."""
        return self.filters @ magnitude

    def forward(self, waves: torch.Tensor) -> torch.Tensor:
        """Float[batch, n_mels, frame]: the natural logarithm of the mel spectrogram of the magnitude, at
        least log(1e-5)."""
        return self.mel(self.magnitude(waves)).clamp(min=1e-5).log()


def _fourier(settings: MelSettings) -> np.ndarray:
    """Float32[2 * (n_fft / 2 + 1), 1, n_fft]: windowed cosines, then sines."""
    n, length = settings.n_fft, settings.window
    # Periodic, not symmetric: what torch.hann_window and librosa use.
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / length)
    left = (n - length) // 2
    window = np.pad(hann, (left, n - length - left))
    # The product is reduced in whole numbers first: float64 angles stay exact for large n_fft.
    turns = np.outer(np.arange(n // 2 + 1), np.arange(n)) % n / n
    angles = 2 * np.pi * turns
    windowed = np.concatenate((np.cos(angles), -np.sin(angles))) * window
    return windowed.astype(np.float32)[:, None]
