"""The second stage of GPT-SoVITS: from semantic features, text and a reference's voice to a wave, and the
components that its description names (Kim et al. 2021, VITS; Kong et al. 2020, HiFi-GAN).

Parameter names, shapes and order are those of RVC-Boss/GPT-SoVITS 48b1a01 (`module/models.py`). Nothing
reads a value back. Random numbers are drawn on the device, or given, so that
every replica and every resumed run has the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from tpulab_recipes.audio.hifigan import Generator as Generator
from tpulab_recipes.audio.hifigan import MultiPeriodDiscriminator as MultiPeriodDiscriminator
from tpulab_recipes.audio.mel import MelSettings, MelSpectrogram
from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.gpt_sovits.config import check_version
from tpulab_recipes.gpt_sovits.modules import (
    MRTE,
    WN,
    AttentionEncoder,
    ConvFlow,
    DDSConv,
    ElementwiseAffine,
    Flip,
    LayerNorm,
    Log,
    MelStyleEncoder,
    ResidualCouplingLayer,
    ResidualVectorQuantizer,
    mask_of,
    rand_slice_segments,
    twice,
)
from tpulab_recipes.runtime.precision import full_precision

#: Rows of the text embedding: the phonemes of `text.symbols`, `text.symbols2`.
SYMBOL_COUNTS = {"v1": 322, "v2": 732}
#: Limit of `FourierGenerator`'s log-magnitudes, so that no frame is louder than a wave can be.
MAX_LOG_MAGNITUDE = 5.0
#: Since v2 the style encoder sees only this many bins (up to 11 kHz at the published sizes).
STYLE_BINS = 704


class StochasticDurationPredictor(nn.Module):
    """Durations as a flow of noise (Kim et al. 2021, section 2.2.2). The second stage builds none: its frames
    carry their timing. `filter_channels` is ignored, as in the original."""

    def __init__(
        self,
        in_channels: int,
        filter_channels: int,  # noqa: ARG002
        kernel_size: int,
        p_dropout: float,
        n_flows: int = 4,
        gin_channels: int = 0,
    ) -> None:
        super().__init__()
        width = in_channels

        def flows(count: int) -> nn.ModuleList:
            pairs = [[ConvFlow(2, width, kernel_size, 3), Flip()] for _ in range(count)]
            return nn.ModuleList([ElementwiseAffine(2), *(each for pair in pairs for each in pair)])

        self.log_flow = Log()
        self.flows = flows(n_flows)
        self.post_pre, self.post_proj = nn.Conv1d(1, width, 1), nn.Conv1d(width, width, 1)
        self.post_convs = DDSConv(width, kernel_size, 3, p_dropout)
        self.post_flows = flows(4)
        self.pre, self.proj = nn.Conv1d(in_channels, width, 1), nn.Conv1d(width, width, 1)
        self.convs = DDSConv(width, kernel_size, 3, p_dropout)
        if gin_channels:
            self.cond = nn.Conv1d(gin_channels, width, 1)

    def forward(
        self,
        x: torch.Tensor,
        x_mask: torch.Tensor,
        w: torch.Tensor | None = None,
        g: torch.Tensor | None = None,
        *,
        reverse: bool = False,
        noise_scale: float = 1.0,
        noise: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Float[batch], the negative log-likelihood of the durations w (Float[batch, 1, time]), or with
        `reverse` log-durations, Float[batch, 1, time]. noise: Float[batch, 2, time]."""
        x = self.pre(x.detach())
        if g is not None:
            x = x + self.cond(g.detach())
        x = self.proj(self.convs(x, x_mask)) * x_mask
        if noise is None:
            noise = torch.randn(x.shape[0], 2, x.shape[2], device=x.device, dtype=x.dtype)
        if reverse:
            z = noise * noise_scale
            backwards = list(self.flows)[::-1]
            # The first flow of the noise has no effect: it is left out.
            for flow in [*backwards[:-2], backwards[-1]]:
                z = flow(z, x_mask, g=x, reverse=True)
            return z[:, :1]
        if w is None:
            raise ValueError("durations w are needed unless reverse=True.")
        h_w = self.post_proj(self.post_convs(self.post_pre(w), x_mask)) * x_mask
        e_q = noise * x_mask
        z_q, logdet_q = e_q, x.new_zeros(x.shape[0])
        for flow in self.post_flows:
            z_q, each = flow(z_q, x_mask, g=x + h_w)
            logdet_q = logdet_q + each
        z_u, z1 = z_q.chunk(2, dim=1)
        logdet_q = logdet_q + ((F.logsigmoid(z_u) + F.logsigmoid(-z_u)) * x_mask).sum((1, 2))
        logq = (-0.5 * (math.log(2 * math.pi) + e_q.square()) * x_mask).sum((1, 2)) - logdet_q
        z0, logdet = self.log_flow((w - z_u.sigmoid() * x_mask) * x_mask, x_mask)
        z = torch.cat([z0, z1], 1)
        for flow in self.flows:
            z, each = flow(z, x_mask, g=x)
            logdet = logdet + each
        nll = (0.5 * (math.log(2 * math.pi) + z.square()) * x_mask).sum((1, 2)) - logdet
        return nll + logq


