"""Pictures of arrays: grids, PNG files, and the noise of the forward process made visible."""

from __future__ import annotations

import io

import numpy as np


def grid(images: np.ndarray, columns: int, scale: int = 1, gap: int = 1) -> np.ndarray:
    """Float[height, width, 3] of Float[image, height, width, 3]; each pixel `scale` times as large."""
    count, height, width, channels = images.shape
    rows = -(-count // columns)
    enlarged = images.repeat(scale, axis=1).repeat(scale, axis=2)
    height, width = height * scale + gap, width * scale + gap
    sheet = np.ones((rows * height + gap, columns * width + gap, channels), np.float32)
    for index, image in enumerate(enlarged):
        top, left = (index // columns) * height + gap, (index % columns) * width + gap
        sheet[top : top + height - gap, left : left + width - gap] = image
    return sheet


def png(image: np.ndarray) -> bytes:
    """A PNG file of Float[height, width, 3] in [-1, 1]."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.uint8(np.clip(np.round((image + 1) * 127.5), 0, 255))).save(buffer, "PNG")
    return buffer.getvalue()
