"""The DAC codec (Kumar et al. 2023, arXiv 2306.06546) through transformers, in static shapes: waves of one
length in, Int[batch, codebook, frame] out."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.utils import parametrize, remove_weight_norm
from torch.nn.utils.weight_norm import WeightNorm

from tpulab_recipes.common.preparation import digest
from tpulab_recipes.torch_training.pretrained import loaded


class Codec:
    """A `DacModel` that only encodes and decodes: in evaluation mode, without gradients, weight norm folded
    into plain weights (as a parametrisation it has no XLA lowering and would run on the host CPU)."""

    def __init__(self, model: Any) -> None:
        self.model = fold_weight_norm(model).eval().requires_grad_(False)
        self.sample_rate = int(model.config.sampling_rate)
        self.hop = int(model.config.hop_length)
        """Samples of one frame."""
        self.codebooks = int(model.config.n_codebooks)

    def to(self, device: torch.device) -> Codec:
        self.model.to(device)
        return self

    def fingerprint(self) -> str:
        """A hash of the weights: a model that was trained on codes of this codec cannot read codes of
        another."""
        return digest(*(each.detach().cpu().numpy().tobytes() for each in self.model.parameters()))

    def samples(self, seconds: float) -> int:
        """Samples of the fewest whole frames that hold this many seconds."""
        return -(-round(seconds * self.sample_rate) // self.hop) * self.hop

    def frames(self, samples: int) -> int:
        """Frames that hold this many samples; the last one may be filled only in part."""
        return -(-samples // self.hop)

    @torch.no_grad()
    def encode(self, waves: torch.Tensor) -> torch.Tensor:
        """Int64[batch, codebook, frame] of Float[batch, sample]; samples must be whole frames (`samples`,
        `files.fitted`), so that each batch has one shape. Raises `ValueError` otherwise."""
        if waves.ndim != 2 or waves.shape[-1] % self.hop:
            raise ValueError(
                f"waves must be (batch, a multiple of {self.hop} samples), not {tuple(waves.shape)}; use "
                "files.fitted(wave, codec.samples(seconds))."
            )
        codes: torch.Tensor = self.model.encode(waves[:, None]).audio_codes
        return codes

    @torch.no_grad()
    def decode(self, codes: torch.Tensor) -> torch.Tensor:
        """Float[batch, sample] of Int[batch, codebook, frame]: `hop` samples for each frame."""
        if codes.ndim != 3 or codes.shape[1] != self.codebooks:
            raise ValueError(f"codes must be (batch, {self.codebooks}, frame), not {tuple(codes.shape)}.")
        waves: torch.Tensor = self.model.decode(audio_codes=codes).audio_values
        return waves.reshape(len(codes), -1)


def load_codec(name: str = "") -> Codec:
    """The codec of that name at Hugging Face or in that folder (`descript/dac_44khz`); empty: `tiny_codec`.

    Raises `ConfigError` when there is no such codec, `CheckpointError` for a damaged one.
    """
    if not name:
        return tiny_codec()
    from transformers import DacModel

    return Codec(loaded("codec", name, DacModel.from_pretrained))


def tiny_codec(seed: int = 0, codebooks: int = 9, hop: int = 512) -> Codec:
    """DAC in a small size with random weights, for tests and lessons without a network: 44.1 kHz, 9 codebooks
    of 1024 entries and 512 samples a frame like the published one. Its codes are repeatable; its sound is
    noise. `hop` must be a power of two of at least 16."""
    from transformers import DacConfig, DacModel

    if hop < 16 or hop & (hop - 1):
        raise ValueError(f"hop must be a power of two of at least 16, not {hop}.")
    ratios = [2, 2, 2, hop // 8]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = DacModel(
            DacConfig(
                encoder_hidden_size=4,
                downsampling_ratios=ratios,
                upsampling_ratios=ratios[::-1],
                decoder_hidden_size=32,
                n_codebooks=codebooks,
                codebook_size=1024,
                codebook_dim=8,
                sampling_rate=44_100,
            )
        )
    return Codec(model)


def fold_weight_norm(module: torch.nn.Module) -> torch.nn.Module:
    """`module` with each weight norm, in the old form or the new, replaced by the weight that it computes."""
    for each in module.modules():
        if parametrize.is_parametrized(each):
            for name in list(each.parametrizations):
                parametrize.remove_parametrizations(each, name)
        for hook in list(each._forward_pre_hooks.values()):
            if isinstance(hook, WeightNorm):
                remove_weight_norm(each, hook.name)
    return module
