"""The discriminators: one of the wave as it is, and one for each period, which sees every p-th sample in a
column (HiFi-GAN, Kong et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tpulab_recipes.gpt_sovits.modules import SLOPE
from tpulab_recipes.gpt_sovits.utils import NormConv1d, NormConv2d, weight_norm

PERIODS = (2, 3, 5, 7, 11)
_S_GROUPS = (1, 4, 16, 64, 256, 1)


def s_channels(divisor: int = 1) -> tuple[int, ...]:
    """The original's channels, from input to last layer, divided for small models."""
    return (1, *(max(1, each // divisor) for each in (16, 64, 256, 1024, 1024, 1024)))


def p_channels(divisor: int = 1) -> tuple[int, ...]:
    return (1, *(max(1, each // divisor) for each in (32, 128, 512, 1024, 1024)))


class _Discriminator(nn.Module):
    convs: nn.ModuleList
    conv_post: nn.Module

    def _judge(self, x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        maps = []
        for conv in self.convs:
            x = F.leaky_relu(conv(x), SLOPE)
            maps.append(x)
        x = self.conv_post(x)
        return x.flatten(1), [*maps, x]


class DiscriminatorP(_Discriminator):
    def __init__(self, period: int, channels: Sequence[int] = p_channels()) -> None:
        super().__init__()
        self.period = period
        self.convs = nn.ModuleList()
        for number, (n_in, n_out) in enumerate(pairwise(channels)):
            stride = 1 if number == len(channels) - 2 else 3
            conv = NormConv2d(n_in, n_out, (5, 1), (stride, 1), padding=(2, 0))
            self.convs.append(weight_norm(conv))
        self.conv_post = weight_norm(NormConv2d(channels[-1], 1, (3, 1), padding=(1, 0)))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        lacking = -x.shape[2] % self.period
        if lacking:
            # The end mirrored, by slices: torch_xla does not lower reflection_pad1d.
            x = torch.cat([x, x[:, :, -lacking - 1 : -1].flip(2)], 2)
        return self._judge(x.unflatten(2, (-1, self.period)))


class DiscriminatorS(_Discriminator):
    def __init__(self, channels: Sequence[int] = s_channels(), groups: Sequence[int] = _S_GROUPS) -> None:
        super().__init__()
        shapes = ((15, 1), (41, 4), (41, 4), (41, 4), (41, 4), (5, 1))
        self.convs = nn.ModuleList(
            weight_norm(NormConv1d(n_in, n_out, kernel, stride, groups=group, padding=kernel // 2))
            for n_in, n_out, (kernel, stride), group in zip(
                channels, channels[1:], shapes, groups, strict=False
            )
        )
        self.conv_post = weight_norm(NormConv1d(channels[-1], 1, 3, padding=1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        return self._judge(x)


class MultiPeriodDiscriminator(nn.Module):
    """`divisor` makes it narrower, for lessons. Its answers: scores of the real and of the generated wave,
    and the feature maps of both, each a list over the discriminators."""

    def __init__(self, periods: Sequence[int] = PERIODS, divisor: int = 1) -> None:
        super().__init__()
        groups = tuple(max(1, each // divisor) for each in _S_GROUPS)
        self.discriminators = nn.ModuleList(
            [
                DiscriminatorS(s_channels(divisor), groups),
                *(DiscriminatorP(period, p_channels(divisor)) for period in periods),
            ]
        )

    def forward(self, y: torch.Tensor, y_hat: torch.Tensor) -> Any:
        """y, y_hat: Float[batch, 1, sample]. Equally long, each row stands beside its generated twin, in one
        pass: half the operations to compile, and rows stay on their device."""
        if y.shape != y_hat.shape:
            (rs, maps_r), (gs, maps_g) = self.judge(y), self.judge(y_hat)
            return rs, gs, maps_r, maps_g
        both = torch.stack([y, y_hat], 1).flatten(0, 1)
        found = [each(both) for each in self.discriminators]
        (rs, maps_r), (gs, maps_g) = (
            ([score[n::2] for score, _ in found], [[each[n::2] for each in maps] for _, maps in found])
            for n in (0, 1)
        )
        return rs, gs, maps_r, maps_g

    def judge(self, y: torch.Tensor) -> tuple[list[torch.Tensor], list[list[torch.Tensor]]]:
        """Scores and feature maps of one wave."""
        found = [each(y) for each in self.discriminators]
        return [score for score, _ in found], [maps for _, maps in found]
