"""ResNet18 for images of 32 x 32 pixels.

He et al., "Deep Residual Learning for Image Recognition" (2015): blocks 2-2-2-2. For small images the first
convolution is 3 x 3 without stride and there is no pooling after it. Parameter names are torchvision's.
"""

from __future__ import annotations

from typing import Any

from torch import nn

_CHANNELS = (64, 128, 256, 512)


class Block(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut: [n, in, h, w] to [n, out, h / stride, w / stride]."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        # Named as in torchvision; None where the shapes agree already.
        self.downsample = (
            None
            if stride == 1 and inputs == outputs
            else nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )
        )

    def forward(self, x: Any) -> Any:
        y = nn.functional.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return nn.functional.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    """Log-probabilities [image, classes] for images [image, 3, 32, 32]."""

    def __init__(self, classes: int = 10, *, width: float = 1.0) -> None:
        super().__init__()
        c1, c2, c3, c4 = (max(8, int(channels * width)) for channels in _CHANNELS)
        self.conv1 = nn.Conv2d(3, c1, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(c1)
        self.layer1 = nn.Sequential(Block(c1, c1, 1), Block(c1, c1, 1))
        self.layer2 = nn.Sequential(Block(c1, c2, 2), Block(c2, c2, 1))
        self.layer3 = nn.Sequential(Block(c2, c3, 2), Block(c3, c3, 1))
        self.layer4 = nn.Sequential(Block(c3, c4, 2), Block(c4, c4, 1))
        self.fc = nn.Linear(c4, classes)

    def forward(self, images: Any) -> Any:
        x = nn.functional.relu(self.bn1(self.conv1(images)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return nn.functional.log_softmax(self.fc(x.mean(dim=(2, 3))), dim=-1)
