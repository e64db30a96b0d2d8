"""What the models and losses of GPT-SoVITS share, in static shapes: masks, slices, weight norm, losses.

The original is RVC-Boss/GPT-SoVITS 48b1a01 (`module/commons.py`, `losses.py`); slicing and masks have no
data-dependent shape here, and nothing reads a value back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


def get_xla_device() -> torch.device:
    """The device of this process's backend, as `module.tpu.utils` names it."""
    from tpulab_recipes import runtime

    device: torch.device = runtime.current().device()
    return device


def mark_step() -> None:
    """Hands recorded operations to the device. One after each pair of updates is enough: inside a layer it
    would only cut the program into pieces."""
    from tpulab_recipes import runtime

    with runtime.current().step():
        pass


def sequence_mask(lengths: torch.Tensor, longest: int) -> torch.Tensor:
    """Bool[batch, longest]: true before each length. `longest` is a number, never read from the device."""
    return torch.arange(longest, device=lengths.device)[None] < lengths[:, None]


def mask_of(lengths: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Float[batch, 1, time] for Float[batch, channel, time]."""
    return sequence_mask(lengths, like.shape[2])[:, None].to(like.dtype)


def slice_segments(x: torch.Tensor, starts: torch.Tensor, size: int) -> torch.Tensor:
    """Float[batch, channel, size] of Float[batch, channel, time]: one window of each row, by gather."""
    places = starts.long()[:, None] + torch.arange(size, device=x.device)
    return x.gather(2, places[:, None].expand(-1, x.shape[1], -1))


def rand_slice_segments(
    x: torch.Tensor, lengths: torch.Tensor, size: int, uniform: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Windows that begin anywhere with equal probability, and their first places, Int[batch].

    `uniform` (Float[batch] in [0, 1)) is drawn on the device where it is not given. A row shorter than the
    window begins at 0; the original's start would be negative.
    """
    if uniform is None:
        uniform = torch.rand(x.shape[0], device=x.device)
    # Float32 could round u * n up to n: the last place is the last that fits.
    room = (lengths - size + 1).clamp(min=1)
    starts = torch.minimum((uniform * room).long(), room.long() - 1)
    return slice_segments(x, starts, size), starts


def gated(a: torch.Tensor, b: torch.Tensor | float) -> torch.Tensor:
    """tanh of the first half of the channels of a + b, times the sigmoid of the second."""
    first, second = (a + b).chunk(2, dim=1)
    return first.tanh() * second.sigmoid()


def grad_norm(parameters: Iterable[torch.Tensor]) -> torch.Tensor:
    """2-norm of all gradients together, as one vector: a sum for each takes long to compile. Nothing is
    clipped, as in the original, whose `clip_grad_value_` gets no value."""
    found = [each.grad.float().reshape(-1) for each in parameters if each.grad is not None]
    return torch.cat(found).square().sum().sqrt()


def twice(x: torch.Tensor) -> torch.Tensor:
    """Each frame two times: nearest-neighbour upsampling, which torch_xla does not lower in one dimension."""
    return x[..., None].expand(*x.shape, 2).flatten(-2)


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
    """Plain weights: faster, for a model that only speaks. `unfold_weight_norm` undoes it."""
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


def kl_loss(
    z_p: torch.Tensor,
    logs_q: torch.Tensor,
    m_p: torch.Tensor,
    logs_p: torch.Tensor,
    mask: torch.Tensor,
    mean_over_processes: Callable[[torch.Tensor], torch.Tensor] = lambda count: count,
) -> torch.Tensor:
    """KL(posterior || prior), per frame that counts (VITS, Kim et al. 2021, equation 4) in all processes."""
    z_p, logs_q, m_p, logs_p, mask = (each.float() for each in (z_p, logs_q, m_p, logs_p, mask))
    kl = logs_p - logs_q - 0.5 + 0.5 * (z_p - m_p).square() * (-2 * logs_p).exp()
    return (kl * mask).sum() / mean_over_processes(mask.sum())
