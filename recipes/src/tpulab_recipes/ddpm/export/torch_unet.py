"""The UNet of TPULab's diffusion recipe in torch, as a model of diffusers. Weights are those of the JAX
original.

This file is copied into exported folders and imports nothing but torch and diffusers.
"""

import math
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from diffusers.configuration_utils import ConfigMixin, register_to_config
from diffusers.models.attention_processor import Attention
from diffusers.models.embeddings import get_timestep_embedding
from diffusers.models.modeling_utils import ModelMixin
from torch import nn

SIDE_SCALE = 1024.0


def quick_gelu(x):
    return x * torch.sigmoid(1.702 * x)


def sinusoids(values, width):
    return get_timestep_embedding(values, width, scale=1000.0)


def position_map(width, size, device):
    places = torch.arange(size, device=device)
    waves = get_timestep_embedding(places, width, scale=64 / size)[:, : width // 2].T
    columns, rows = waves[:, None, :].expand(-1, size, -1), waves[:, :, None].expand(-1, -1, size)
    return torch.cat([columns, rows])[None]


# An attribute distinguishes blocks: diffusers executes this module again for each export that it loads,
# and an `isinstance` in an earlier network would then ask for the classes of the later one.
class StridedConv(nn.Conv2d):
    """Stride 2 with the padding that XLA calls SAME: one row and column at the far ends."""

    def __init__(self, channels):
        super().__init__(channels, channels, 3, stride=2)

    def forward(self, x):
        return super().forward(F.pad(x, (0, 1, 0, 1)))


def activation(args):
    return quick_gelu if args.blocks == "transformer" else F.silu


class ResnetBlock(nn.Module):
    role = "resnet"

    def __init__(self, inputs, outputs, args, resample=None):
        super().__init__()
        self.norm1 = nn.GroupNorm(args.norm_groups, inputs, eps=1e-6)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.temb_proj = nn.Linear(args.emb_ch, 2 * outputs)
        self.norm2 = nn.GroupNorm(args.norm_groups, outputs, eps=1e-6)
        self.dropout = nn.Dropout(args.dropout)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.shortcut = nn.Linear(inputs, outputs) if inputs != outputs else None
        self.resample, self.act = resample, activation(args)

    def forward(self, x, emb):
        h = self.act(self.norm1(x))
        if self.resample == "up":
            h, x = (F.interpolate(value, scale_factor=2.0) for value in (h, x))
        elif self.resample == "down":
            h, x = F.avg_pool2d(h, 2), F.avg_pool2d(x, 2)
        h = self.conv1(h)
        scale, shift = self.temb_proj(self.act(emb))[:, :, None, None].chunk(2, dim=1)
        h = self.act(self.norm2(h) * (1 + scale) + shift)
        h = self.conv2(self.dropout(h))
        if self.shortcut is not None:
            x = self.shortcut(x.movedim(1, -1)).movedim(-1, 1)
        return x + h


def attention(channels, context, head_dim, bias=False):
    return Attention(channels, context, heads=channels // head_dim, dim_head=head_dim, bias=bias)


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


class AttentionBlock(nn.Module):
    def __init__(self, channels, args):
        super().__init__()
        self.norm = nn.GroupNorm(args.norm_groups, channels, eps=1e-6)
        self.self_attention = attention(channels, channels, args.head_dim, bias=True)

    def forward(self, x, _):
        h = self.norm(x).flatten(2).transpose(1, 2)
        return x + self.self_attention(h, h).transpose(1, 2).reshape(x.shape)


class TransformerBlock(nn.Module):
    def __init__(self, channels, args, cross_only):
        super().__init__()
        self.norm = nn.GroupNorm(args.norm_groups, channels, eps=1e-6)
        self.proj_in = nn.Conv2d(channels, channels, 1)
        self.norm1 = None if cross_only else nn.LayerNorm(channels)
        self.attn1 = None if cross_only else attention(channels, channels, args.head_dim)
        self.norm2 = nn.LayerNorm(channels)
        self.attn2 = attention(channels, args.seq_width, args.head_dim)
        self.norm3 = nn.LayerNorm(channels)
        self.ff = FeedForward(channels, args.use_glu)
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
    role = "stage"

    def __init__(self, resnet, attention):
        super().__init__()
        self.resnet, self.attention = resnet, attention

    def forward(self, x, emb, context):
        h = self.resnet(x, emb)
        return h if self.attention is None else self.attention(h, context)


class Context(nn.Module):
    """The conditions of the network, as one sequence."""

    def __init__(self, conditioning, args):
        super().__init__()
        width = args.seq_width
        parts = {
            # Older exports have no BERT.
            **{
                f"{name}_emb": conditioning.get(f"{name}_width")
                for name in ("clip", "t5", "bert", "clip_image")
            },
            **dict.fromkeys(conditioning["scalars"], width),
        }
        self.null_token = nn.Embedding(1, width)
        self.maps = nn.ModuleDict(
            {name: nn.Linear(inputs, width) for name, inputs in parts.items() if inputs}
        )
        classes = conditioning["num_classes"]
        self.classes = nn.Embedding(classes + 1, width) if classes else None
        self.t5_mult, self.aesth_score_range = args.t5_mult, args.aesth_score_range

    def forward(self, context, batch):
        width = self.null_token.embedding_dim
        pieces = [self.null_token.weight[None].expand(batch, -1, -1)]
        # A tree of arrays in JAX comes sorted by name, and so does the sequence.
        for name, into in sorted(self.maps.items()):
            value = context[name].float()
            if name == "clip_image_emb":
                pieces.append(into(value)[:, None])
            elif name.endswith("_emb"):
                pieces.append(into(value * self.t5_mult if name == "t5_emb" else value))
            else:
                given = (value != 0)[:, None, None]
                pieces.append(
                    torch.where(given, into(sinusoids(self.scaled(name, value), width))[:, None], 0.0)
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
    def __init__(self, sample_size, in_channels, args, conditioning):
        super().__init__()
        self.args = args = SimpleNamespace(**args)
        plain, self.act = args.blocks == "plain", activation(args)

        def resnet(a, b, resample=None):
            return ResnetBlock(a, b, args, resample)

        def attends(width, level):
            if plain:
                return AttentionBlock(width, args)
            return TransformerBlock(width, args, cross_only=level == 0)

        def stage(a, b, level):
            resolution = sample_size // 2**level
            return Stage(resnet(a, b), attends(b, level) if resolution in args.attn_resolutions else None)

        self.context = None if plain else Context(conditioning, args)
        self.time0 = nn.Linear(args.ch if plain else args.emb_ch, args.emb_ch)
        self.time1 = nn.Linear(args.emb_ch, args.emb_ch)
        inputs = 2 * in_channels + 1 if conditioning["inpainting"] else in_channels
        self.conv_in = nn.Conv2d(inputs, args.ch, 3, padding=1)
        widths, handed, now = [args.ch * mult for mult in args.ch_mult], [args.ch], args.ch
        self.downs = nn.ModuleList()
        for level, width in enumerate(widths):
            for _ in range(args.num_res_blocks):
                self.downs.append(stage(now, width, level))
                now = width
                handed.append(now)
            if level != len(widths) - 1:
                self.downs.append(resnet(now, now, "down") if args.resblock_resample else StridedConv(now))
                handed.append(now)
        self.middle1 = resnet(now, now)
        self.middle_attention = attends(now, max(len(widths) - 1, 1))
        self.middle2 = resnet(now, now)
        self.ups = nn.ModuleList()
        for level in reversed(range(len(widths))):
            for _ in range(args.num_res_blocks + 1):
                self.ups.append(stage(now + handed.pop(), widths[level], level))
                now = widths[level]
            if level != 0:
                up = resnet(now, now, "up") if args.resblock_resample else nn.Conv2d(now, now, 3, padding=1)
                self.ups.append(up)
        self.norm_out = nn.GroupNorm(args.norm_groups, now, eps=1e-6)
        self.conv_out = nn.Conv2d(now, args.out_ch if plain else 8 * math.ceil(args.out_ch / 8), 3, padding=1)

    def forward(self, z, logsnr, context):
        args = self.args
        emb = self.embed_noise_level(logsnr)
        tokens = None if self.context is None else self.context(context, len(z))
        if self.config.conditioning["inpainting"]:
            mask = context["mask"]
            z = torch.cat([z, context["known"] * (1 - mask), mask], dim=1)
        h = self.conv_in(z)
        if args.use_pos_enc:
            h = h + position_map(args.ch, z.shape[-1], z.device)
        handed = [h]
        for block in self.downs:
            h = self.through(block, h, emb, tokens)
            handed.append(h)
        h = self.middle2(self.middle_attention(self.middle1(h, emb), tokens), emb)
        for block in self.ups:
            role = getattr(block, "role", "convolution")
            if role == "stage":
                h = torch.cat([h, handed.pop()], dim=1)
            elif role == "convolution":
                h = F.interpolate(h, scale_factor=2.0)
            h = self.through(block, h, emb, tokens)
        return self.conv_out(self.act(self.norm_out(h)))[:, : args.out_ch]

    @staticmethod
    def through(block, h, emb, tokens):
        role = getattr(block, "role", "convolution")
        if role == "stage":
            return block(h, emb, tokens)
        return block(h, emb) if role == "resnet" else block(h)

    def embed_noise_level(self, logsnr):
        if self.args.logsnr_input == "inv_cos":
            level = torch.arctan(torch.exp(-0.5 * logsnr.clamp(-20, 20))) / (0.5 * math.pi)
        else:
            low, high = self.args.logsnr_scale_range
            level = (logsnr - low) / (high - low)
        return self.time1(self.act(self.time0(sinusoids(level, self.time0.in_features))))
