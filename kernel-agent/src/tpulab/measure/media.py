"""Pictures, sound and text that a run logs, made small at the call: `run.log(sample=figure)`.

A picture has at most `MAX_SIDE` pixels on its longer side and `MAX_BYTES`, sound `MAX_SOUND_BYTES`.
Intensities are floats from 0 to 1, as in matplotlib, integers from 0 to 255, or to 65535 if one is above 255,
or booleans.
"""

from __future__ import annotations

import base64
import io
import math
import struct
import wave
import zlib
from typing import Any, NamedTuple

from tpulab.runtimes.device_value import is_freed
from tpulab.telemetry.clocks import now_ns
from tpulab.telemetry.plain import is_number, short

MAX_SIDE = 512
#: Encoded, before base64, which adds a third.
MAX_BYTES = 128 * 1024
MAX_SOUND_BYTES = 256 * 1024
MAX_TEXT = 8_192
#: Media of a run: so many at once, then one a second.
BURST = 16


class MediaError(ValueError):
    """The value is no picture, or no sound."""


class Medium(NamedTuple):
    mime: str
    #: the text itself, otherwise base64
    data: str


class Allowance:
    """How many media a run may still log: `BURST`, and one more each second."""

    def __init__(self) -> None:
        self._left, self._at = float(BURST), now_ns()

    def take(self) -> bool:
        now = now_ns()
        self._left, self._at = min(BURST, self._left + (now - self._at) / 1e9), now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def is_medium(value: Any) -> bool:
    """Whether `run.log` shows this value as a picture, as sound or as text."""
    if isinstance(value, (float, int)):
        return False
    if isinstance(value, Medium):
        return True
    if isinstance(value, str):
        return not is_number(value)
    try:
        if hasattr(value, "savefig") or _is_pil(value):
            return True
        # An array of one number is a metric, whatever its shape.
        return getattr(value, "ndim", 0) >= 2 and math.prod(value.shape) != 1
    except Exception:  # an object whose attributes raise
        return False


def medium_of(value: Any, allowance: Allowance) -> Medium | MediaError:
    if not allowance.take():
        return MediaError(f"a run has {BURST} pictures at once, and then one a second")
    if isinstance(value, Medium):
        return value
    if isinstance(value, str):
        return Medium("text/plain", value if len(value) <= MAX_TEXT else value[: MAX_TEXT - 1] + "…")
    try:
        return image(value)
    except MediaError as error:
        return error


def image(value: Any) -> Medium:
    """A picture for `run.log`: a figure of matplotlib, an image of PIL, or an array of height x width, of
    height x width x channels (1 to 4), or of several such pictures, which are laid side by side.

    Raises:
        MediaError: it is none of these, or its values cannot be read.
    """
    try:
        if hasattr(value, "savefig"):
            return _smaller(lambda side: _saved_figure(value, side))
        if _is_pil(value) and value.mode[0] not in "IF":
            return _smaller(lambda side: _saved_image(value, side))
        pixels = _pixels(value)
        return _smaller(lambda side: _png(_reduced(pixels, side)))
    except MediaError:
        raise
    except Exception as error:  # a figure that cannot be drawn, an array that was deleted
        raise MediaError(f"the picture cannot be read: {short(error, 200, plain=True)}") from error


