"""AlexNet: five convolutions, three linear layers.

Krizhevsky, "One weird trick for parallelizing convolutional neural networks" (2014), the one-column form that
torchvision has; parameter names are torchvision's, so its weights load as they are. The pooling to 6 x 6
before the classifier is written without `AdaptiveAvgPool2d`, which XLA runs only where the sizes divide and
otherwise hands back to the host.
"""

from __future__ import annotations

from typing import Any

from torch import nn

#: Channels of the convolutions and width of the linear layers at width 1.
_CHANNELS = (64, 192, 384, 256, 256)
_LINEAR = 4096
_POOLED = 6


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