class DurationPredictor(nn.Module):
    """Log-durations, Float[batch, 1, time], by regression. The second stage builds none."""

    def __init__(
        self,
        in_channels: int,
        filter_channels: int,
        kernel_size: int,
        p_dropout: float,
        gin_channels: int = 0,
    ) -> None:
        super().__init__()
        self.drop = nn.Dropout(p_dropout)
        self.conv_1 = nn.Conv1d(in_channels, filter_channels, kernel_size, padding=kernel_size // 2)
        self.norm_1 = LayerNorm(filter_channels)
        self.conv_2 = nn.Conv1d(filter_channels, filter_channels, kernel_size, padding=kernel_size // 2)
        self.norm_2 = LayerNorm(filter_channels)
        self.proj = nn.Conv1d(filter_channels, 1, 1)
        if gin_channels:
            self.cond = nn.Conv1d(gin_channels, in_channels, 1)

    def forward(self, x: torch.Tensor, x_mask: torch.Tensor, g: torch.Tensor | None = None) -> torch.Tensor:
        x = x.detach()
        if g is not None:
            x = x + self.cond(g.detach())
        x = self.drop(self.norm_1(self.conv_1(x * x_mask).relu()))
        x = self.drop(self.norm_2(self.conv_2(x * x_mask).relu()))
        durations: torch.Tensor = self.proj(x * x_mask) * x_mask
        return durations


class TextEncoder(nn.Module):
    """The prior of each frame: m and logs, from the semantic features y, the phonemes and the voice."""

    def __init__(
        self,
        out_channels: int,
        hidden_channels: int,
        filter_channels: int,
        n_heads: int,
        n_layers: int,
        kernel_size: int,
        p_dropout: float,
        version: str = "v2",
        *,
        ssl_channels: int = 768,
        mrte_hidden: int = 512,
        mrte_heads: int = 4,
    ) -> None:
        super().__init__()
        sizes = (hidden_channels, filter_channels, n_heads)
        self.ssl_proj = nn.Conv1d(ssl_channels, hidden_channels, 1)
        self.encoder_ssl = AttentionEncoder(*sizes, n_layers // 2, kernel_size, p_dropout)
        self.encoder_text = AttentionEncoder(*sizes, n_layers, kernel_size, p_dropout)
        self.text_embedding = nn.Embedding(SYMBOL_COUNTS[version], hidden_channels)
        self.mrte = MRTE(hidden_channels, mrte_hidden, hidden_channels, mrte_heads)
        self.encoder2 = AttentionEncoder(*sizes, n_layers // 2, kernel_size, p_dropout)
        self.proj = nn.Conv1d(hidden_channels, 2 * out_channels, 1)

    def forward(
        self,
        y: torch.Tensor,
        y_lengths: torch.Tensor,
        text: torch.Tensor,
        text_lengths: torch.Tensor,
        ge: torch.Tensor | None,
        speed: float = 1,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """(hidden, m, logs, mask); at a `speed` other than 1 of int(time / speed) + 1 frames."""
        y_mask = mask_of(y_lengths, y)
        y = self.ssl_proj(y * y_mask) * y_mask
        y = self.encoder_ssl(y, y_mask)
        embedded = self.text_embedding(text).transpose(1, 2)
        text_mask = mask_of(text_lengths, embedded)
        encoded_text = self.encoder_text(embedded * text_mask, text_mask)
        y = self.encoder2(self.mrte(y, y_mask, encoded_text, text_mask, ge) * y_mask, y_mask)
        if speed != 1:
            y, y_mask = _stretched(y, y_mask, int(y.shape[2] / speed) + 1)
        m, logs = (self.proj(y) * y_mask).chunk(2, dim=1)
        return y, m, logs, y_mask


def _stretched(y: torch.Tensor, mask: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """y by linear and the mask by nearest interpolation, as `F.interpolate`, by gather."""
    time = y.shape[2]
    at = np.maximum((np.arange(size) + 0.5) * np.float32(time / size) - 0.5, 0).astype(np.float32)
    left = np.minimum(at.astype(np.int64), time - 1)
    places = np.stack([left, np.minimum(left + 1, time - 1), np.arange(size) * time // size])
    first, second, near = torch.from_numpy(places).to(y.device)
    share = torch.from_numpy(np.float32(at - left)).to(y)
    return y[:, :, first] * (1 - share) + y[:, :, second] * share, mask[:, :, near]


class ResidualCouplingBlock(nn.Module):
    """An invertible map between z (with the voice) and z_p (without)."""

    def __init__(
        self,
        channels: int,
        hidden_channels: int,
        kernel_size: int,
        dilation_rate: int,
        n_layers: int,
        n_flows: int = 4,
        gin_channels: int = 0,
    ) -> None:
        super().__init__()
        self.flows = nn.ModuleList()
        sizes = (channels, hidden_channels, kernel_size, dilation_rate, n_layers, gin_channels)
        for _ in range(n_flows):
            self.flows.append(ResidualCouplingLayer(*sizes))
            self.flows.append(Flip())

    def forward(
        self, x: torch.Tensor, x_mask: torch.Tensor, g: torch.Tensor | None = None, *, reverse: bool = False
    ) -> torch.Tensor:
        couplings = list(self.flows)[::2]
        if reverse:
            for coupling in couplings[::-1]:
                x = coupling(x.flip(1), x_mask, g=g, reverse=True)
            return x
        for coupling in couplings:
            x = coupling(x, x_mask, g=g).flip(1)
        return x


class Encoder(nn.Module):
    """`models.Encoder`: (stats, mask) of Float[batch, in, time]; g gets no gradient."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        hidden_channels: int,
        kernel_size: int,
        dilation_rate: int,
        n_layers: int,
        gin_channels: int = 0,
    ) -> None:
        super().__init__()
        self.pre = nn.Conv1d(in_channels, hidden_channels, 1)
        self.enc = WN(hidden_channels, kernel_size, dilation_rate, n_layers, gin_channels)
        self.proj = nn.Conv1d(hidden_channels, out_channels, 1)

    def forward(self, x: torch.Tensor, x_lengths: torch.Tensor, g: torch.Tensor | None = None) -> Any:
        mask = mask_of(x_lengths, x)
        hidden = self.enc(self.pre(x) * mask, mask, g=None if g is None else g.detach())
        return self.proj(hidden) * mask, mask


class PosteriorEncoder(Encoder):
    """z, m, logs, mask of a spectrogram: what a frame sounds like, this voice included."""

    def __init__(self, in_channels: int, out_channels: int, *sizes: int, **named_sizes: int) -> None:
        super().__init__(in_channels, 2 * out_channels, *sizes, **named_sizes)

    def forward(
        self,
        x: torch.Tensor,
        x_lengths: torch.Tensor,
        g: torch.Tensor | None = None,
        noise: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """The style encoder does not learn through g here, but through flow, generator and text."""
        stats, mask = super().forward(x, x_lengths, g)
        m, logs = stats.chunk(2, dim=1)
        noise = torch.randn_like(m) if noise is None else noise
        return (m + noise * logs.exp()) * mask, m, logs, mask


class FourierGenerator(nn.Module):
    """A decoder without layers at the rate of samples (Vocos, Siuzdak 2023): magnitude and phase of each
    frame, and their inverse Fourier transform. On a CPU it learns speech in minutes where HiFi-GAN needs
    hours; no checkpoint of the original has it. It takes the arguments of `Generator`: one rate, which is the
    hop, one upsampling kernel, which is the length of the transform, and the kernel of each block."""

    fourier: torch.Tensor
    power: torch.Tensor

    def __init__(
        self,
        initial_channel: int,
        resblock: str,  # noqa: ARG002
        resblock_kernel_sizes: Sequence[int],
        resblock_dilation_sizes: Sequence[Sequence[int]],  # noqa: ARG002
        upsample_rates: Sequence[int],
        upsample_initial_channel: int,
        upsample_kernel_sizes: Sequence[int],
        gin_channels: int = 0,
    ) -> None:
        super().__init__()
        (self.hop,), (size,), width = upsample_rates, upsample_kernel_sizes, upsample_initial_channel
        self.conv_pre = nn.Conv1d(initial_channel, width, 7, padding=3)
        if gin_channels:
            self.cond = nn.Conv1d(gin_channels, width, 1)
        self.norm_pre, self.norm_post = LayerNorm(width), LayerNorm(width)
        count = len(resblock_kernel_sizes)
        self.blocks = nn.ModuleList(FourierBlock(width, kernel, count) for kernel in resblock_kernel_sizes)
        self.head = nn.Conv1d(width, size + 2, 1)
        settings = MelSettings(n_fft=size, hop=self.hop, window=size, n_mels=1, center=False)
        table = MelSpectrogram(settings).fourier
        # All bins but the first and the last stand for two.
        shares = torch.full((size // 2 + 1, 1, 1), 2 / size)
        shares[0] = shares[-1] = 1 / size
        self.register_buffer("fourier", table * torch.cat([shares, shares]), persistent=False)
        self.register_buffer("power", table[:1].square(), persistent=False)

    def forward(self, x: torch.Tensor, g: torch.Tensor | None = None) -> torch.Tensor:
        x = self.conv_pre(x)
        x = self.norm_pre(x if g is None else x + self.cond(g))
        for block in self.blocks:
            x = block(x)
        with full_precision(x):
            log_magnitude, phase = self.head(self.norm_post(x).float()).chunk(2, dim=1)
            magnitude = log_magnitude.clamp(max=MAX_LOG_MAGNITUDE).exp()
            return self.wave_of(magnitude * phase.cos(), magnitude * phase.sin())

    def wave_of(self, real: torch.Tensor, imaginary: torch.Tensor) -> torch.Tensor:
        """Float[batch, 1, frame * hop] of two Float[batch, bin, frame]: windowed frames, added up, over the
        sum of their squared windows."""
        wave = F.conv_transpose1d(torch.cat([real, imaginary], 1), self.fourier, stride=self.hop)
        ones = torch.ones(1, 1, real.shape[2], device=real.device)
        wave = wave / F.conv_transpose1d(ones, self.power, stride=self.hop).clamp(min=1e-6)
        rim = (self.power.shape[2] - self.hop) // 2
        return wave[:, :, rim : wave.shape[2] - rim]


class FourierBlock(nn.Module):
    """ConvNeXt's (Liu et al. 2022): each channel along time, then all channels of a frame."""

    def __init__(self, width: int, kernel: int, count: int) -> None:
        super().__init__()
        self.along = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.norm = LayerNorm(width)
        self.up, self.down = nn.Conv1d(width, 3 * width, 1), nn.Conv1d(3 * width, width, 1)
        self.scale = nn.Parameter(torch.full((width, 1), 1 / count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.scale * self.down(F.gelu(self.up(self.norm(self.along(x)))))


@cache
def _fourier(size: int, hop: int, device: torch.device) -> MelSpectrogram:
    """Cached: its tables are large, and the same in each step."""
    settings = MelSettings(n_fft=size, hop=hop, window=size, n_mels=1, center=False)
    return MelSpectrogram(settings).to(device)


class SynthesizerTrn(nn.Module):
    """The whole second stage, v1 or v2. The first arguments are the original's; those after the star are
    fixed in its code, and small in lessons. `**ignored` are keys of `s2.json` that it does not use either."""

    #: A backend's `recompute`, for the activations of the wave's layers in the backward pass.
    recompute: Any = None

    def __init__(
        self,
        spec_channels: int,
        segment_size: int,
        inter_channels: int,
        hidden_channels: int,
        filter_channels: int,
        n_heads: int,
        n_layers: int,
        kernel_size: int,
        p_dropout: float,
        resblock: str,
        resblock_kernel_sizes: Sequence[int],
        resblock_dilation_sizes: Sequence[Sequence[int]],
        upsample_rates: Sequence[int],
        upsample_initial_channel: int,
        upsample_kernel_sizes: Sequence[int],
        gin_channels: int = 0,
        semantic_frame_rate: str = "25hz",
        freeze_quantizer: bool = True,
        version: str = "v2",
        *,
        ssl_channels: int = 768,
        codebook: int = 1024,
        mrte_hidden: int = 512,
        mrte_heads: int = 4,
        style_hidden: int = 128,
        style_dropout: float = 0.1,
        posterior_layers: int = 16,
        flow_layers: int = 4,
        **ignored: Any,  # noqa: ARG002
    ) -> None:
        super().__init__()
        check_version(version)
        if semantic_frame_rate not in ("25hz", "50hz"):
            raise ConfigError("semantic_frame_rate", f"{semantic_frame_rate!r} is not 25hz or 50hz.")
        if gin_channels != mrte_hidden:
            raise ConfigError(
                "gin_channels", f"must equal mrte_hidden ({mrte_hidden}): MRTE adds the voice as it is."
            )
        self.segment_size, self.version, self.freeze_quantizer = segment_size, version, freeze_quantizer
        self.hop = math.prod(upsample_rates)
        self.halved = semantic_frame_rate == "25hz"
        self.style_bins = spec_channels if version == "v1" else min(STYLE_BINS, spec_channels)
        transformer = (hidden_channels, filter_channels, n_heads, n_layers, kernel_size, p_dropout)
        widths = {"ssl_channels": ssl_channels, "mrte_hidden": mrte_hidden, "mrte_heads": mrte_heads}
        self.enc_p = TextEncoder(inter_channels, *transformer, version, **widths)
        blocks = (resblock, resblock_kernel_sizes, resblock_dilation_sizes)
        upsampling = (upsample_rates, upsample_initial_channel, upsample_kernel_sizes)
        decoder: Any = FourierGenerator if resblock == "fourier" else Generator
        self.dec = decoder(inter_channels, *blocks, *upsampling, gin_channels)
        self.enc_q = PosteriorEncoder(
            spec_channels, inter_channels, hidden_channels, 5, 1, posterior_layers, gin_channels
        )
        self.flow = ResidualCouplingBlock(
            inter_channels, hidden_channels, 5, 1, flow_layers, gin_channels=gin_channels
        )
        self.ref_enc = MelStyleEncoder(self.style_bins, style_hidden, gin_channels, dropout=style_dropout)
        stride = 2 if self.halved else 1
        self.ssl_proj = nn.Conv1d(ssl_channels, ssl_channels, stride, stride)
        self.quantizer = ResidualVectorQuantizer(ssl_channels, 1, codebook)
        if freeze_quantizer:
            self.ssl_proj.requires_grad_(False)

    def train(self, mode: bool = True) -> SynthesizerTrn:
        super().train(mode)
        if self.freeze_quantizer:
            self.ssl_proj.eval()
            self.quantizer.eval()
        return self

    def voice_of(self, spec: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """ge, Float[batch, gin, 1], of reference spectrograms."""
        mask = mask_of(lengths, spec)
        voice: torch.Tensor = self.ref_enc(spec[:, : self.style_bins] * mask, mask)
        return voice

    def quantized_of(self, ssl: torch.Tensor, order: torch.Tensor | None = None) -> Any:
        """(Float[batch, ssl, frame], codes, commitment loss): semantic features at the rate of frames, in
        float32. If frozen, it gets no gradient: None, as in the original."""
        with (
            torch.set_grad_enabled(torch.is_grad_enabled() and not self.freeze_quantizer),
            full_precision(ssl),
        ):
            found, codes, commit, _ = self.quantizer(self.ssl_proj(ssl.float()), order)
        return twice(found) if self.halved else found, codes, commit

    def __call__(self, *given: Any, **options: Any) -> Any:
        """As `forward`; in VITS' order, `model(x, x_lengths, y, y_lengths, sid)`, as `vits_call`."""
        if len(given) > 1 and given[1].dim() == 1:
            return self.vits_call(*given, **options)
        return super().__call__(*given, **options)

    def forward(
        self,
        ssl: torch.Tensor,
        y: torch.Tensor,
        y_lengths: torch.Tensor,
        text: torch.Tensor,
        text_lengths: torch.Tensor,
        noise: torch.Tensor | None = None,
        uniform: torch.Tensor | None = None,
    ) -> Any:
        """As the original: (o, commitment loss, starts, mask, mask, (z, z_p, m_p, logs_p, m_q, logs_q),
        quantized).

        Args:
            ssl: Float[batch, ssl, frame], an even number of frames. y: Float[batch, bin, frame].
            text: Int[batch, symbol].
            noise: Float[batch, inter, frame], normal; uniform: Float[batch], where the windows begin. Drawn
                on the device where not given.
        """
        ge = self.voice_of(y, y_lengths)
        quantized, _, commit = self.quantized_of(ssl)
        _, m_p, logs_p, mask = self.enc_p(quantized, y_lengths, text, text_lengths, ge)
        z, m_q, logs_q, mask = self.enc_q(y, y_lengths, g=ge, noise=noise)
        z_p = self.flow(z, mask, g=ge)
        window, starts = rand_slice_segments(z, y_lengths, self.segment_size, uniform)
        o = self.dec(window, ge) if self.recompute is None else self.recompute(self.dec, window, ge)
        return o, commit, starts, mask, mask, (z, z_p, m_p, logs_p, m_q, logs_q), quantized

    def vits_call(
        self,
        x: torch.Tensor,
        x_lengths: torch.Tensor,
        y: torch.Tensor,
        y_lengths: torch.Tensor,
        sid: torch.Tensor | None = None,  # noqa: ARG002
        *,
        text: torch.Tensor | None = None,
    ) -> Any:
        """The call of VITS: (o, l_length, attn, starts, x_mask, y_mask, latents).

        x are semantic features, as `ssl`; y is a spectrogram, or the wave itself, Float[batch, 1, sample],
        with lengths in samples: its spectrogram is computed here. Without `text` each row has one symbol.
        l_length is the commitment loss (there are no durations), attn is None, and sid is ignored: the voice
        comes from y."""
        if y.shape[1] == 1:
            y, y_lengths = self._spectrogram(y[:, 0]), y_lengths // self.hop
        if text is None:
            text = torch.zeros(x.shape[0], 1, dtype=torch.long, device=x.device)
        lengths = torch.full((x.shape[0],), text.shape[1], device=x.device)
        o, commit, starts, _, mask, latents, _ = self(x, y, y_lengths, text, lengths)
        return o, commit, None, starts, mask_of(x_lengths, x), mask, latents

    def _spectrogram(self, waves: torch.Tensor) -> torch.Tensor:
        """Float[batch, bin, frame], as the original's `spectrogram_torch`; the window fills the transform."""
        size = 2 * (self.enc_q.pre.in_channels - 1)
        with torch.no_grad():
            return _fourier(size, self.hop, waves.device).magnitude(waves)

    @torch.no_grad()
    def infer(
        self,
        ssl: torch.Tensor,
        y: torch.Tensor,
        y_lengths: torch.Tensor,
        text: torch.Tensor,
        text_lengths: torch.Tensor,
        noise_scale: float = 0.5,
        noise: torch.Tensor | None = None,
    ) -> Any:
        """(o, mask, (z, z_p, m_p, logs_p)) of the utterance's own features, in its own voice."""
        ge = self.voice_of(y, y_lengths)
        quantized, _, _ = self.quantized_of(ssl)
        return self._spoken(quantized, y_lengths, text, text_lengths, ge, 1, noise_scale, noise)

    @torch.no_grad()
    def extract_latent(self, ssl: torch.Tensor) -> torch.Tensor:
        """Semantic tokens, Int[batch, 1, token], of Float[batch, ssl, frame]: two frames each at 25 Hz."""
        return self.quantizer.encode(self.ssl_proj(ssl)).transpose(0, 1)

    @torch.no_grad()
    def decode(
        self,
        codes: torch.Tensor,
        text: torch.Tensor,
        refer: torch.Tensor | Sequence[torch.Tensor],
        noise_scale: float = 0.5,
        speed: float = 1,
        noise: torch.Tensor | None = None,
        *,
        lengths: torch.Tensor | None = None,
        text_lengths: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Float[batch, 1, sample] of semantic tokens, spoken as in the reference spectrograms, whose voices
        are averaged where there are several.

        Args:
            codes: Int[1, batch, token]. text: Int[batch, symbol].
            refer: Float[batch, bin, frame], or a voice of `voice_of`.
            lengths: Int[batch], tokens that count, where codes are padded; text_lengths likewise.
        """
        references = [refer] if isinstance(refer, torch.Tensor) else list(refer)
        # A voice is one frame wide, as `voice_of` gives it; a spectrogram has more.
        voices = [
            each if each.shape[2] == 1 else self.voice_of(each, _full_lengths(each)) for each in references
        ]
        ge = torch.stack(voices).mean(0)
        tokens = _full_lengths(codes[0][:, None]) if lengths is None else lengths
        found = self.quantizer.decode(codes)
        quantized = twice(found) if self.halved else found
        frames = tokens * 2 if self.halved else tokens
        counted = _full_lengths(text[:, None]) if text_lengths is None else text_lengths
        given = (quantized, frames, text, counted, ge)
        wave: torch.Tensor = self._spoken(*given, speed, noise_scale, noise)[0]
        return wave

    def _spoken(
        self,
        quantized: torch.Tensor,
        lengths: torch.Tensor,
        text: torch.Tensor,
        text_lengths: torch.Tensor,
        ge: torch.Tensor,
        speed: float,
        noise_scale: float,
        noise: torch.Tensor | None,
    ) -> Any:
        _, m_p, logs_p, mask = self.enc_p(quantized, lengths, text, text_lengths, ge, speed)
        noise = torch.randn_like(m_p) if noise is None else noise
        z_p = m_p + noise * logs_p.exp() * noise_scale
        z = self.flow(z_p, mask, g=ge, reverse=True)
        return self.dec(z * mask, g=ge), mask, (z, z_p, m_p, logs_p)


def _full_lengths(x: torch.Tensor) -> torch.Tensor:
    return torch.full((x.shape[0],), x.shape[2], device=x.device)
