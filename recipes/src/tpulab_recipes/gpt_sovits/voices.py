"""What a trained voice does: sound to semantic tokens, tokens to sound, one voice into another, and text to
speech with a first stage. Everything is padded to few lengths, so few programs speak all sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from tpulab_recipes.audio.mel import MelSettings, MelSpectrogram
from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.gpt_sovits.config import Config
from tpulab_recipes.gpt_sovits.data import Features, fitted_features, level, spectrogram
from tpulab_recipes.gpt_sovits.s1 import Sampling, generate
from tpulab_recipes.gpt_sovits.text import numbers_of

#: Tokens, phonemes and frames of a reference are padded to multiples of these: 1 s, 32 phonemes, 5 s.
TOKEN_STEP, TEXT_STEP, FRAME_STEP = 25, 32, 250
#: A frame of silence more than the style encoder's convolutions see.
_MARGIN = 5


def tokens_of(generator: Any, wave: np.ndarray, config: Config, features: Features) -> torch.Tensor:
    """Semantic tokens of a wave, Int64[token], 25 a second; on the host."""
    wave = level(wave)
    ssl = fitted_features(features(wave), len(wave) // config.hop_length // 2 * 2)
    if ssl.shape[1] < 2:
        raise ConfigError("source", "it is too short for a semantic token.")
    on_host = torch.from_numpy(ssl)[None].to(generator.ssl_proj.weight.device)
    codes: torch.Tensor = generator.extract_latent(on_host)[0, 0].cpu()
    return codes


def speak_tokens(
    generator: Any,
    backend: Any,
    config: Config,
    codes: Any,
    phonemes: Sequence[str],
    references: Sequence[np.ndarray],
    *,
    noise_scale: float = 0.5,
    speed: float = 1.0,
    seed: int = 0,
) -> np.ndarray:
    """Float32[sample] of semantic tokens (Int[token]) with their phonemes, in the mean voice of the
    references (waves). `generator` is on the backend's device. Raises `ConfigError` for an empty sentence."""
    if len(codes) == 0 or not references:
        raise ConfigError("text", "there are no tokens to speak, or no reference to speak like.")
    if not 0.6 <= speed <= 1.65:
        raise ConfigError("speed", f"{speed} is not between 0.6 and 1.65.")
    frames_of = 2 if generator.halved else 1
    tokens = _padded(np.asarray(codes, np.int64)[None], TOKEN_STEP)
    text = _padded(np.asarray(numbers_of(phonemes, config.version), np.int64)[None], TEXT_STEP)
    specs = [spectrogram(level(wave), config) for wave in references]
    longest = max(spec.shape[1] for spec in specs)
    refer = [
        _padded(np.pad(spec, ((0, 0), (0, longest - spec.shape[1])))[None], FRAME_STEP, _MARGIN)
        for spec in specs
    ]
    length = tokens.shape[1] * frames_of
    length = length if speed == 1 else int(length / speed) + 1
    noise = np.random.default_rng(seed).standard_normal((1, config.inter_channels, length), np.float32)
    given = backend.to_device(
        {
            "codes": tokens[None],
            "text": text,
            "refer": np.concatenate(refer),
            "noise": noise,
            "lengths": np.array([len(codes)]),
            "text_lengths": np.array([len(phonemes)]),
            "refer_lengths": np.array([spec.shape[1] for spec in specs]),
        }
    )

    def program(held: Any) -> Any:
        with torch.no_grad():
            ge = generator.voice_of(held["refer"], held["refer_lengths"]).mean(0, keepdim=True)
            return generator.decode(
                held["codes"],
                held["text"],
                ge,
                noise_scale,
                speed,
                held["noise"],
                lengths=held["lengths"],
                text_lengths=held["text_lengths"],
            )

    training = generator.training
    generator.eval()
    try:
        wave = backend.to_host(backend.compile(program)(given))[0, 0].float().numpy()
    finally:
        generator.train(training)
    frames = len(codes) * frames_of if speed == 1 else int(len(codes) * frames_of / speed) + 1
    return np.asarray(wave[: frames * config.hop_length], np.float32)


def _padded(x: np.ndarray, step: int, margin: int = 0) -> np.ndarray:
    """The last axis padded with zeros to a multiple of `step`, by `margin` at least."""
    lacking = -(-(x.shape[-1] + margin) // step) * step - x.shape[-1]
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, lacking)])


def convert(
    generator: Any,
    backend: Any,
    config: Config,
    wave: np.ndarray,
    references: Sequence[np.ndarray],
    features: Features,
    *,
    phonemes: Sequence[str] = ("_",),
    seed: int = 0,
) -> np.ndarray:
    """The wave's words in the references' voice: its semantic tokens, decoded with another style. With the
    phonemes of what is said it is clearer. Needs no first stage, and no `enc_q`."""
    codes = tokens_of(generator, wave, config, features)
    return speak_tokens(generator, backend, config, codes, phonemes, references, seed=seed)


def speak(
    generator: Any,
    first_stage: Any,
    backend: Any,
    config: Config,
    phonemes: Sequence[str],
    reference: np.ndarray,
    reference_phonemes: Sequence[str],
    features: Features,
    sampling: Sampling,
    *,
    speed: float = 1.0,
) -> np.ndarray:
    """Float32[sample] of a text in the voice of a reference whose text is known: the first stage goes on from
    the reference's tokens, the second speaks what it wrote. Raises `ConfigError` where nothing was said."""
    entries = first_stage.ar_text_embedding.word_embeddings.num_embeddings
    text = numbers_of([*reference_phonemes, *phonemes], config.version)
    if max(text) >= entries:
        raise ConfigError("pretrained_s1", f"knows {entries} phonemes; the text is of {config.version}.")
    prompt = tokens_of(generator, reference, config, features)
    if int(prompt.max()) >= first_stage.eos:
        raise ConfigError("pretrained_s1", "writes fewer semantic tokens than the second stage reads.")
    (codes,) = generate(first_stage, backend, [text], sampling, prompt=prompt[None])
    if len(codes) == 0:
        raise ConfigError("text", "The first stage said nothing; try another seed or a longer text.")
    return speak_tokens(
        generator, backend, config, codes, phonemes, [reference], speed=speed, seed=sampling.seed
    )


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
