"""The voice: phonemes to durations to a mel spectrogram, in shapes that never depend on the text.

A phoneme encoder; a duration predictor; a length regulator that repeats each phoneme for its frames; a causal
decoder that reads the previous frame and attends to the repeated phonemes; heads for the next frame and for
the end; a PostNet (Shen et al. 2018, arXiv 1712.05884) that corrects the whole spectrogram.

Shapes: B utterances, P phonemes, T frames, D `hidden_dim`, M mel bands. Padding is at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from tpulab_recipes.english_tts.config_english import EnglishTrainingConfig
from tpulab_recipes.english_tts.data import SYMBOLS

#: Added to scores of keys that must not be seen: finite, so that no row of a softmax is empty.
_HIDDEN = -1e9
Recompute = Callable[..., Any]


class Predictions(NamedTuple):
    """The predictions of a batch."""

    mel_before: torch.Tensor
    """Float[B, T, M], normalised, before the PostNet."""
    mel: torch.Tensor
    """Float[B, T, M], after it."""
    stop_logits: torch.Tensor
    """Float[B, T]."""
    log_durations: torch.Tensor
    """Float[B, P]."""
    attention: torch.Tensor
    """Float[B, T, T]: cross-attention of the last layer, mean over heads."""


def sinusoids(length: int, dim: int, device: Any = None) -> torch.Tensor:
    """Float[length, dim]: sines and cosines of the position (Vaswani et al. 2017, section 3.5)."""
    rates = torch.exp(-math.log(10_000) / dim * torch.arange(0, dim, 2, dtype=torch.float32, device=device))
    angles = torch.arange(length, dtype=torch.float32, device=device)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def regulate(encoded: torch.Tensor, durations: torch.Tensor, frames: int) -> torch.Tensor:
    """Float[B, frames, D]: each phoneme of Float[B, P, D] for its number of frames, Int[B, P]; zeros after.

    Frame t belongs to the phoneme whose cumulated durations first pass t. That is a comparison and one matrix
    product, of the same shapes whatever the durations are.
    """
    return alignment(durations, frames).to(encoded.dtype) @ encoded


def alignment(durations: torch.Tensor, frames: int) -> torch.Tensor:
    """Float[B, frames, P]: 1 where a frame belongs to a phoneme."""
    ends = durations.cumsum(-1)
    frame = torch.arange(frames, device=durations.device)[:, None]
    return ((frame >= (ends - durations)[:, None]) & (frame < ends[:, None])).float()


def _mask(lengths: torch.Tensor, size: int) -> torch.Tensor:
    """Bool[B, size]: positions that count."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]


