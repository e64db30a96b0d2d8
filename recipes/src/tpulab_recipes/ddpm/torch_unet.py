"""The UNet of TPULab's diffusion recipe in torch, as a model of diffusers. Weights are those of the JAX
original.

This file is copied into exported folders and imports nothing but torch and diffusers.
"""

import math

import torch
import torch.nn.functional as F
from diffusers.configuration_utils import ConfigMixin, register_to_config
from diffusers.models.modeling_utils import ModelMixin
from torch import nn

SIDE_SCALE = 1024.0


def quick_gelu(x):
    return x * torch.sigmoid(1.702 * x)


def rates(width, device):
    half = width // 2
    return torch.exp(
        torch.arange(half, device=device, dtype=torch.float32) * (-math.log(10_000) / (half - 1))
    )


def sinusoids(values, width):
    angles = 1000.0 * values.float()[:, None] * rates(width, values.device)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def position_map(width, size, device):
    waves = torch.sin(
        torch.arange(size, device=device).float()[:, None] * rates(width, device) * (64 / size)
    ).T
    columns, rows = waves[:, None, :].expand(-1, size, -1), waves[:, :, None].expand(-1, -1, size)
    return torch.cat([columns, rows])[None]


class StridedConv(nn.Conv2d):
    """Stride 2 with the padding that XLA calls SAME: one row and column at the far ends."""

    def __init__(self, channels):
        super().__init__(channels, channels, 3, stride=2)

    def forward(self, x):
        return super().forward(F.pad(x, (0, 1, 0, 1)))


class ResnetBlock(nn.Module):
    def __init__(self, inputs, outputs, emb, groups, dropout, resample=None):
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, inputs, eps=1e-6)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.temb_proj = nn.Linear(emb, 2 * outputs)
        self.norm2 = nn.GroupNorm(groups, outputs, eps=1e-6)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.shortcut = nn.Linear(inputs, outputs) if inputs != outputs else None
        self.resample = resample

    def forward(self, x, emb):
        h = quick_gelu(self.norm1(x))
        if self.resample == "up":
            h, x = (F.interpolate(value, scale_factor=2.0) for value in (h, x))
        elif self.resample == "down":
            h, x = F.avg_pool2d(h, 2), F.avg_pool2d(x, 2)
        h = self.conv1(h)
        scale, shift = self.temb_proj(quick_gelu(emb))[:, :, None, None].chunk(2, dim=1)
        h = quick_gelu(self.norm2(h) * (1 + scale) + shift)
        h = self.conv2(self.dropout(h))
        if self.shortcut is not None:
            x = self.shortcut(x.movedim(1, -1)).movedim(-1, 1)
        return x + h


class Attention(nn.Module):
    def __init__(self, channels, context, head_dim):
        super().__init__()
        self.to_q = nn.Linear(channels, channels, bias=False)
        self.to_kv = nn.Linear(context, 2 * channels, bias=False)
        self.to_out = nn.Linear(channels, channels)
        self.head_dim = head_dim

    def forward(self, x, context):
        key, value = self.to_kv(context).chunk(2, dim=-1)
        heads = [
            part.unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for part in (self.to_q(x), key, value)
        ]
        done = F.scaled_dot_product_attention(*heads)
        return self.to_out(done.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, channels, use_glu):
        super().__init__()
        self.inner = nn.Linear(channels, (8 if use_glu else 4) * channels)
        self.outer = nn.Linear(4 * channels, channels)
        self.use_glu = use_glu

    def forward(self, x):
        h = self.inner(x)
        if self.use_glu:
            values, gate = h.chunk(2, dim=-1)
            return self.outer(values * quick_gelu(gate))
        return self.outer(quick_gelu(h))


class TransformerBlock(nn.Module):
    def __init__(self, channels, context, head_dim, groups, cross_only, use_glu):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels, eps=1e-6)
        self.proj_in = nn.Conv2d(channels, channels, 1)
        self.norm1 = None if cross_only else nn.LayerNorm(channels)
        self.attn1 = None if cross_only else Attention(channels, channels, head_dim)
        self.norm2 = nn.LayerNorm(channels)
        self.attn2 = Attention(channels, context, head_dim)
        self.norm3 = nn.LayerNorm(channels)
        self.ff = FeedForward(channels, use_glu)
        self.proj_out = nn.Conv2d(channels, channels, 1)

    def forward(self, x, context):
        h = self.proj_in(self.norm(x)).flatten(2).transpose(1, 2)
        if self.attn1 is not None:
            normed = self.norm1(h)
            h = h + self.attn1(normed, normed)
        h = h + self.attn2(self.norm2(h), context)
        h = h + self.ff(self.norm3(h))
        return x + self.proj_out(h.transpose(1, 2).reshape(x.shape))


class Stage(nn.Module):
    def __init__(self, resnet, attention):
        super().__init__()
        self.resnet, self.attention = resnet, attention

    def forward(self, x, emb, context):
        h = self.resnet(x, emb)
        return h if self.attention is None else self.attention(h, context)


