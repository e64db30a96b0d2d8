"""AlexNet: five convolutions, three linear layers; and its input, computed from bytes on the device.

Krizhevsky, "One weird trick for parallelizing convolutional neural networks" (2014), the one-column form that
torchvision has; parameter names are torchvision's, so its weights load as they are. The pooling to 6 x 6
before the classifier is written without `AdaptiveAvgPool2d`, which XLA runs only where the sizes divide and
otherwise hands back to the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

#: Channels of the convolutions and width of the linear layers at width 1.
_CHANNELS = (64, 192, 384, 256, 256)
_LINEAR = 4096
_POOLED = 6
#: Mean and deviation of ImageNet's channels (red, green, blue), with which torchvision's networks were
#: trained.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_DEVIATION = (0.229, 0.224, 0.225)


def _scaled(number: int, width: float) -> int:
    return max(8, round(number * width / 8) * 8)


class FixedAveragePool(nn.Module):
    """Averages to 6 x 6: [n, c, 1, 1] is repeated, [n, c, 6k, 6k] is averaged over k x k. Other sizes are
    refused."""

    def forward(self, x: Any) -> Any:
        height, width = x.shape[-2:]
        if (height, width) == (_POOLED, _POOLED):
            return x
        if (height, width) == (1, 1):
            return x.expand(-1, -1, _POOLED, _POOLED)
        if height == width and height % _POOLED == 0:
            return nn.functional.avg_pool2d(x, height // _POOLED)
        raise ValueError(
            f"Features of {height} x {width} do not divide into 6 x 6; choose an image_size of 64 or 224."
        )


class AlexNet(nn.Module):
    """Logits [image, classes] for images [image, 3, size, size]."""

    def __init__(self, classes: int = 10, *, width: float = 1.0, dropout: float = 0.5) -> None:
        super().__init__()
        c1, c2, c3, c4, c5 = (_scaled(channels, width) for channels in _CHANNELS)
        linear = _scaled(_LINEAR, width)
        self.features = nn.Sequential(
            nn.Conv2d(3, c1, kernel_size=11, stride=4, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(c1, c2, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(c2, c3, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(c3, c4, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(c4, c5, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(kernel_size=3, stride=2),
        )
        self.avgpool = FixedAveragePool()
        self.classifier = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(c5 * _POOLED * _POOLED, linear),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(linear, linear),
            nn.ReLU(),
            nn.Linear(linear, classes),
        )

    def forward(self, images: Any) -> Any:
        features = self.avgpool(self.features(images))
        return self.classifier(features.flatten(1))


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
