"""Reading, resampling and writing sound: float32 waves in [-1, 1], by soundfile (libsndfile) and soxr.

torchaudio is not used: since 2.9 it reads files through torchcodec and FFmpeg, which no environment here has.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tpulab_recipes.common.errors import DataError


def load(path: str | Path, sample_rate: int) -> np.ndarray:
    """Float32[sample] of a WAV, FLAC, OGG or MP3 file: channels averaged, resampled to `sample_rate` Hz.

    Raises `DataError` for a file that is missing, unreadable or empty.
    """
    import soundfile

    try:
        wave, rate = soundfile.read(str(path), dtype="float32", always_2d=True)
    except (OSError, soundfile.SoundFileError) as error:
        raise DataError(f"{path} cannot be read as sound: {error}") from error
    if len(wave) == 0:
        raise DataError(f"{path} has no samples.")
    return resample(wave.mean(axis=1), rate, sample_rate)


def resample(wave: np.ndarray, rate: int, to: int) -> np.ndarray:
    """Float32[sample] at `to` Hz of a wave at `rate` Hz, by soxr's high quality, librosa's default."""
    import soxr

    if rate == to:
        return np.asarray(wave, np.float32)
    return np.asarray(soxr.resample(np.asarray(wave, np.float32), rate, to, quality="HQ"), np.float32)


def save(path: str | Path, wave: np.ndarray, sample_rate: int) -> None:
    """Writes Float[sample] as a WAV file of 16 bits. Raises `ValueError` for samples outside [-1, 1], which
    would be clipped."""
    import soundfile

    loudest = float(np.abs(wave).max(initial=0))
    if not loudest <= 1:
        raise ValueError(f"the wave reaches {loudest:.3g}; scale it into [-1, 1] before you save it.")
    soundfile.write(str(path), wave, sample_rate, subtype="PCM_16")


def fitted(wave: np.ndarray, samples: int) -> np.ndarray:
    """The wave in exactly `samples` samples, cut or followed by silence: one shape for the compiled step."""
    return np.pad(wave[:samples], (0, max(0, samples - len(wave))))
