"""Reading, resampling and writing sound: float32 waves in [-1, 1], by soundfile (libsndfile) and soxr.

torchaudio is not used: since 2.9 it reads files through torchcodec and FFmpeg, which no environment here has.
"""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import IO

import numpy as np

from tpulab_recipes.common.errors import DataError
from tpulab_recipes.common.inputs import foreign_kind, unexpected_kind

#: Placeholder sizes in the header of a WAV written to a stream that cannot be rewound, such as a pipe.
_UNKNOWN = (0, 0xFFFFFFFF)
#: Float samples may exceed full scale; beyond this, they are integers that were saved as floats.
_LOUDEST = 64.0
#: Three units of 16 bits.
_SILENT = 1e-4
#: In Hz. Telephones have 8,000.
_LOWEST_RATE = 1000


def load(path: str | Path | IO[bytes], sample_rate: int, *, channels: int = 1, shown: str = "") -> np.ndarray:
    """Float32[sample] of a WAV, FLAC, OGG or MP3 file, a path or an open one: channels averaged, resampled to
    `sample_rate` Hz. With `channels` 2, Float32[channel, sample]; a mono file fills both channels.

    Raises `DataError` that names the file (`shown`) if it is missing, unreadable, cut off, empty or silent,
    or has samples that are not finite.
    """
    import soundfile

    shown = shown or (str(path) if isinstance(path, str | Path) else str(getattr(path, "name", "the file")))
    try:
        data = Path(path).read_bytes() if isinstance(path, str | Path) else path.read()
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have.
        raise DataError(f"{shown} cannot be read as sound: {getattr(error, 'strerror', error)}.") from error
    if kind := foreign_kind(data):
        raise DataError(f"{shown} {kind}.")
    try:
        wave, rate = soundfile.read(
            io.BytesIO(_with_real_sizes(data, shown)), dtype="float32", always_2d=True
        )
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).partition("BytesIO object")[2].partition(": ")[2] or str(error)
        if "SF_INFO" in reason:
            reason = "its header has an impossible sample rate or number of channels"
        reason = reason.removeprefix("Error : ")
        if kind := unexpected_kind(data):
            reason = f"it {kind}"
        raise DataError(f"{shown} cannot be read as sound: {reason.rstrip('.')}.") from error
    if len(wave) == 0:
        raise DataError(f"{shown} has no samples.")
    if not np.isfinite(wave).all():
        raise DataError(f"{shown} has samples that are not finite.")
    if (loudest := float(np.abs(wave).max())) > _LOUDEST:
        raise DataError(
            f"{shown} has samples up to {loudest:.3g}, and full scale is 1; divide them, or save integers."
        )
    if rate < _LOWEST_RATE:
        raise DataError(
            f"{shown}: its header says {rate} Hz, too few for speech; save it with its true rate."
        )
    if channels == 1 and wave.shape[1] > 1:
        wave = wave.mean(axis=1, keepdims=True)
        apart, loudest = loudest, float(np.abs(wave).max())
        if loudest < _SILENT <= apart:
            raise DataError(f"{shown}: its channels cancel each other out; save one of them.")
    if loudest < _SILENT:
        raise DataError(f"{shown} is silent.")
    if channels == 1:
        return resample(wave[:, 0], rate, sample_rate)
    both = wave[:, :2] if wave.shape[1] > 1 else np.repeat(wave, 2, axis=1)
    return np.stack([resample(one, rate, sample_rate) for one in both.T])


def _with_real_sizes(data: bytes, shown: str) -> bytes:
    """A WAV file with its real sizes, if the header lacks them. Raises `DataError` when the header states
    more bytes than the file has. The decoders of FLAC and OGG report truncated files themselves."""
    _require_whole_mp3(data, shown)
    if not (data.startswith(b"RIFF") and data[8:12] == b"WAVE"):
        return data
    place, bytes_a_second = 12, 0
    while place + 8 <= len(data):
        name, size = data[place : place + 4], struct.unpack_from("<I", data, place + 4)[0]
        if name == b"fmt " and place + 20 <= len(data):
            bytes_a_second = struct.unpack_from("<I", data, place + 16)[0]
        if name == b"data":
            left = len(data) - place - 8
            if size in _UNKNOWN and left and (size or data[4:8] in (bytes(4), b"\xff" * 4)):
                sizes = struct.pack("<I", len(data) - 8), struct.pack("<I", left)
                return data[:4] + sizes[0] + data[8 : place + 4] + sizes[1] + data[place + 8 :]
            if size > left and left and bytes_a_second:
                promised, there = size / bytes_a_second, left / bytes_a_second
                raise DataError(
                    f"{shown} is cut off: its header says {promised:.2f} s and the file has {there:.2f} s; "
                    "copy it again."
                )
            break
        place += 8 + size + size % 2
    return data


def _require_whole_mp3(data: bytes, shown: str) -> None:
    """Raises `DataError` for an MP3 with fewer bytes than its first frame says (the Xing header, which most
    encoders write): it would be read without its end."""
    start = 0
    if data.startswith(b"ID3") and len(data) > 10:
        start = 10 + sum(each << shift for each, shift in zip(data[6:10], (21, 14, 7, 0), strict=True))
    if data[start : start + 1] != b"\xff":
        return
    place = next((found for tag in (b"Xing", b"Info") if (found := data.find(tag, start, start + 48)) > 0), 0)
    flags = int.from_bytes(data[place + 4 : place + 8], "big")
    if place and flags & 2:
        # After the number of frames, where the header has one.
        size = int.from_bytes(data[place + 8 + 4 * (flags & 1) :][:4], "big")
        if len(data) - start < 0.99 * size:
            raise DataError(
                f"{shown} is cut off: its header says {size:,} bytes and the file has {len(data) - start:,}; "
                "copy it again."
            )


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
