"""Layers of GPT-SoVITS under the original's names (RVC-Boss/GPT-SoVITS 48b1a01): attention with relative
places, WaveNet stacks, flows, the style encoder, MRTE, the vector quantiser; before them masks, slices and
losses. Shapes are static, and nothing reads a value back. Float[batch, channel, time] throughout; masks are
Float[batch, 1, time].
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tpulab_recipes.audio.hifigan import NormConv1d, same, weight_norm


def get_xla_device() -> torch.device:
    """The device of this process's backend, as `module.tpu.utils` names it."""
    from tpulab_recipes import runtime

    device: torch.device = runtime.current().device()
    return device


def mark_step() -> None:
    """Submits recorded operations to the device. One call after each pair of updates is enough: inside a
    layer it would only split the program."""
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
    # Float32 could round u * n up to n, so the start is limited to the last place that fits.
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


def named(name: str, layer: nn.Module) -> nn.Sequential:
    """A layer under its own name, as in the keys of the original's wrappers."""
    return nn.Sequential(OrderedDict({name: layer}))


class LayerNorm(nn.Module):
    """Layer norm over the channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x.transpose(1, -1), self.gamma.shape, self.gamma, self.beta).transpose(1, -1)


# Attention (`module/attentions.py`).


class MultiHeadAttention(nn.Module):
    """Attention whose nearest `window` places have their own embeddings (Shaw et al. 2018), shared by the
    heads. Masked scores are -1e4, not -inf: rows of padded queries stay finite."""

    def __init__(self, channels: int, out: int, heads: int, p_dropout: float = 0.0, window: int = 0) -> None:
        super().__init__()
        self.heads, self.window, width = heads, window, channels // heads
        self.conv_q, self.conv_k, self.conv_v = (nn.Conv1d(channels, channels, 1) for _ in range(3))
        self.conv_o = nn.Conv1d(channels, out, 1)
        self.drop = nn.Dropout(p_dropout)
        if window:
            self.emb_rel_k = nn.Parameter(torch.randn(1, 2 * window + 1, width) * width**-0.5)
            self.emb_rel_v = nn.Parameter(torch.randn(1, 2 * window + 1, width) * width**-0.5)
        for conv in (self.conv_q, self.conv_k, self.conv_v):
            nn.init.xavier_uniform_(conv.weight)

    def forward(self, x: torch.Tensor, c: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """mask: Float[batch, 1, query, key]."""
        query, key, value = (
            conv(given).unflatten(1, (self.heads, -1)).transpose(2, 3)
            for conv, given in ((self.conv_q, x), (self.conv_k, c), (self.conv_v, c))
        )
        query = query / math.sqrt(query.shape[-1])
        scores = query @ key.transpose(-2, -1)
        if self.window:
            scores = scores + self._to_places(query @ self.emb_rel_k.transpose(-2, -1))
        dropped = self.drop(scores.masked_fill(mask == 0, -1e4).softmax(-1))
        out = dropped @ value
        if self.window:
            out = out + self._to_distances(dropped) @ self.emb_rel_v
        mixed: torch.Tensor = self.conv_o(out.transpose(2, 3).flatten(1, 2))
        return mixed

    def _to_places(self, x: torch.Tensor) -> torch.Tensor:
        """Float[…, i, j] of Float[…, i, j - i + window], 0 beyond the window. Rows that are written one
        element longer than they are read shift by one place each: padding and reshapes only."""
        time, window = x.shape[-2], self.window
        skewed = F.pad(x, (0, time)).flatten(-2)[..., : time * (time + 2 * window)]
        return skewed.unflatten(-1, (time, time + 2 * window))[..., window : window + time]

    def _to_distances(self, x: torch.Tensor) -> torch.Tensor:
        """Float[…, i, j - i + window] of Float[…, i, j]: the way back."""
        time, window = x.shape[-1], self.window
        flat = F.pad(F.pad(x, (window, window)).flatten(-2), (0, time))
        return flat.unflatten(-1, (time, time + 2 * window + 1))[..., : 2 * window + 1]


class FFN(nn.Module):
    def __init__(self, channels: int, out: int, filters: int, kernel: int, p_dropout: float) -> None:
        super().__init__()
        self.pads = ((kernel - 1) // 2, kernel // 2)
        self.conv_1, self.conv_2 = nn.Conv1d(channels, filters, kernel), nn.Conv1d(filters, out, kernel)
        self.drop = nn.Dropout(p_dropout)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.drop(self.conv_1(F.pad(x * mask, self.pads)).relu())
        filtered: torch.Tensor = self.conv_2(F.pad(x * mask, self.pads)) * mask
        return filtered


class AttentionEncoder(nn.Module):
    """`attentions.Encoder`: norms after attention and after the convolutions."""

    def __init__(
        self,
        hidden: int,
        filters: int,
        heads: int,
        layers: int,
        kernel: int = 1,
        p_dropout: float = 0.0,
        window: int = 4,
    ) -> None:
        super().__init__()
        self.drop = nn.Dropout(p_dropout)
        numbers = range(layers)
        self.attn_layers = nn.ModuleList(
            MultiHeadAttention(hidden, hidden, heads, p_dropout, window) for _ in numbers
        )
        self.norm_layers_1 = nn.ModuleList(LayerNorm(hidden) for _ in numbers)
        self.ffn_layers = nn.ModuleList(FFN(hidden, hidden, filters, kernel, p_dropout) for _ in numbers)
        self.norm_layers_2 = nn.ModuleList(LayerNorm(hidden) for _ in numbers)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        pairs, x = mask[:, :, :, None] * mask[:, :, None], x * mask
        layers = (self.attn_layers, self.norm_layers_1, self.ffn_layers, self.norm_layers_2)
        for attend, norm_1, feed, norm_2 in zip(*layers, strict=True):
            x = norm_1(x + self.drop(attend(x, x, pairs)))
            x = norm_2(x + self.drop(feed(x, mask)))
        return x * mask


# Convolutions (`module/modules.py`).


class WN(nn.Module):
    """Gated dilated convolutions with residuals and skips (WaveNet, van den Oord et al. 2016), conditioned
    on g: Float[batch, gin, 1]."""

    def __init__(self, hidden: int, kernel: int, dilation_rate: int, layers: int, gin: int = 0) -> None:
        super().__init__()
        self.in_layers, self.res_skip_layers = nn.ModuleList(), nn.ModuleList()
        if gin:
            self.cond_layer = weight_norm(NormConv1d(gin, 2 * hidden * layers, 1))
        for number in range(layers):
            wide = dilation_rate**number
            conv = NormConv1d(hidden, 2 * hidden, kernel, dilation=wide, padding=same(kernel, wide))
            self.in_layers.append(weight_norm(conv))
            out = hidden if number == layers - 1 else 2 * hidden
            self.res_skip_layers.append(weight_norm(NormConv1d(hidden, out, 1)))

    def forward(self, x: torch.Tensor, mask: torch.Tensor, g: torch.Tensor | None = None) -> torch.Tensor:
        last = len(self.in_layers) - 1
        conditions: Any = [0.0] * (last + 1)
        if g is not None:
            conditions = self.cond_layer(g).chunk(last + 1, dim=1)
        output: Any = 0.0
        for number, (inner, outer) in enumerate(zip(self.in_layers, self.res_skip_layers, strict=True)):
            passed = outer(gated(inner(x), conditions[number]))
            if number < last:
                residual, passed = passed.chunk(2, dim=1)
                x = (x + residual) * mask
            output = output + passed
        skipped: torch.Tensor = output * mask
        return skipped


class DDSConv(nn.Module):
    """Dilated convolutions, one for each channel, then across channels."""

    def __init__(self, channels: int, kernel: int, layers: int, p_dropout: float = 0.0) -> None:
        super().__init__()
        self.drop = nn.Dropout(p_dropout)
        self.convs_sep, self.convs_1x1 = nn.ModuleList(), nn.ModuleList()
        self.norms_1, self.norms_2 = nn.ModuleList(), nn.ModuleList()
        for number in range(layers):
            wide = kernel**number
            pads = {"groups": channels, "dilation": wide, "padding": same(kernel, wide)}
            self.convs_sep.append(nn.Conv1d(channels, channels, kernel, **pads))
            self.convs_1x1.append(nn.Conv1d(channels, channels, 1))
            self.norms_1.append(LayerNorm(channels))
            self.norms_2.append(LayerNorm(channels))

    def forward(self, x: torch.Tensor, mask: torch.Tensor, g: torch.Tensor | None = None) -> torch.Tensor:
        if g is not None:
            x = x + g
        layers = (self.convs_sep, self.norms_1, self.convs_1x1, self.norms_2)
        for apart, norm_1, across, norm_2 in zip(*layers, strict=True):
            y = F.gelu(norm_1(apart(x * mask)))
            x = x + self.drop(F.gelu(norm_2(across(y))))
        return x * mask


# Flows: forward returns (y, log-determinant of each row), `reverse=True` returns x.


class Log(nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.clamp(min=1e-5).log() * mask
        return y, -y.sum((1, 2))


class Flip(nn.Module):
    def forward(self, x: torch.Tensor, *_: Any, reverse: bool = False, **__: Any) -> Any:
        x = x.flip(1)
        return x if reverse else (x, x.new_zeros(x.shape[0]))


class ElementwiseAffine(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.m, self.logs = nn.Parameter(torch.zeros(channels, 1)), nn.Parameter(torch.zeros(channels, 1))

    def forward(self, x: torch.Tensor, mask: torch.Tensor, *, reverse: bool = False, **_: Any) -> Any:
        if reverse:
            return (x - self.m) * (-self.logs).exp() * mask
        return (self.m + self.logs.exp() * x) * mask, (self.logs * mask).sum((1, 2))


class ResidualCouplingLayer(nn.Module):
    """The second half of the channels is shifted by a function of the first half; zero at the start."""

    def __init__(self, channels: int, hidden: int, kernel: int, dilation: int, layers: int, gin: int) -> None:
        super().__init__()
        half = channels // 2
        self.pre = nn.Conv1d(half, hidden, 1)
        self.enc = WN(hidden, kernel, dilation, layers, gin)
        self.post = nn.Conv1d(hidden, half, 1)
        nn.init.zeros_(self.post.weight)
        nn.init.zeros_(self.post.bias)

    def forward(
        self, x: torch.Tensor, mask: torch.Tensor, g: torch.Tensor | None = None, *, reverse: bool = False
    ) -> torch.Tensor:
        kept, moved = x.chunk(2, dim=1)
        shift = self.post(self.enc(self.pre(kept) * mask, mask, g=g)) * mask
        moved = (moved - shift) * mask if reverse else shift + moved * mask
        return torch.cat([kept, moved], 1)


class ConvFlow(nn.Module):
    """A spline of the second channel, whose knots the first determines (Durkan et al. 2019)."""

    def __init__(self, channels: int, filters: int, kernel: int, layers: int, bins: int = 10) -> None:
        super().__init__()
        self.filters, self.bins, half = filters, bins, channels // 2
        self.pre = nn.Conv1d(half, filters, 1)
        self.convs = DDSConv(filters, kernel, layers)
        self.proj = nn.Conv1d(filters, half * (bins * 3 - 1), 1)
        nn.init.zeros_(self.proj.weight)
        nn.init.zeros_(self.proj.bias)

    def forward(
        self, x: torch.Tensor, mask: torch.Tensor, g: torch.Tensor | None = None, *, reverse: bool = False
    ) -> Any:
        kept, moved = x.chunk(2, dim=1)
        h = self.proj(self.convs(self.pre(kept), mask, g=g)) * mask
        h = h.unflatten(1, (kept.shape[1], -1)).transpose(2, 3)
        widths, heights = (
            h[..., n * self.bins : (n + 1) * self.bins] / math.sqrt(self.filters) for n in (0, 1)
        )
        moved, logdet = spline(moved, widths, heights, h[..., 2 * self.bins :], inverse=reverse)
        x = torch.cat([kept, moved], 1) * mask
        return x if reverse else (x, (logdet * mask).sum((1, 2)))


def spline(
    x: torch.Tensor,
    widths: torch.Tensor,
    heights: torch.Tensor,
    derivatives: torch.Tensor,
    *,
    inverse: bool = False,
    bound: float = 5.0,
    least: float = 1e-3,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Monotone rational-quadratic spline on [-bound, bound], the identity outside (Durkan et al. 2019,
    equations 4 to 8), and its log-derivative. Every value is computed as if inside; `where` chooses.

    Args:
        x: Float[…].
        widths, heights: Float[…, bin], before the softmax. derivatives: Float[…, bin - 1], before softplus.
    """
    bins = widths.shape[-1]
    inside = (x >= -bound) & (x <= bound)
    within = x.clamp(-bound, bound)

    def knots(free: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shares = least + (1 - least * bins) * free.softmax(-1)
        inner = 2 * bound * shares.cumsum(-1)[..., :-1] - bound
        edge = torch.full_like(inner[..., :1], bound)
        places = torch.cat([-edge, inner, edge], -1)
        return places, places[..., 1:] - places[..., :-1]

    (xs, steps), (ys, rises) = knots(widths), knots(heights)
    # So that the derivative is 1 at both ends.
    at_ends = math.log(math.exp(1 - least) - 1)
    slopes = least + F.softplus(F.pad(derivatives, (1, 1), value=at_ends))
    known = ys if inverse else xs
    # The number of inner knots at or below the value is the number of its bin, 0 to bins - 1.
    which = (within[..., None] >= known[..., 1:-1]).sum(-1, keepdim=True)
    x0, step, y0, rise, slope, slope_next = (
        each.gather(-1, which)[..., 0]
        for each in (xs[..., :-1], steps, ys[..., :-1], rises, slopes[..., :-1], slopes[..., 1:])
    )
    delta = rise / step
    bend = slope + slope_next - 2 * delta
    if inverse:
        offset = within - y0
        a = offset * bend + rise * (delta - slope)
        b = rise * slope - offset * bend
        c = -delta * offset
        # Positive by construction, but rounding must not make the square root's argument negative.
        theta = 2 * c / (-b - (b.square() - 4 * a * c).clamp(min=0).sqrt())
        y = theta * step + x0
    else:
        theta = (within - x0) / step
        y = y0 + rise * (delta * theta.square() + slope * theta * (1 - theta)) / (
            delta + bend * theta * (1 - theta)
        )
    both = theta * (1 - theta)
    rate = delta.square() * (slope_next * theta.square() + 2 * delta * both + slope * (1 - theta).square())
    logdet = rate.log() - 2 * (delta + bend * both).log()
    if inverse:
        logdet = -logdet
    return torch.where(inside, y, x), torch.where(inside, logdet, torch.zeros_like(logdet))


# The voice of a reference (`MelStyleEncoder`) and where it meets text and content (`MRTE`).


class Conv1dGLU(nn.Module):
    def __init__(self, channels: int, kernel: int, dropout: float) -> None:
        super().__init__()
        conv = nn.Conv1d(channels, 2 * channels, kernel, padding=kernel // 2)
        self.conv1, self.dropout = named("conv", conv), nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept, gate = self.conv1(x).chunk(2, dim=1)
        # Not F.glu: torch_xla does not lower its gradient, and the update becomes three programs.
        return x + self.dropout(kept * gate.sigmoid())


class StyleAttention(nn.Module):
    """`modules.MultiHeadAttention`: scores are divided by the root of the whole width, masked keys are
    -inf."""

    def __init__(self, heads: int, width: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, nn.Dropout(dropout)
        self.w_qs, self.w_ks, self.w_vs = (nn.Linear(width, width) for _ in range(3))
        self.fc = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """x: Float[batch, time, width]; counts: Bool[batch, time]."""
        q, k, v = (
            each(x).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for each in (self.w_qs, self.w_ks, self.w_vs)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(x.shape[-1])
        weights = self.dropout(scores.masked_fill(~counts[:, None, None], -torch.inf).softmax(-1))
        mixed = (weights @ v).transpose(1, 2).flatten(2)
        attended: torch.Tensor = self.dropout(self.fc(mixed)) + x
        return attended


class MelStyleEncoder(nn.Module):
    """Float[batch, out, 1], the voice, of Float[batch, bin, time]: the mean over the frames that count."""

    def __init__(
        self,
        bins: int,
        hidden: int = 128,
        out: int = 256,
        kernel: int = 5,
        heads: int = 2,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width in (bins, hidden):
            layers += [named("fc", nn.Linear(width, hidden)), nn.Mish(), nn.Dropout(dropout)]
        self.spectral = nn.Sequential(*layers)
        self.temporal = nn.Sequential(*(Conv1dGLU(hidden, kernel, dropout) for _ in range(2)))
        self.slf_attn = StyleAttention(heads, hidden, dropout)
        self.fc = named("fc", nn.Linear(hidden, out))

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        x = self.spectral(x.transpose(1, 2))
        x = self.temporal(x.transpose(1, 2)).transpose(1, 2)
        counts = x.new_ones(x.shape[:2]) if mask is None else mask[:, 0]
        x = self.slf_attn(x * counts[:, :, None], counts != 0)
        x = self.fc(x).float() * counts[:, :, None]
        return (x.sum(1) / counts.float().sum(1, keepdim=True))[:, :, None].to(counts.dtype)


class MRTE(nn.Module):
    """Cross-attention from the content to the text, plus the voice (`module/mrte_model.py`): Float[batch,
    out, time]. The voice is added as it is, so it is as wide as `hidden`."""

    def __init__(self, content: int = 192, hidden: int = 512, out: int = 192, heads: int = 4) -> None:
        super().__init__()
        self.cross_attention = MultiHeadAttention(hidden, hidden, heads)
        self.c_pre, self.text_pre = nn.Conv1d(content, hidden, 1), nn.Conv1d(content, hidden, 1)
        self.c_post = nn.Conv1d(hidden, out, 1)

    def forward(
        self,
        ssl: torch.Tensor,
        ssl_mask: torch.Tensor,
        text: torch.Tensor,
        text_mask: torch.Tensor,
        ge: torch.Tensor | None,
    ) -> torch.Tensor:
        content, text = self.c_pre(ssl * ssl_mask), self.text_pre(text * text_mask)
        pairs = ssl_mask[:, :, :, None] * text_mask[:, :, None]
        attended = self.cross_attention(content * ssl_mask, text * text_mask, pairs)
        x = content + attended if ge is None else content + attended + ge
        mixed: torch.Tensor = self.c_post(x * ssl_mask)
        return mixed


# Semantic tokens (`module/quantize.py`, `core_vq.py`, after SoundStream, Zeghidour et al. 2021).


class EuclideanCodebook(nn.Module):
    """The nearest of `size` vectors. In training each follows a running mean of the inputs assigned to it;
    rarely used vectors are replaced by vectors of the batch."""

    inited: torch.Tensor
    cluster_size: torch.Tensor
    embed: torch.Tensor
    embed_avg: torch.Tensor

    def __init__(self, width: int, size: int, decay: float = 0.99, threshold: float = 2.0) -> None:
        super().__init__()
        self.decay, self.threshold, self.epsilon = decay, threshold, 1e-5
        self.register_buffer("inited", torch.zeros(1))
        self.register_buffer("cluster_size", torch.zeros(size))
        self.register_buffer("embed", torch.zeros(size, width))
        self.register_buffer("embed_avg", torch.zeros(size, width))

    @torch.no_grad()
    def initialise(self, x: torch.Tensor, order: torch.Tensor | None = None, rounds: int = 50) -> None:
        """k-means of Float[row, width], from the rows that `order` (a permutation) begins with. Call it once,
        before the first training step, on the host: the original does it inside that step."""
        size = len(self.embed)
        order = torch.randperm(len(x), device=x.device) if order is None else order
        means = x[order[torch.arange(size, device=x.device) % len(x)]]
        for _ in range(rounds):
            member = F.one_hot(torch.cdist(x, means).argmin(1), size).to(x.dtype)
            counts = member.sum(0)
            fresh = member.t() @ x / counts.clamp(min=1)[:, None]
            means = torch.where(counts[:, None] == 0, means, fresh)
        self.embed.copy_(means)
        self.embed_avg.copy_(means)
        self.cluster_size.copy_(counts)
        self.inited.fill_(1.0)

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        """Int[…] of Float[…, width]."""
        rows = x.reshape(-1, x.shape[-1])
        table = self.embed.t()
        far = rows.square().sum(1, keepdim=True) - 2 * rows @ table + table.square().sum(0, keepdim=True)
        return far.argmin(-1).view(x.shape[:-1])

    def decode(self, codes: torch.Tensor) -> torch.Tensor:
        return F.embedding(codes, self.embed)

    @torch.no_grad()
    def update(self, x: torch.Tensor, codes: torch.Tensor, order: torch.Tensor | None = None) -> None:
        """One step of the running means. `order`: a permutation of the rows, for the codes that die."""
        rows = x.reshape(-1, x.shape[-1])
        member = F.one_hot(codes.flatten(), len(self.embed)).to(rows.dtype)
        self.cluster_size.mul_(self.decay).add_(member.sum(0), alpha=1 - self.decay)
        self.embed_avg.mul_(self.decay).add_((rows.t() @ member).t(), alpha=1 - self.decay)
        total = self.cluster_size.sum()
        smoothed = (self.cluster_size + self.epsilon) / (total + len(self.embed) * self.epsilon) * total
        self.embed.copy_(self.embed_avg / smoothed[:, None])
        dead = self.cluster_size < self.threshold
        if order is None:
            order = torch.rand(len(rows), device=rows.device).argsort()
        # The n-th dead code gets the n-th row; with more dead codes than rows, rows come again.
        turn = (dead.long().cumsum(0) - 1).clamp(min=0) % len(rows)
        self.embed.copy_(torch.where(dead[:, None], rows[order[turn]], self.embed))


class VectorQuantization(nn.Module):
    def __init__(self, width: int, size: int, decay: float) -> None:
        super().__init__()
        self._codebook = EuclideanCodebook(width, size, decay)

    def forward(self, x: torch.Tensor, order: torch.Tensor | None = None) -> Any:
        x = x.transpose(1, 2)
        codes = self._codebook.encode(x.detach())
        quantized = self._codebook.decode(codes)
        loss = x.new_zeros(())
        if self.training:
            loss = F.mse_loss(quantized.detach(), x)
            # The result uses the codebook before the update.
            quantized = x + (quantized - x).detach()
            self._codebook.update(x.detach(), codes, order)
        return quantized.transpose(1, 2), codes, loss


class ResidualVectorQuantizer(nn.Module):
    def __init__(self, dimension: int, n_q: int = 1, bins: int = 1024, decay: float = 0.99) -> None:
        super().__init__()
        layers = nn.ModuleList(VectorQuantization(dimension, bins, decay) for _ in range(n_q))
        self.vq = named("layers", layers)

    def forward(self, x: torch.Tensor, order: torch.Tensor | None = None) -> Any:
        """(quantized, Int[layer, batch, time], mean commitment loss, each layer's part) of Float[batch,
        dimension, time]."""
        residual, parts, codes, losses = x, [], [], []
        for layer in self.vq.layers:
            part, found, loss = layer(residual, order)
            residual = residual - part
            parts.append(part)
            codes.append(found)
            losses.append(loss)
        return sum(parts), torch.stack(codes), torch.stack(losses).mean(), parts

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        residual, codes = x, []
        for layer in self.vq.layers:
            found = layer._codebook.encode(residual.transpose(1, 2))
            residual = residual - layer._codebook.decode(found).transpose(1, 2)
            codes.append(found)
        return torch.stack(codes)

    def decode(self, codes: torch.Tensor) -> torch.Tensor:
        """Float[batch, dimension, time] of Int[layer, batch, time]."""
        layers: Any = self.vq.layers
        parts = [layer._codebook.decode(each) for layer, each in zip(layers, codes, strict=False)]
        return sum(parts).transpose(1, 2)