class GatedFeedForward(nn.Module):
    def __init__(self, dim: int, inner: int) -> None:
        super().__init__()
        self.widen, self.narrow = nn.Linear(dim, 2 * inner), nn.Linear(inner, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value, gate = self.widen(x).chunk(2, -1)
        out: torch.Tensor = self.narrow(value * gate.relu())
        return out


class Attention(nn.Module):
    """Projections without bias, split into heads."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads, self.width = heads, dim // heads
        self.query, self.key, self.value, self.out = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def split(self, x: torch.Tensor) -> torch.Tensor:
        """Float[B, head, time, width] of Float[B, time, D]."""
        return x.view(*x.shape[:2], self.heads, self.width).transpose(1, 2)

    def joined(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.out(x.transpose(1, 2).flatten(2))
        return out

    def attend(self, x: torch.Tensor, memory: torch.Tensor, bias: torch.Tensor) -> tuple[Any, Any]:
        """Float[B, time, D], and the weights, Float[B, head, time, key]. `bias` is added to the scores."""
        key, value = self.split(self.key(memory)), self.split(self.value(memory))
        return self.weighted(self.split(self.query(x)), key, value, bias)

    def weighted(self, query: Any, key: Any, value: Any, bias: torch.Tensor) -> tuple[Any, Any]:
        weights = (query @ key.transpose(-1, -2) / math.sqrt(self.width) + bias).softmax(-1)
        return self.joined(weights @ value), weights


class RelativeAttention(Attention):
    """Causal self-attention with learned vectors for distances up to `reach`, for keys and for values (Shaw
    et al. 2018, arXiv 1803.02155, equations 3 and 4)."""

    def __init__(self, dim: int, heads: int, reach: int) -> None:
        super().__init__(dim, heads)
        self.reach = reach
        self.key_offsets = nn.Parameter(torch.randn(2 * reach + 1, self.width) * self.width**-0.5)
        self.value_offsets = nn.Parameter(torch.randn(2 * reach + 1, self.width) * self.width**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        query, key, value = (self.split(project(x)) for project in (self.query, self.key, self.value))
        pick = self._pick(torch.arange(length - 1, -1, -1, device=x.device))
        # Scores by distance, then moved so that they stand by key: no gather, whatever the length.
        scores = query @ key.transpose(-1, -2) + _by_key(query @ (pick @ self.key_offsets).T.to(query.dtype))
        hidden = torch.ones(length, length, device=x.device).triu(1) * _HIDDEN
        weights = (scores / math.sqrt(self.width) + hidden).softmax(-1)
        offsets = (pick @ self.value_offsets).to(value.dtype)
        return self.joined(weights @ value + _by_distance(weights) @ offsets)

    def step(self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, place: torch.Tensor) -> Any:
        """One frame, Float[B, 1, D], at `place`, Int[1], against caches, Float[B, head, T, width]. Returns
        the result and both caches with this frame."""
        keys = keys.index_copy(2, place, self.split(self.key(x)))
        values = values.index_copy(2, place, self.split(self.value(x)))
        query, distance = self.split(self.query(x)), place - torch.arange(keys.shape[2], device=x.device)
        pick = self._pick(distance)
        scores = query @ keys.transpose(-1, -2) + query @ (pick @ self.key_offsets).T
        scores = scores / math.sqrt(self.width) + torch.where(distance < 0, _HIDDEN, 0.0)
        weights = scores.softmax(-1)
        return self.joined(weights @ values + weights @ (pick @ self.value_offsets)), keys, values

    def _pick(self, distances: torch.Tensor) -> torch.Tensor:
        """Float[distance, row]: 1 at the row of the tables for a key so many frames before."""
        rows = torch.arange(2 * self.reach + 1, device=distances.device)
        return ((-distances).clamp(-self.reach, self.reach)[:, None] + self.reach == rows).float()


def _by_key(scores: torch.Tensor) -> torch.Tensor:
    """Float[..., query, key] of Float[..., query, place], where place T - 1 - d is the distance d. Keys after
    the query are arbitrary (Huang et al. 2018, arXiv 1809.04281, section 3.4.1)."""
    *rest, length, _ = scores.shape
    return functional.pad(scores, (1, 0)).view(*rest, length + 1, length)[..., 1:, :]


def _by_distance(weights: torch.Tensor) -> torch.Tensor:
    """The way back, of weights that are 0 for keys after the query."""
    *rest, length, _ = weights.shape
    return functional.pad(weights, (0, 0, 1, 0)).view(*rest, length, length + 1)[..., 1:]


class EncoderBlock(nn.Module):
    def __init__(self, c: EnglishTrainingConfig) -> None:
        super().__init__()
        self.norm_1, self.attention = nn.LayerNorm(c.hidden_dim), Attention(c.hidden_dim, c.n_heads)
        self.norm_2, self.feed = nn.LayerNorm(c.hidden_dim), GatedFeedForward(c.hidden_dim, c.encoder_ff_dim)
        self.dropout = nn.Dropout(c.encoder_dropout)

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        y = self.norm_1(x)
        x = x + self.dropout(self.attention.attend(y, y, bias)[0])
        return x + self.dropout(self.feed(self.norm_2(x)))


class DecoderBlock(nn.Module):
    def __init__(self, c: EnglishTrainingConfig) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(c.hidden_dim)
        self.own = RelativeAttention(c.hidden_dim, c.n_heads, c.relative_positions)
        self.norm_2, self.cross = nn.LayerNorm(c.hidden_dim), Attention(c.hidden_dim, c.n_heads)
        self.norm_3, self.feed = nn.LayerNorm(c.hidden_dim), GatedFeedForward(c.hidden_dim, c.decoder_ff_dim)
        self.dropout = nn.Dropout(c.decoder_dropout)

    def forward(self, x: torch.Tensor, memory: torch.Tensor, bias: torch.Tensor) -> Any:
        x = x + self.dropout(self.own(self.norm_1(x)))
        seen, weights = self.cross.attend(self.norm_2(x), memory, bias)
        x = x + self.dropout(seen)
        return x + self.dropout(self.feed(self.norm_3(x))), weights.mean(1)

    def step(
        self, x: torch.Tensor, cache: list[torch.Tensor], bias: torch.Tensor, place: torch.Tensor
    ) -> Any:
        """One frame. `cache`: own keys and values, then those of the memory."""
        own, keys, values = self.own.step(self.norm_1(x), cache[0], cache[1], place)
        x = x + own
        query = self.cross.split(self.cross.query(self.norm_2(x)))
        x = x + self.cross.weighted(query, cache[2], cache[3], bias)[0]
        return x + self.feed(self.norm_3(x)), [keys, values, *cache[2:]]


class PostNet(nn.Module):
    """Five convolutions over time whose sum with the spectrogram is better than it. Norms are over channels
    and padding is zero between layers, so that padding changes nothing."""

    def __init__(self, mels: int, dim: int) -> None:
        super().__init__()
        sizes = [mels, dim, dim, dim, dim, mels]
        self.layers = nn.ModuleList(
            nn.Conv1d(before, after, 5, padding=2) for before, after in pairwise(sizes)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(4))

    def forward(self, mel: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
        """Float[B, T, M] of Float[B, T, M] and Bool[B, T]."""
        x = mel
        for number, layer in enumerate(self.layers):
            x = layer((x * valid[..., None]).transpose(1, 2)).transpose(1, 2)
            if number < len(self.norms):
                x = self.norms[number](x).tanh()
        return mel + x


class KokoroModel(nn.Module):
    """The network. `recompute` (`Backend.recompute`) runs each layer twice instead of keeping it."""

    mel_mean: torch.Tensor
    mel_std: torch.Tensor

    def __init__(
        self, config: EnglishTrainingConfig, symbols: int = len(SYMBOLS), recompute: Recompute | None = None
    ) -> None:
        super().__init__()
        c, dim = config, config.hidden_dim
        self.config, self.recompute = config, recompute
        self.embedding = nn.Embedding(symbols, dim)
        nn.init.normal_(self.embedding.weight, std=dim**-0.5)
        self.encoder = nn.ModuleList(EncoderBlock(c) for _ in range(c.n_encoder_layers))
        self.encoder_norm = nn.LayerNorm(dim)
        self.durations = nn.Sequential(
            nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim // 2), nn.ReLU(), nn.Linear(dim // 2, 1)
        )
        self.mel_in = nn.Linear(c.n_mels, dim)
        self.decoder = nn.ModuleList(DecoderBlock(c) for _ in range(c.n_decoder_layers))
        self.decoder_norm = nn.LayerNorm(dim)
        self.mel_out, self.stop_out = nn.Linear(dim, c.n_mels), nn.Linear(dim, 1)
        self.postnet = PostNet(c.n_mels, c.postnet_dim) if c.postnet_dim else None
        # Of the training data (`prepare`), so that every band counts alike.
        self.register_buffer("mel_mean", torch.zeros(c.n_mels))
        self.register_buffer("mel_std", torch.ones(c.n_mels))

    def normalised(self, mel: torch.Tensor) -> torch.Tensor:
        """Normalises Float[..., M], the natural logarithm of the mel spectrogram."""
        return (mel - self.mel_mean) / self.mel_std

    def log_mel(self, mel: torch.Tensor) -> torch.Tensor:
        """The inverse of `normalised`."""
        return mel * self.mel_std + self.mel_mean

    def encode(self, phonemes: torch.Tensor, phoneme_lengths: torch.Tensor) -> torch.Tensor:
        """Float[B, P, D] of Int[B, P]."""
        size = phonemes.shape[1]
        x = self.embedding(phonemes) * math.sqrt(self.config.hidden_dim)
        x = x + sinusoids(size, self.config.hidden_dim, x.device)
        bias = torch.where(_mask(phoneme_lengths, size), 0.0, _HIDDEN)[:, None, None]
        for block in self.encoder:
            x = self._layer(block, x, bias)
        out: torch.Tensor = self.encoder_norm(x)
        return out

    def stop_odds(self, x: torch.Tensor) -> torch.Tensor:
        """Float[B, T]: logarithms of the odds that an utterance ends with this frame, of Float[B, T, D].

        The loss counts that frame `stop_positive_weight` times, so the head learns odds that are so many
        times too high: taken as they are, they end an utterance frames too early. Frames after the end
        are not trained, so these are odds for an utterance that has not ended before (a hazard)."""
        logits: torch.Tensor = self.stop_out(x)[..., 0]
        return logits - math.log(self.config.stop_positive_weight)

    def log_durations(self, encoded: torch.Tensor) -> torch.Tensor:
        """Float[B, P]: natural logarithms of frames. No gradient reaches the encoder, as in FastSpeech 2's
        implementations: durations would otherwise dominate what it learns."""
        found: torch.Tensor = self.durations(encoded.detach())[..., 0]
        return found

    def memory(self, encoded: torch.Tensor, durations: torch.Tensor, frames: int) -> torch.Tensor:
        """Float[B, T, D]: the decoder's memory, with positions."""
        return regulate(encoded, durations, frames) + sinusoids(
            frames, self.config.hidden_dim, encoded.device
        )

    def beside(self, memory: torch.Tensor) -> torch.Tensor:
        """Float[B or 1, T, D], added to the decoder's input: the memory if `guided`, else the positions."""
        if self.config.guided:
            return memory
        return sinusoids(memory.shape[1], self.config.hidden_dim, memory.device)[None]

    def cross_bias(self, lengths: torch.Tensor, frames: int) -> torch.Tensor:
        """Float[B, head or 1, T, T]: hides padding and, with `cross_locality`, prefers near frames (linear
        biases: Press et al. 2021, arXiv 2108.12409)."""
        hidden = torch.where(_mask(lengths, frames), 0.0, _HIDDEN)[:, None, None]
        if not self.config.cross_locality:
            return hidden.expand(-1, 1, frames, -1)
        place = torch.arange(frames, device=lengths.device, dtype=torch.float32)
        slopes = 0.5 ** torch.arange(self.config.n_heads, device=lengths.device, dtype=torch.float32)
        near = -self.config.cross_locality * (place[:, None] - place).abs() * slopes[:, None, None]
        return hidden + near

    def forward(
        self,
        phonemes: torch.Tensor,
        phoneme_lengths: torch.Tensor,
        durations: torch.Tensor,
        mel: torch.Tensor,
        mel_lengths: torch.Tensor,
        shown: torch.Tensor | None = None,
    ) -> Predictions:
        """Teacher forcing: every frame is predicted from the true frame before it.

        Args:
            phonemes, durations: Int[B, P].
            mel: Float[B, T, M], normalised.
            shown: Bool[B, T]: input frames that are not hidden (`frame_dropout`); None: all are shown.
        """
        frames = mel.shape[1]
        encoded = self.encode(phonemes, phoneme_lengths)
        memory = self.memory(encoded, durations, frames)
        before = functional.pad(mel[:, :-1], (0, 0, 1, 0))
        if shown is not None:
            before = before * shown[..., None]
        x = self.mel_in(before) + self.beside(memory)
        bias, weights = self.cross_bias(mel_lengths, frames), None
        for block in self.decoder:
            x, weights = self._layer(block, x, memory, bias)
        x = self.decoder_norm(x)
        coarse = self.mel_out(x)
        valid = _mask(mel_lengths, frames)
        better = coarse if self.postnet is None else self.postnet(coarse, valid)
        assert weights is not None
        return Predictions(coarse, better, self.stop_out(x)[..., 0], self.log_durations(encoded), weights)

    def _layer(self, block: nn.Module, *args: torch.Tensor) -> Any:
        again = self.recompute if torch.is_grad_enabled() else None
        return again(block, *args) if again else block(*args)


class Losses(NamedTuple):
    """Scalars on the device. `total` is weighted."""

    total: torch.Tensor
    mel: torch.Tensor
    postnet: torch.Tensor
    duration: torch.Tensor
    stop: torch.Tensor


def losses(
    c: EnglishTrainingConfig,
    spoken: Predictions,
    batch: dict[str, torch.Tensor],
    mean_over_processes: Callable[[torch.Tensor], torch.Tensor] = lambda count: count,
) -> Losses:
    """Means without padding, over all processes, so that padding and buckets do not change them.

    Mel: L1, before and after the PostNet. Durations: squared error of log(max(frames, 1e-5)). Stop: binary
    cross-entropy, 1 at the last frame of each utterance.

    Args:
        batch: `mel`, Float[B, T, M], normalised; `mel_lengths` and `phoneme_lengths`, Int[B], 0 for rows that
            only fill up; `durations`, Int[B, P].
    """
    mel, lengths = batch["mel"], batch["mel_lengths"]
    valid = _mask(lengths, mel.shape[1]).float()
    frames = mean_over_processes(valid.sum()).clamp(min=1)
    spoken_symbols = _mask(batch["phoneme_lengths"], batch["durations"].shape[1]).float()

    def distance(found: torch.Tensor) -> torch.Tensor:
        return ((found.float() - mel).abs().mean(-1) * valid).sum() / frames

    wanted = batch["durations"].float().clamp(min=1e-5).log()
    duration = ((spoken.log_durations.float() - wanted) ** 2 * spoken_symbols).sum()
    duration = duration / mean_over_processes(spoken_symbols.sum()).clamp(min=1)
    ends = (torch.arange(mel.shape[1], device=mel.device) == lengths[:, None] - 1).float()
    weight = valid * (1 + (c.stop_positive_weight - 1) * ends)
    stop = functional.binary_cross_entropy_with_logits(
        spoken.stop_logits.float(), ends, weight, reduction="sum"
    )
    stop = stop / frames
    before, after = distance(spoken.mel_before), distance(spoken.mel)
    total = c.mel_loss_weight * before + c.duration_loss_weight * duration + c.stop_token_loss_weight * stop
    if c.postnet_dim:
        total = total + c.postnet_loss_weight * after
    return Losses(total, before, after, duration, stop)