class Context(nn.Module):
    """What the network is told, as one sequence."""

    def __init__(self, conditioning, width, t5_mult, aesth_score_range):
        super().__init__()
        parts = {
            "clip_emb": conditioning["clip_width"],
            "t5_emb": conditioning["t5_width"],
            "clip_image_emb": conditioning["clip_image_width"],
            **dict.fromkeys(conditioning["scalars"], width),
        }
        self.null_token = nn.Embedding(1, width)
        self.maps = nn.ModuleDict(
            {name: nn.Linear(inputs, width) for name, inputs in parts.items() if inputs}
        )
        classes = conditioning["num_classes"]
        self.classes = nn.Embedding(classes + 1, width) if classes else None
        self.t5_mult, self.aesth_score_range = t5_mult, aesth_score_range

    def forward(self, context, batch):
        width = self.null_token.embedding_dim
        pieces = [self.null_token.weight[None].expand(batch, -1, -1)]
        # A tree of arrays in JAX comes sorted by name, and so does the sequence.
        for name, into in sorted(self.maps.items()):
            value = context[name].float()
            if name == "clip_emb":
                pieces.append(into(value))
            elif name == "t5_emb":
                pieces.append(into(value * self.t5_mult))
            elif name == "clip_image_emb":
                pieces.append(into(value)[:, None])
            else:
                told = (value != 0)[:, None, None]
                pieces.append(
                    torch.where(told, into(sinusoids(self.scaled(name, value), width))[:, None], 0.0)
                )
        if self.classes is not None:
            pieces.append(self.classes(context["class"].long())[:, None])
        return torch.cat(pieces, dim=1)

    def scaled(self, name, value):
        if name == "aesth_score":
            low, high = self.aesth_score_range
            return ((value - low) / (high - low)).clamp(0, 1)
        return (value / SIDE_SCALE).clamp(0, 1)


class UNet(ModelMixin, ConfigMixin):
    """z, log-SNR and context to a prediction. Images are [batch, channel, height, width]."""

    @register_to_config
    def __init__(
        self,
        sample_size,
        in_channels,
        conditioning,
        ch,
        emb_ch,
        ch_mult,
        num_res_blocks,
        attn_resolutions,
        head_dim,
        out_ch,
        seq_width,
        dropout=0.0,
        logsnr_scale_range=(-7.0, 7.0),  # noqa: ARG002  (kept by register_to_config)
        logsnr_input="scaled",  # noqa: ARG002  (kept by register_to_config)
        resblock_resample=False,
        t5_mult=4.0,
        aesth_score_range=(2.0, 9.0),
        use_glu=True,
        use_pos_enc=True,  # noqa: ARG002  (kept by register_to_config)
        norm_groups=32,
        param_dtype="fp32",  # noqa: ARG002  (kept by register_to_config)
        remat_levels=-1,  # noqa: ARG002  (kept by register_to_config)
    ):
        super().__init__()

        def resnet(a, b, resample=None):
            return ResnetBlock(a, b, emb_ch, norm_groups, dropout, resample)

        def transformer(width, level):
            return TransformerBlock(width, seq_width, head_dim, norm_groups, level == 0, use_glu)

        def stage(a, b, level):
            attends = sample_size // 2**level in attn_resolutions
            return Stage(resnet(a, b), transformer(b, level) if attends else None)

        self.context = Context(conditioning, seq_width, t5_mult, aesth_score_range)
        self.time0, self.time1 = nn.Linear(emb_ch, emb_ch), nn.Linear(emb_ch, emb_ch)
        inputs = 2 * in_channels + 1 if conditioning["inpainting"] else in_channels
        self.conv_in = nn.Conv2d(inputs, ch, 3, padding=1)
        widths, handed, now = [ch * mult for mult in ch_mult], [ch], ch
        self.downs = nn.ModuleList()
        for level, width in enumerate(widths):
            for _ in range(num_res_blocks):
                self.downs.append(stage(now, width, level))
                now = width
                handed.append(now)
            if level != len(widths) - 1:
                self.downs.append(resnet(now, now, "down") if resblock_resample else StridedConv(now))
                handed.append(now)
        self.middle1 = resnet(now, now)
        self.middle_attention = transformer(now, max(len(widths) - 1, 1))
        self.middle2 = resnet(now, now)
        self.ups = nn.ModuleList()
        for level in reversed(range(len(widths))):
            for _ in range(num_res_blocks + 1):
                self.ups.append(stage(now + handed.pop(), widths[level], level))
                now = widths[level]
            if level != 0:
                up = resnet(now, now, "up") if resblock_resample else nn.Conv2d(now, now, 3, padding=1)
                self.ups.append(up)
        self.norm_out = nn.GroupNorm(norm_groups, now, eps=1e-6)
        self.conv_out = nn.Conv2d(now, 8 * math.ceil(out_ch / 8), 3, padding=1)

    def forward(self, z, logsnr, context):
        config = self.config
        emb = self.embed_noise_level(logsnr)
        told = self.context(context, len(z))
        if config.conditioning["inpainting"]:
            mask = context["mask"]
            z = torch.cat([z, context["known"] * (1 - mask), mask], dim=1)
        h = self.conv_in(z)
        if config.use_pos_enc:
            h = h + position_map(config.ch, z.shape[-1], z.device)
        handed = [h]
        for block in self.downs:
            h = self.through(block, h, emb, told)
            handed.append(h)
        h = self.middle2(self.middle_attention(self.middle1(h, emb), told), emb)
        for block in self.ups:
            if isinstance(block, Stage):
                h = torch.cat([h, handed.pop()], dim=1)
            elif isinstance(block, nn.Conv2d):
                h = F.interpolate(h, scale_factor=2.0)
            h = self.through(block, h, emb, told)
        return self.conv_out(quick_gelu(self.norm_out(h)))[:, : config.out_ch]

    @staticmethod
    def through(block, h, emb, told):
        if isinstance(block, Stage):
            return block(h, emb, told)
        return block(h, emb) if isinstance(block, ResnetBlock) else block(h)

    def embed_noise_level(self, logsnr):
        if self.config.logsnr_input == "inv_cos":
            level = torch.arctan(torch.exp(-0.5 * logsnr.clamp(-20, 20))) / (0.5 * math.pi)
        else:
            low, high = self.config.logsnr_scale_range
            level = (logsnr - low) / (high - low)
        return self.time1(quick_gelu(self.time0(sinusoids(level, self.config.emb_ch))))
