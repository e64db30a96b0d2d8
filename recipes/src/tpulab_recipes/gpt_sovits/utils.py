"""What the models and losses of GPT-SoVITS share, in static shapes: masks, slices, losses.

The original is RVC-Boss/GPT-SoVITS 48b1a01 (`module/commons.py`, `losses.py`); slicing and masks have no
data-dependent shape here, and nothing reads a value back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch


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
