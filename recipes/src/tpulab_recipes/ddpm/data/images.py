"""Images as they lie on disk: read, turned to RGB, resized and cropped to the size that training wants."""

from __future__ import annotations

import io

import numpy as np

from tpulab_recipes.common.errors import DataError

#: More pixels than this are taken for an attempt to fill the memory.
MAX_PIXELS = 64_000_000


def decode_image(data: bytes, name: str = "image") -> np.ndarray:
    """UInt8[height, width, 3]. Raises `DataError` for what is no image, or too large a one."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.width * image.height > MAX_PIXELS:
                raise DataError(f"{name} has {image.width} x {image.height} pixels, more than can be taken.")
            return np.asarray(image.convert("RGB"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{name} cannot be read as an image: {error}") from error


def encode_image(pixels: np.ndarray, image_format: str) -> bytes:
    """A JPEG or PNG file of UInt8[height, width, 3]."""
    from PIL import Image

    buffer = io.BytesIO()
    kind = {"jpg": "JPEG", "jpeg": "JPEG", "png": "PNG"}.get(image_format)
    if kind is None:
        raise DataError(f"Images are stored as jpg or png, not {image_format!r}.")
    Image.fromarray(pixels).save(buffer, kind, **({"quality": 95} if kind == "JPEG" else {}))
    return buffer.getvalue()


def resize_smallest_side(pixels: np.ndarray, size: int) -> np.ndarray:
    """The smaller side becomes `size`, the other keeps the proportions."""
    from PIL import Image

    height, width = pixels.shape[:2]
    scale = size / min(height, width)
    target = (max(size, round(width * scale)), max(size, round(height * scale)))
    if target == (width, height):
        return pixels
    # Box filtering first when shrinking a lot: plain bicubic would skip pixels.
    return np.asarray(Image.fromarray(pixels).resize(target, Image.Resampling.LANCZOS))


def crop(pixels: np.ndarray, size: int, rng: np.random.Generator | None = None) -> np.ndarray:
    """A square of `size`, from the centre, or from anywhere when `rng` is given."""
    spare = pixels.shape[0] - size, pixels.shape[1] - size
    if min(spare) < 0:
        raise DataError(f"An image of {pixels.shape[1]} x {pixels.shape[0]} is too small for {size}.")
    top, left = (int(rng.integers(s + 1)) if rng else s // 2 for s in spare)
    return pixels[top : top + size, left : left + size]


def fit_image(pixels: np.ndarray, size: int, rng: np.random.Generator | None = None) -> np.ndarray:
    """UInt8[size, size, 3]."""
    return crop(resize_smallest_side(pixels, size), size, rng)
