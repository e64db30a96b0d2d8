"""What a trained voice does: sound to semantic tokens, tokens to sound, one voice into another, and text to
speech with a first stage. Everything is padded to few lengths, so few programs speak all sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tpulab_recipes.common.errors import CheckpointError, ConfigError
from tpulab_recipes.gpt_sovits.config import Config
from tpulab_recipes.gpt_sovits.data import (
    Features,
    TextFeatures,
    fitted_features,
    levelled,
    no_text_features,
    spectrogram,
)
from tpulab_recipes.gpt_sovits.s1 import Sampling, generate
from tpulab_recipes.gpt_sovits.text import Reading, numbers_of, read, split

#: Tokens of a sentence are padded to the first of these that holds them (5, 15 and 30 s), or to a multiple
#: of the last; phonemes and frames of a reference to multiples of these: few programs speak all sentences.
TOKEN_SIZES, TEXT_STEP, FRAME_STEP = (125, 375, 750), 512, 512
SILENCE_S = 0.3
#: Allowed length of a reference in seconds, as in the original.
REFERENCE_S = (3.0, 10.0)
#: One frame of silence more than the style encoder's convolutions see.
_MARGIN = 5


@dataclass(frozen=True)
class Voice:
    """A generator that speaks."""

    generator: Any
    """On the device of `backend` (`backend.prepare`)."""
    backend: Any
    config: Config
    features: Features
    text_features: TextFeatures = no_text_features
    """BERT's states of a text."""

    def tokens(self, wave: np.ndarray) -> torch.Tensor:
        """Semantic tokens of a wave, Int64[token], 25 a second; on the host."""
        wave = levelled("source", wave, self.config)
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
        specs = [spectrogram(levelled("ref_wav", wave, config), config) for wave in references]
        refer_lengths = np.array([spec.shape[1] for spec in specs])
        refer = np.zeros((len(specs), specs[0].shape[0], _up(max(refer_lengths) + _MARGIN, FRAME_STEP)))
        for row, spec in enumerate(specs):
            refer[row, :, : spec.shape[1]] = spec
        size = next((each for each in TOKEN_SIZES if len(codes) <= each), TOKEN_SIZES[-1])
        tokens = _padded(codes, size)
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
        if not np.isfinite(wave).all():
            raise CheckpointError("The voice speaks no finite sound; its checkpoint is damaged.")
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
        sentences: Sequence[Reading],
        reference: np.ndarray,
        known: Reading,
        sampling: Sampling,
        *,
        speed: float = 1.0,
    ) -> list[np.ndarray]:
        """Float32[sample] of each sentence, in the voice of a reference whose text is known: the first stage
        continues from the reference's tokens, in all sentences at once. Raises `ConfigError` if no sound was
        generated, and as `check_reference`."""
        self.check_reference(reference)
        entries = first_stage.ar_text_embedding.word_embeddings.num_embeddings
        version = self.config.version
        texts = [numbers_of([*known.phonemes, *each.phonemes], version) for each in sentences]
        if max(map(max, texts)) >= entries:
            raise ConfigError("pretrained_s1", f"knows {entries} phonemes; the text is of {version}.")
        prompt = self.tokens(np.concatenate([reference, self.silence(SILENCE_S)]))
        if int(prompt.max()) >= first_stage.eos:
            raise ConfigError("pretrained_s1", "writes fewer semantic tokens than the second stage reads.")
        berts = [self._bert(first_stage, known, each) for each in sentences]
        prompts = prompt[None].expand(len(texts), -1)
        spoken = generate(
            first_stage, self.backend, texts, sampling, berts=berts, prompt=prompts, text_step=TEXT_STEP
        )
        if not all(map(len, spoken)):
            raise ConfigError("text", "The first stage generated nothing; try another seed or a longer text.")
        return [
            self.synthesize(codes, each.phonemes, [reference], speed=speed, seed=sampling.seed)
            for codes, each in zip(spoken, sentences, strict=True)
        ]

    def check_reference(self, wave: np.ndarray) -> None:
        """Raises `ConfigError` for one of less than 3 s or more than 10: no text can be spoken like it."""
        seconds = len(wave) / self.config.sampling_rate
        if not REFERENCE_S[0] <= seconds <= REFERENCE_S[1]:
            raise ConfigError("ref_wav", f"the reference lasts {seconds:.1f} s, not 3 to 10 s.")

    def _bert(self, first_stage: Any, *readings: Reading) -> np.ndarray | None:
        """The texts' features one after the other; zeros where a text has none."""
        found = [self.text_features(each) for each in readings]
        if all(each is None for each in found):
            return None
        empty = first_stage.bert_proj.in_features
        parts = [
            np.zeros((empty, len(reading.phonemes)), np.float32) if each is None else each
            for each, reading in zip(found, readings, strict=True)
        ]
        if any(len(each) != empty for each in parts):
            raise ConfigError(
                "bert_pretrained_dir", f"has {len(parts[0])} features; the first stage, {empty}."
            )
        return np.concatenate(parts, 1)

    def silence(self, seconds: float) -> np.ndarray:
        return np.zeros(int(seconds * self.config.sampling_rate), np.float32)

    def read_aloud(
        self,
        first_stage: Any,
        text: str,
        reference: np.ndarray,
        reference_text: str,
        sampling: Sampling,
        *,
        language: str = "en",
        reference_language: str = "en",
        speed: float = 1.0,
        method: str = "cut5",
        batch: int = 1,
        pause: float = SILENCE_S,
    ) -> Iterator[np.ndarray]:
        """`speak` for each piece of a text (`text.split`), `batch` of them at once, as soon as it is made; a
        pause, in seconds, comes before every piece but the first. Raises `ConfigError` for a text without
        words."""
        version = self.config.version
        pieces = split(text, method, language)
        if not pieces or batch < 1:
            raise ConfigError("text", f"{text!r} has no words, or batch_size is less than 1.")
        known = read(reference_text, reference_language, version)
        readings = [read(piece, language, version, complete=True) for piece in pieces]
        for first in range(0, len(readings), batch):
            part = readings[first : first + batch]
            # The last batch is padded, so that it needs no separate program.
            full = part + part[:1] * (min(batch, len(readings)) - len(part))
            waves = self.speak(first_stage, full, reference, known, sampling, speed=speed)
            for number, wave in enumerate(waves[: len(part)]):
                yield np.concatenate([self.silence(pause), wave]) if first + number else wave


def _up(count: int, step: int) -> int:
    return -(-count // step) * step


def _padded(numbers: Any, step: int) -> np.ndarray:
    """Int64[1, number], with zeros to a multiple of `step`."""
    row = np.asarray(numbers, np.int64)
    return np.pad(row, (0, _up(len(row), step) - len(row)))[None]