def audio(samples: Any, rate: int) -> Medium:
    """Sound for `run.log`: samples from -1 to 1, or of 16 bits, at `rate` a second. Only its beginning fits.

    Raises:
        MediaError: the samples are no array of one dimension, or the rate is no positive number.
    """
    import numpy

    found = _as_float32(numpy.asarray(_on_host(samples)).squeeze())
    if found.ndim != 1 or found.dtype.kind not in "fiu" or not found.size or not rate > 0:
        raise MediaError(
            f"sound is an array of one dimension and a rate, not {short(samples)} and {short(rate)}"
        )
    if found.dtype.kind != "f" and not -32768 <= found.min() <= found.max() <= 32767:
        raise MediaError(f"integer samples have 16 bits: {found.min()} to {found.max()} is outside them")
    if found.dtype.kind == "f":
        found = numpy.clip(numpy.nan_to_num(found), -1, 1) * 32767
    written = io.BytesIO()
    with wave.open(written, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(int(rate))
        file.writeframes(found[: MAX_SOUND_BYTES // 2 - 64].astype("<i2").tobytes())
    return Medium("audio/wav", base64.b64encode(written.getvalue()).decode())


def _is_pil(value: Any) -> bool:
    return hasattr(value, "thumbnail") and hasattr(value, "convert")


def _smaller(encode: Any) -> Medium:
    """Encodes at `MAX_SIDE`, and at less until it fits."""
    side = MAX_SIDE
    while len(data := encode(side)) > MAX_BYTES and side > 16:
        side //= 2
    return Medium("image/png", base64.b64encode(data).decode())


def _saved_figure(figure: Any, side: int) -> bytes:
    written = io.BytesIO()
    # Room for labels beside the axes, which `tight` adds.
    figure.savefig(written, format="png", dpi=min(100, 0.95 * side / max(figure.get_size_inches())))
    return written.getvalue()


def _saved_image(image: Any, side: int) -> bytes:
    small = image.convert("RGBA" if "A" in image.mode or "transparency" in image.info else "RGB")
    small.thumbnail((side, side))
    written = io.BytesIO()
    small.save(written, "PNG")
    return written.getvalue()


def _on_host(value: Any) -> Any:
    if is_freed(value):
        raise MediaError("the array was deleted, or donated to a program")
    if "torch" in type(value).__module__:
        value = value.detach().cpu()
        # numpy cannot read bfloat16. The other types keep their meaning: 255 is white in integers alone.
        return value.float() if value.is_floating_point() else value
    return value


def _as_float32(found: Any) -> Any:
    """Also for the types of JAX that numpy does not know, such as bfloat16."""
    return found.astype("f4") if found.dtype.kind in "fV" else found


def _pixels(value: Any) -> Any:
    """Height x width x channels of 8 bits."""
    import numpy

    found = _as_float32(numpy.asarray(_on_host(value)))
    if _is_pil(value) and found.dtype.kind == "f" and found.max() > 1:
        found = found / 255
    if found.ndim >= 3 and found.shape[-1] not in (1, 2, 3, 4) and found.shape[-3] in (1, 3, 4):
        found = numpy.moveaxis(found, -3, -1)  # channels first, as in PyTorch
    if found.ndim == 2:
        found = found[:, :, None]
    if found.ndim == 4:
        found = _side_by_side(found)
    if found.ndim != 3 or found.shape[-1] > 4 or not found.size or found.dtype.kind not in "fiub":
        raise MediaError(
            f"a picture is height x width x 1 to 4 channels, not {found.dtype}{list(found.shape)}"
        )
    if found.dtype.kind in "fb":
        return (numpy.clip(numpy.nan_to_num(found.astype("f4")), 0, 1) * 255 + 0.5).astype("u1")
    full = 255 if found.max() <= 255 else 65535
    return (numpy.clip(found, 0, full) * (255 / full) + 0.5).astype("u1")


def _side_by_side(found: Any) -> Any:
    import numpy

    count, height, width, channels = found.shape
    columns = math.ceil(math.sqrt(count))
    rows = -(-count // max(columns, 1))
    grid = numpy.zeros((rows * columns, height, width, channels), found.dtype)
    grid[:count] = found
    grid = grid.reshape(rows, columns, height, width, channels).swapaxes(1, 2)
    return grid.reshape(rows * height, columns * width, channels)


def _reduced(pixels: Any, side: int) -> Any:
    """Means of squares, so that no side is longer than `side`."""
    height, width, channels = pixels.shape
    by = max(1, -(-max(height, width) // side))
    tall, wide = max(height // by, 1), max(width // by, 1)
    down, across = min(by, height), min(by, width)
    squares = pixels[: tall * down, : wide * across].reshape(tall, down, wide, across, channels)
    return squares.mean(axis=(1, 3)).round().astype("u1")


def _png(pixels: Any) -> bytes:
    """Section 11 of the PNG specification; rows are differences of neighbours (filter 1)."""
    import numpy

    height, width, channels = pixels.shape
    rows = pixels.copy()
    rows[:, 1:] -= pixels[:, :-1]
    raw = numpy.concatenate([numpy.ones((height, 1), "u1"), rows.reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 2: 4, 3: 2, 4: 6}[channels], 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(raw.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
