"""Speech from phonemes: a mel spectrogram one frame at a time against static caches, as three programs for
each bucket of length.

`start` reads the phonemes; `step` generates the next frame of every utterance and checks whether it ends;
`finish` runs the PostNet. The host checks the stop mask every few frames (`audio.sampling.decode`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tpulab_recipes.audio.sampling import decode
from tpulab_recipes.common.errors import ConfigError, DataError
from tpulab_recipes.english_tts.model import KokoroModel, _mask
from tpulab_recipes.runtime import Backend

#: Frames beyond the predicted length after which an utterance ends without its stop token.
SLACK = 8
_HALF = -math.log(2)


@dataclass(frozen=True)
class Speech:
    phonemes: NDArray[np.int32]
    durations: NDArray[np.int32]
    """Int32[phoneme]: frames of each."""
    mel: NDArray[np.float32]
    """Float32[frame, mel]: natural logarithm, up to the stop token."""
    stopped: bool
    """Whether a stop token ended it; otherwise the frames ran out."""

    @property
    def planned(self) -> int:
        """Frames by the durations."""
        return int(self.durations.sum())


@torch.no_grad()
def speak(
    model: KokoroModel,
    backend: Backend,
    phonemes: Sequence[NDArray[np.int32]],
    *,
    durations: Sequence[NDArray[np.int32]] | None = None,
    rate: float = 1.0,
    fit: bool = False,
) -> list[Speech]:
    """Speaks these sequences of phonemes, Int[phoneme] each.

    Args:
        model: on the backend's device.
        durations: frames of each phoneme, instead of the predicted ones.
        rate: speed of speaking.
        fit: durations that are too long together are shortened; a model that still learns plans too much.

    Raises `DataError` for an utterance that fits no bucket, `ConfigError` for a rate that cannot be.
    """
    if not 0.1 <= rate <= 10:
        raise ConfigError("rate", f"{rate} is not from 0.1 to 10.")
    c, training = model.config, model.training
    model.eval()
    try:
        limit = min(max(c.frame_buckets), c.max_decoder_seq_len)
        size = max(c.phonemes_of(max(c.frame_buckets)), 8)
        longest = max(len(one) for one in phonemes)
        if not 0 < longest <= size:
            raise DataError(f"{longest} phonemes; 1 to {size} fit. Say shorter sentences.")
        padded, lengths = np.zeros((len(phonemes), size), np.int32), np.zeros(len(phonemes), np.int32)
        for place, one in enumerate(phonemes):
            padded[place, : len(one)], lengths[place] = one, len(one)
        speaker = _Speaker(model, backend, *backend.to_device([padded, lengths]))
        planned = np.zeros_like(padded)
        if durations is None:
            found = np.asarray(backend.to_host(backend.compile(speaker.read, name="tts_read")()))
            planned = np.maximum(1, np.rint(np.exp(found.astype(np.float64)) / rate)).astype(np.int32)
            planned *= np.arange(size) < lengths[:, None]
            if fit:
                planned = _shortened(planned, limit)
        else:
            backend.compile(speaker.read, name="tts_read")()
            for place, own in enumerate(durations):
                planned[place, : len(own)] = own
        most = int(planned.sum(1).max())
        fitting = [each for each in c.frame_buckets if min(most + SLACK, max(c.frame_buckets)) <= each]
        if most > limit:
            raise DataError(f"{most} frames; at most {limit} fit. Say shorter sentences.")
        mel, ended, stopped = speaker.run(planned, fitting[0])
        return [
            Speech(one, planned[place, : len(one)], mel[place, : int(ended[place])], bool(stopped[place]))
            for place, one in enumerate(phonemes)
        ]
    finally:
        model.train(training)


def _shortened(planned: NDArray[np.int32], limit: int) -> NDArray[np.int32]:
    """Int[utterance, phoneme]: no utterance over `limit` frames, each phoneme at least one."""
    counts, frames = (planned > 0).sum(1, keepdims=True), planned.sum(1, keepdims=True)
    share = np.minimum(1, (limit - counts) / np.maximum(1, frames - counts))
    return np.where(planned > 0, 1 + np.floor((planned - 1) * share), 0).astype(np.int32)


class _Speaker:
    """Caches and counters on the device, and the programs over them."""

    def __init__(self, model: KokoroModel, backend: Backend, phonemes: Any, lengths: Any) -> None:
        self.model, self.backend, self.phonemes, self.phoneme_lengths = model, backend, phonemes, lengths

    def read(self) -> torch.Tensor:
        """Float[B, P]: logarithms of durations."""
        self.encoded = self.model.encode(self.phonemes, self.phoneme_lengths)
        return self.model.log_durations(self.encoded)

    def run(self, durations: NDArray[np.int32], frames: int) -> tuple[Any, Any, Any]:
        """Float[B, T, M], Int[B] and Bool[B] on the host."""
        place, rows, c = self.backend.to_device, len(durations), self.model.config
        self.frames = frames
        self.durations, self.lengths = place([durations, durations.sum(1).astype(np.int32)])
        self.mel, self.left = place(
            [np.zeros((rows, frames, c.n_mels), np.float32), np.zeros(rows, np.float32)]
        )
        self.now, self.ended = place([np.zeros(1, np.int64), np.full(rows, frames, np.int64)])
        self.stopped = self.ended == 0
        start, step, finish = (
            self.backend.compile(each, name=f"tts_{each.__name__}")
            for each in (self.start, self.step, self.finish)
        )
        start()
        limit = int(min(durations.sum(1).max() + SLACK, frames))
        frame = decode(self.backend, step, limit)
        # No frame after the last generated one.
        self.ended = torch.minimum(self.ended, place(np.asarray(frame, np.int64)))
        mel, ended, stopped = self.backend.to_host([finish(), self.ended, self.stopped])
        return np.asarray(mel), np.asarray(ended), np.asarray(stopped)

    def start(self) -> torch.Tensor:
        """Keys and values of every cross-attention, and empty caches."""
        model, rows = self.model, len(self.durations)
        memory = model.memory(self.encoded, self.durations, self.frames)
        self.caches = []
        for block in model.decoder:
            cross: Any = block.cross
            keys, values = cross.split(cross.key(memory)), cross.split(cross.value(memory))
            self.caches.append([torch.zeros_like(keys), torch.zeros_like(values), keys, values])
        self.bias = model.cross_bias(self.lengths, self.frames).expand(rows, -1, -1, -1) * 1.0
        self.beside = model.beside(memory)
        return memory

    def step(self) -> torch.Tensor:
        """Generates frame `now`; returns whether all utterances have ended."""
        model, now = self.model, self.now
        before = self.mel.index_select(1, (now - 1).clamp(min=0)) * (now > 0)
        # A decoder that was trained without frames gets no frames.
        before = before * (model.config.frame_dropout < 1)
        x = model.mel_in(before) + self.beside.index_select(1, now)
        bias = self.bias.index_select(2, now)
        for number, block in enumerate(model.decoder):
            x, self.caches[number] = block.step(x, self.caches[number], bias, now)
        x = model.decoder_norm(x)
        self.mel = self.mel.index_copy(1, now, model.mel_out(x))
        self.now = now + 1
        # The logarithm of the probability that no frame so far was the last.
        self.left = self.left - torch.nn.functional.softplus(model.stop_odds(x)[:, 0])
        stops = (self.left <= _HALF) & (self.now <= self.ended)
        self.stopped = self.stopped | stops
        ends = stops | (self.now >= self.lengths + SLACK)
        self.ended = torch.where(ends, torch.minimum(self.ended, self.now), self.ended)
        return (self.ended <= self.now).all().int()

    def finish(self) -> torch.Tensor:
        model, mel = self.model, self.mel
        if model.postnet is not None:
            mel = model.postnet(mel, _mask(self.ended, self.frames))
        return model.log_mel(mel)
