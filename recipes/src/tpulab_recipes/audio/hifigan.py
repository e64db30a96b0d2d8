"""HiFi-GAN (Kong et al. 2020): a generator of waves, its discriminators and their losses. It is the vocoder
of English TTS and the last part of GPT-SoVITS, and has the parameter names of the original's checkpoints.

Float[batch, channel, time] throughout.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tpulab_recipes.runtime.precision import full_precision

SLOPE = 0.1


def same(kernel: int, dilation: int = 1) -> int:
    return (kernel * dilation - dilation) // 2


# Weight norm under the names of the original's checkpoints: weight_g and weight_v, or a folded weight.


def _weight(layer: Any) -> torch.Tensor:
    if "weight" in layer._parameters:
        folded: torch.Tensor = layer.weight
        return folded
    direction = layer.weight_v
    norm = direction.square().sum(tuple(range(1, direction.dim())), keepdim=True).sqrt()
    scaled: torch.Tensor = direction * (layer.weight_g / norm)
    return scaled


class NormConv1d(nn.Conv1d):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self._conv_forward(input, _weight(self), self.bias)


class NormConv2d(nn.Conv2d):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self._conv_forward(input, _weight(self), self.bias)


class NormConvTranspose1d(nn.ConvTranspose1d):
    def forward(self, input: torch.Tensor, output_size: list[int] | None = None) -> torch.Tensor:  # noqa: ARG002
        weight = _weight(self)
        return F.conv_transpose1d(input, weight, self.bias, self.stride, self.padding, dilation=self.dilation)


NORMED = (NormConv1d, NormConv2d, NormConvTranspose1d)


def weight_norm(layer: Any) -> Any:
    """Replaces the layer's weight by its length per first index (weight_g) and its direction (weight_v)."""
    weight = layer.weight.detach()
    del layer._parameters["weight"]
    norm = weight.square().sum(tuple(range(1, weight.dim())), keepdim=True).sqrt()
    layer.weight_g, layer.weight_v = nn.Parameter(norm), nn.Parameter(weight.clone())
    return layer


def fold_weight_norm(model: nn.Module) -> nn.Module:
    """Plain weights: faster, for a model that is not trained further. `unfold_weight_norm` undoes it."""
    for layer in (each for each in model.modules() if isinstance(each, NORMED)):
        if "weight" not in layer._parameters:
            weight = _weight(layer).detach()
            del layer._parameters["weight_g"], layer._parameters["weight_v"]
            layer.weight = nn.Parameter(weight)
    return model


def unfold_weight_norm(model: nn.Module) -> nn.Module:
    for layer in (each for each in model.modules() if isinstance(each, NORMED)):
        if "weight" in layer._parameters:
            weight_norm(layer)
    return model


def _residual_convs(channels: int, kernel: int, dilation: Sequence[int]) -> nn.ModuleList:
    convs = nn.ModuleList()
    for wide in dilation:
        made = NormConv1d(channels, channels, kernel, dilation=wide, padding=same(kernel, wide))
        nn.init.normal_(made.weight, 0.0, 0.01)
        convs.append(weight_norm(made))
    return convs


class ResBlock1(nn.Module):
    def __init__(self, channels: int, kernel: int, dilation: Sequence[int]) -> None:
        super().__init__()
        self.convs1 = _residual_convs(channels, kernel, dilation)
        self.convs2 = _residual_convs(channels, kernel, [1] * len(dilation))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for first, second in zip(self.convs1, self.convs2, strict=True):
            x = second(F.leaky_relu(first(F.leaky_relu(x, SLOPE)), SLOPE)) + x
        return x


class ResBlock2(nn.Module):
    def __init__(self, channels: int, kernel: int, dilation: Sequence[int]) -> None:
        super().__init__()
        self.convs = _residual_convs(channels, kernel, dilation)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for conv in self.convs:
            x = conv(F.leaky_relu(x, SLOPE)) + x
        return x


class Generator(nn.Module):
    """HiFi-GAN: Float[batch, 1, time * prod(rates)] of Float[batch, channel, time]. The last layer has no
    bias and a slope of 0.01 before it."""

    def __init__(
        self,
        initial_channel: int,
        resblock: str,
        resblock_kernel_sizes: Sequence[int],
        resblock_dilation_sizes: Sequence[Sequence[int]],
        upsample_rates: Sequence[int],
        upsample_initial_channel: int,
        upsample_kernel_sizes: Sequence[int],
        gin_channels: int = 0,
    ) -> None:
        super().__init__()
        block: Any = ResBlock1 if resblock == "1" else ResBlock2
        self.conv_pre = nn.Conv1d(initial_channel, upsample_initial_channel, 7, padding=3)
        self.ups, self.resblocks = nn.ModuleList(), nn.ModuleList()
        width = upsample_initial_channel
        for rate, kernel in zip(upsample_rates, upsample_kernel_sizes, strict=True):
            up = NormConvTranspose1d(width, width // 2, kernel, rate, padding=(kernel - rate) // 2)
            nn.init.normal_(up.weight, 0.0, 0.01)
            self.ups.append(weight_norm(up))
            width //= 2
            for size, dilation in zip(resblock_kernel_sizes, resblock_dilation_sizes, strict=True):
                self.resblocks.append(block(width, size, tuple(dilation)))
        self.conv_post = nn.Conv1d(width, 1, 7, padding=3, bias=False)
        if gin_channels:
            self.cond = nn.Conv1d(gin_channels, upsample_initial_channel, 1)

    def forward(self, x: torch.Tensor, g: torch.Tensor | None = None) -> torch.Tensor:
        x = self.conv_pre(x)
        if g is not None:
            x = x + self.cond(g)
        count = len(self.resblocks) // len(self.ups)
        for number, up in enumerate(self.ups):
            x = up(F.leaky_relu(x, SLOPE))
            blocks: Any = self.resblocks[number * count : (number + 1) * count]
            total = blocks[0](x)
            for each in blocks[1:]:
                total = total + each(x)
            x = total / count
        # A bfloat16 wave has 8 bits of precision: its noise fills every silence, in the mel loss and audibly.
        with full_precision(x):
            wave: torch.Tensor = self.conv_post(F.leaky_relu(x.float())).tanh()
        return wave


# The discriminators: one of the wave as it is, and one for each period, which sees every p-th sample.

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
    """`divisor` makes it narrower, for lessons. Returns the scores of the real and of the generated wave,
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
        """y, y_hat: Float[batch, 1, sample]. Equally long ones are judged in one pass, with their rows
        interleaved: half the operations to compile, and rows stay on their device."""
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


# Losses. Scores and feature maps are lists over the discriminators.

Scores = Sequence[torch.Tensor]


def discriminator_loss(real: Scores, generated: Scores) -> torch.Tensor:
    """Sum of mean((1 - D(y))²) + mean(D(ŷ)²): least squares (Mao et al. 2017), on the device."""
    pairs = zip(real, generated, strict=True)
    return torch.stack([(1 - r.float()).square().mean() + g.float().square().mean() for r, g in pairs]).sum()


def generator_loss(generated: Scores) -> torch.Tensor:
    return torch.stack([(1 - each.float()).square().mean() for each in generated]).sum()


def feature_loss(real: Sequence[Scores], generated: Sequence[Scores]) -> torch.Tensor:
    """2 x the sum of mean |f(y) - f(ŷ)| over all layers; the real side gets no gradient."""
    pairs = [(r, g) for rs, gs in zip(real, generated, strict=True) for r, g in zip(rs, gs, strict=True)]
    return 2 * torch.stack([(r.float().detach() - g.float()).abs().mean() for r, g in pairs]).sum()
