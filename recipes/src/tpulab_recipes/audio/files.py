"""Reading, resampling and writing sound: float32 waves in [-1, 1], by soundfile (libsndfile) and soxr.

torchaudio is not used: since 2.9 it reads files through torchcodec and FFmpeg, which no environment here has.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO

import numpy as np

from tpulab_recipes.common.errors import DataError


def load(path: str | Path | IO[bytes], sample_rate: int, *, channels: int = 1) -> np.ndarray:
    """Float32[sample] of a WAV, FLAC, OGG or MP3 file, a path or an open one: channels averaged, resampled to
    `sample_rate` Hz. With `channels` 2, Float32[channel, sample]; a mono file gives both.

    Raises `DataError` for a file that is missing, unreadable or empty.
    """
    import soundfile

    try:
        source = str(path) if isinstance(path, str | Path) else path
        wave, rate = soundfile.read(source, dtype="float32", always_2d=True)
    except (OSError, soundfile.SoundFileError) as error:
        raise DataError(f"{_shown(path)} cannot be read as sound: {error}") from error
    if len(wave) == 0:
        raise DataError(f"{_shown(path)} has no samples.")
    if channels == 1:
        return resample(wave.mean(axis=1), rate, sample_rate)
    both = wave[:, :2] if wave.shape[1] > 1 else np.repeat(wave, 2, axis=1)
    return np.stack([resample(one, rate, sample_rate) for one in both.T])


def _shown(path: str | Path | IO[bytes]) -> str:
    return str(path) if isinstance(path, str | Path) else str(getattr(path, "name", "the file"))


def resample(wave: np.ndarray, rate: int, to: int) -> np.ndarray:
    """Float32[sample] at `to` Hz of a wave at `rate` Hz, by soxr's high quality, librosa's default."""
    import soxr

    if rate == to:
        return np.asarray(wave, np.float32)
    return np.asarray(soxr.resample(np.asarray(wave, np.float32), rate, to, quality="HQ"), np.float32)


def save(path: str | Path | IO[bytes], wave: np.ndarray, sample_rate: int) -> None:
    """Writes Float[sample] as a WAV file of 16 bits, a path or an open one. Raises `ValueError` for samples
    outside [-1, 1], which would be clipped."""
    import soundfile

    loudest = float(np.abs(wave).max(initial=0))
    if not loudest <= 1:
        raise ValueError(f"the wave reaches {loudest:.3g}; scale it into [-1, 1] before you save it.")
    target = str(path) if isinstance(path, str | Path) else path
    soundfile.write(target, wave, sample_rate, subtype="PCM_16", format="WAV")


def fitted(wave: np.ndarray, samples: int) -> np.ndarray:
    """The wave in exactly `samples` samples, cut or followed by silence: one shape for the compiled step."""
    return np.pad(wave[:samples], (0, max(0, samples - len(wave))))
