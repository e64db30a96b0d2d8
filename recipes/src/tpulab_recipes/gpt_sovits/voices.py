"""What a trained voice does: sound to semantic tokens, tokens to sound, one voice into another, and text to
speech with a first stage. Everything is padded to few lengths, so few programs speak all sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tpulab_recipes.audio.mel import MelSettings, MelSpectrogram
from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.gpt_sovits.config import Config
from tpulab_recipes.gpt_sovits.data import Features, fitted_features, level, spectrogram
from tpulab_recipes.gpt_sovits.s1 import Sampling, generate
from tpulab_recipes.gpt_sovits.text import numbers_of, phonemes_of, sentences

#: Tokens, phonemes and frames of a reference are padded to multiples of these: 1 s, 32 phonemes, 5 s.
TOKEN_STEP, TEXT_STEP, FRAME_STEP = 25, 32, 250
SILENCE_S = 0.3
#: A frame of silence more than the style encoder's convolutions see.
_MARGIN = 5


@dataclass(frozen=True)
class Voice:
    """A generator that speaks."""

    generator: Any
    """On the device of `backend` (`backend.prepare`)."""
    backend: Any
    config: Config
    features: Features

    def tokens(self, wave: np.ndarray) -> torch.Tensor:
        """Semantic tokens of a wave, Int64[token], 25 a second; on the host."""
        wave = level(wave)
        ssl = fitted_features(self.features(wave), len(wave) // self.config.hop_length // 2 * 2)
        if ssl.shape[1] < 2:
            raise ConfigError("source", "it is too short for a semantic token.")
        placed = torch.from_numpy(ssl)[None].to(self.generator.ssl_proj.weight.device)
        codes: torch.Tensor = self.generator.extract_latent(placed)[0, 0].cpu()
        return codes

    def synthesize(
        self,
        codes: Any,
        phonemes: Sequence[str],
        references: Sequence[np.ndarray],
        *,
        speed: float = 1.0,
        seed: int = 0,
    ) -> np.ndarray:
        """Float32[sample] of semantic tokens (Int[token]) with their phonemes, in the mean voice of the
        references (waves). Raises `ConfigError` for an empty sentence."""
        if len(codes) == 0 or not references:
            raise ConfigError("text", "there are no tokens to speak, or no reference to speak like.")
        if not 0.6 <= speed <= 1.65:
            raise ConfigError("speed", f"{speed} is not between 0.6 and 1.65.")
        generator, config = self.generator, self.config
        specs = [spectrogram(level(wave), config) for wave in references]
        refer_lengths = np.array([spec.shape[1] for spec in specs])
        refer = np.zeros((len(specs), specs[0].shape[0], _up(max(refer_lengths) + _MARGIN, FRAME_STEP)))
        for row, spec in enumerate(specs):
            refer[row, :, : spec.shape[1]] = spec
        tokens = _padded(codes, TOKEN_STEP)
        room, frames = (
            int(count * (2 if generator.halved else 1) / speed) + (speed != 1)
            for count in (tokens.shape[1], len(codes))
        )
        noise = np.random.default_rng(seed).standard_normal((1, config.inter_channels, room), np.float32)
        given = {
            "text": _padded(numbers_of(phonemes, config.version), TEXT_STEP),
            "noise": noise,
            "lengths": np.array([len(codes)]),
            "text_lengths": np.array([len(phonemes)]),
        }

        def program(tokens: Any, refer: Any, refer_lengths: Any, given: Any) -> Any:
            with torch.no_grad():
                ge = generator.voice_of(refer, refer_lengths).mean(0, keepdim=True)
                return generator.decode(tokens[None], refer=ge, speed=speed, **given)

        training = generator.training
        generator.eval()
        try:
            placed = self.backend.to_device([tokens, np.float32(refer), refer_lengths, given])
            wave = self.backend.to_host(self.backend.compile(program)(*placed))[0, 0].float().numpy()
        finally:
            generator.train(training)
        return np.asarray(wave[: frames * config.hop_length], np.float32)

    def convert(
        self,
        wave: np.ndarray,
        references: Sequence[np.ndarray],
        *,
        phonemes: Sequence[str] = ("_",),
        seed: int = 0,
    ) -> np.ndarray:
        """The wave's words in the references' voice: its semantic tokens, decoded with another style. With
        the phonemes of the clip it is clearer. Needs no first stage, and no `enc_q`."""
        return self.synthesize(self.tokens(wave), phonemes, references, seed=seed)

    def speak(
        self,
        first_stage: Any,
        phonemes: Sequence[str],
        reference: np.ndarray,
        reference_phonemes: Sequence[str],
        sampling: Sampling,
        *,
        speed: float = 1.0,
    ) -> np.ndarray:
        """Float32[sample] of a text in the voice of a reference whose text is known: the first stage goes on
        from the reference's tokens. Raises `ConfigError` where no sound was generated."""
        entries = first_stage.ar_text_embedding.word_embeddings.num_embeddings
        version = self.config.version
        text = numbers_of([*reference_phonemes, *phonemes], version)
        if max(text) >= entries:
            raise ConfigError("pretrained_s1", f"knows {entries} phonemes; the text is of {version}.")
        prompt = self.tokens(np.concatenate([reference, self._silence]))
        if int(prompt.max()) >= first_stage.eos:
            raise ConfigError("pretrained_s1", "writes fewer semantic tokens than the second stage reads.")
        (codes,) = generate(first_stage, self.backend, [text], sampling, prompt=prompt[None])
        if len(codes) == 0:
            raise ConfigError("text", "The first stage generated nothing; try another seed or a longer text.")
        return self.synthesize(codes, phonemes, [reference], speed=speed, seed=sampling.seed)

    @property
    def _silence(self) -> np.ndarray:
        """After a reference, as in the original, and between sentences."""
        return np.zeros(int(SILENCE_S * self.config.sampling_rate), np.float32)

    def read_aloud(
        self,
        first_stage: Any,
        text: str,
        reference: np.ndarray,
        reference_text: str,
        sampling: Sampling,
        *,
        speed: float = 1.0,
    ) -> np.ndarray:
        """`speak` for each sentence of a text, with a pause between them. Raises `ConfigError` for a text
        without words."""
        parts, known = sentences(text), phonemes_of(reference_text)
        waves: list[np.ndarray] = []
        for phonemes in map(phonemes_of, parts or [text]):
            waves += [
                self.speak(first_stage, phonemes, reference, known, sampling, speed=speed),
                self._silence,
            ]
        return np.concatenate(waves[:-1])


