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

    kinds = {"jpg": "JPEG", "jpeg": "JPEG", "png": "PNG"}
    if image_format not in kinds:
        raise DataError(f"Images are stored as jpg or png, not {image_format!r}.")
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kinds[image_format], quality=95)
    return buffer.getvalue()


def resize_smallest_side(pixels: np.ndarray, size: int) -> np.ndarray:
    """The smaller side becomes `size`, the other keeps the proportions."""
    from PIL import Image, ImageOps

    return np.asarray(ImageOps.cover(Image.fromarray(pixels), (size, size), Image.Resampling.LANCZOS))


def fit_image(pixels: np.ndarray, size: int, rng: np.random.Generator | None = None) -> np.ndarray:
    """UInt8[size, size, 3]: the largest square, from the centre, or from anywhere when `rng` is given."""
    from PIL import Image, ImageOps

    place = (rng.random(), rng.random()) if rng else (0.5, 0.5)
    fitted = ImageOps.fit(Image.fromarray(pixels), (size, size), Image.Resampling.LANCZOS, centering=place)
    return np.asarray(fitted)
