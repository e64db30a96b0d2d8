"""From bytes to what AlexNet takes, on the device: enlarged, three channels, normalised."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Mean and deviation of ImageNet's channels (red, green, blue), with which torchvision's networks were
#: trained.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_DEVIATION = (0.229, 0.224, 0.225)


def enlarging_matrix(size: int, side: int = 28) -> NDArray[np.float32]:
    """[size, side] M with `M @ image @ M.T` the bilinear enlargement (half-pixel centres, edges held).

    A resize written as two matrix products: static, and what a matrix unit does best.
    """
    place = np.clip((np.arange(size) + 0.5) * side / size - 0.5, 0, side - 1)
    lower = np.floor(place).astype(int)
    upper = np.minimum(lower + 1, side - 1)
    matrix = np.zeros((size, side), np.float32)
    np.add.at(matrix, (np.arange(size), lower), 1 - (place - lower))
    np.add.at(matrix, (np.arange(size), upper), place - lower)
    return matrix


def prepare_images(pixels: Any, enlarge: Any, mean: Any, deviation: Any) -> Any:
    """uint8 [image, 28, 28] to float [image, 3, size, size].

    Args:
        pixels: bytes; they travel to the device as such, a quarter of the traffic of floats.
        enlarge: `enlarging_matrix(size)` on the device.
        mean, deviation: [3, 1, 1] on the device.
    """
    grey = enlarge @ (pixels.to(enlarge.dtype) / 255) @ enlarge.T  # [image, size, size]
    return (grey[:, None] - mean) / deviation
