"""Image files: read, converted to RGB, resized and cropped to the size for training."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

import numpy as np

from tpulab_recipes.common.errors import DataError
from tpulab_recipes.common.inputs import unexpected_kind

if TYPE_CHECKING:
    from PIL import Image as pil

#: Images with more pixels are refused: a small file can claim enough of them to fill the memory.
MAX_PIXELS = 64_000_000
# Pillow's own limit is higher, and only a warning.
warnings.filterwarnings("ignore", r"Image size \(\d+ pixels\) exceeds limit")

#: The background of transparent pixels: white, as in a browser.
GROUND = (255, 255, 255)


def decode_image(data: bytes, name: str = "image") -> np.ndarray:
    """UInt8[height, width, 3] of an image file, as a viewer shows it: turned by its EXIF orientation,
    transparent pixels on white, 16 bits scaled to 8.

    Raises `DataError` for anything that is not an image, is cut off, or has more than `MAX_PIXELS`.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.width * image.height > MAX_PIXELS:
                raise DataError(
                    f"{name} has {image.width} x {image.height} pixels; at most {MAX_PIXELS:,} are read."
                )
            return np.asarray(_as_rgb(ImageOps.exif_transpose(image)))
    except DataError:
        raise
    except UnidentifiedImageError as error:
        kind = unexpected_kind(data[:512]) or "is in no image format that Pillow reads"
        if is_heic(data):
            kind = "is a HEIC image, which Pillow does not read; convert it to JPEG"
        raise DataError(f"{name} cannot be read as an image: it {kind}.") from error
    # The decoders below Pillow raise whatever a damaged file happens to break.
    except Exception as error:
        raise DataError(
            f"{name} cannot be read as an image: {str(error).rstrip('.') or 'damaged'}."
        ) from error


def is_heic(data: bytes) -> bool:
    """Whether this is a HEIC image, the format of many phones."""
    return data[4:8] == b"ftyp" and data[8:12] in (b"heic", b"heix", b"hevc", b"mif1", b"msf1")


def _as_rgb(image: pil.Image) -> pil.Image:
    from PIL import Image

    if image.mode.startswith("I") or image.mode == "F":
        # Pillow clips deep grey images at 255 instead of scaling them.
        deep = np.nan_to_num(np.asarray(image, np.float64))
        full = 65535.0 if deep.max(initial=0) > 255 or image.mode.startswith("I;16") else 255.0
        if image.mode == "F" and deep.max(initial=0) <= 1:
            full = 1.0
        return Image.fromarray(np.clip(deep * (255 / full) + 0.5, 0, 255).astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        layered = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layered.size, GROUND), layered).convert("RGB")
    return image.convert("RGB")


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