def _up(count: int, step: int) -> int:
    return -(-count // step) * step


def _padded(numbers: Any, step: int) -> np.ndarray:
    """Int64[1, number], with zeros to a multiple of `step`."""
    row = np.asarray(numbers, np.int64)
    return np.pad(row, (0, _up(len(row), step) - len(row)))[None]


def envelope_distance(wave: np.ndarray, other: np.ndarray, sample_rate: int) -> float:
    """How far the resonances of two waves of the same words lie apart: the mean difference, frame by frame,
    of their first 13 mel cepstra (Davis & Mermelstein 1980). Loudness and pitch hardly count."""
    settings = MelSettings(sample_rate, 512, sample_rate // 50, 512, 40, 60.0, center=False)
    mel = MelSpectrogram(settings)
    shapes = np.cos(np.pi * np.outer(np.arange(1, 14), np.arange(settings.n_mels) + 0.5) / settings.n_mels)
    with torch.no_grad():
        mels = [mel(torch.from_numpy(level(each))[None])[0].numpy() for each in (wave, other)]
    one, two = (shapes @ np.maximum(each, -6.0) / settings.n_mels for each in mels)
    frames = min(one.shape[1], two.shape[1])
    return float(np.abs(one[:, :frames] - two[:, :frames]).mean())
