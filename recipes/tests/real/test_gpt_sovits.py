"""Conversion between two voices that sound like people, judged by models that were not trained here.

A linear voice keeps the words. The second stage with the settings `SPEECH` reconstructs held-out clips, and
its conversions are nearer to the target than the source was, but Whisper tiny.en understands few of their
words after so short a training. The figures are printed beside those of the recordings.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tpulab_recipes.audio import files  # noqa: E402
from tpulab_recipes.audio.mel import MelSpectrogram  # noqa: E402
from tpulab_recipes.audio.spoken import SpokenSettings, sentences  # noqa: E402
from tpulab_recipes.audio.vocoders import wave_of  # noqa: E402
from tpulab_recipes.gpt_sovits import data, linear  # noqa: E402
from tpulab_recipes.gpt_sovits.checkpoints import make_models  # noqa: E402
from tpulab_recipes.gpt_sovits.config import SPEECH  # noqa: E402
from tpulab_recipes.gpt_sovits.text import phonemes_of  # noqa: E402
from tpulab_recipes.gpt_sovits.trainer import Trainer  # noqa: E402
from tpulab_recipes.gpt_sovits.voices import Voice  # noqa: E402
from tpulab_recipes.runtime.selection import make  # noqa: E402

from .judges import Ear  # noqa: E402
from .voices import RATE, VoiceJudge, speakers  # noqa: E402

pytestmark = pytest.mark.skipif(os.environ.get("TPULAB_REAL") != "1", reason="npm run test:real runs it")

#: hibari is a distilled af_heart of Kokoro.
NAMES = ("hibari", "am_michael")
#: Clips of each voice; the first are held out, and both voices say them.
CLIPS, HELD_OUT = 80, 12
STEPS, CPU_SECONDS = 950, 1200
#: Word error rate by Whisper tiny.en of held-out clips through posterior encoder and decoder; it was 20.0 %.
MAX_ERRORS = 0.3
#: Of 24 conversions, how many are nearer to the target than to the source, and than the source was.
MIN_NEARER = 22
#: Seconds of the target that a linear voice is fitted to, and the word error rate of its conversions.
LINEAR_SECONDS, MAX_LINEAR_ERRORS = 60.0, 0.5
Key = tuple[str, int]


class Recordings:
    """Both voices' clips, spoken when they are first needed, and their judges."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ear, self._judge = folder, Ear(), VoiceJudge()
        self._texts, self._say = list(sentences(SpokenSettings(count=2 * CLIPS))), speakers(NAMES, folder)
        self.held_out = [(name, number) for name in NAMES for number in range(HELD_OUT)]
        self.wave = cache(self._wave)
        self._person = cache(self._mean_embedding)

    def text(self, name: str, number: int) -> str:
        return self._texts[number if number < HELD_OUT else 2 * number + NAMES.index(name)]

    def file(self, name: str, number: int) -> Path:
        return self.folder / f"{name}_{number:03d}.wav"

    def _wave(self, name: str, number: int) -> np.ndarray:
        spoken = files.resample(self._say[name](self.text(name, number)), RATE, SPEECH.sampling_rate)
        files.save(self.file(name, number), spoken.clip(-1, 1), SPEECH.sampling_rate)
        return files.load(self.file(name, number), SPEECH.sampling_rate)

    def clips(self, keys: Sequence[Key], exp_dir: Path) -> list[data.Clip]:
        """These clips, prepared with Whisper's features."""
        for key in keys:
            self.wave(*key)
        listed = exp_dir.with_suffix(".list")
        listed.write_text("".join(f"{self.file(*key)}|voice|en|{self.text(*key)}\n" for key in keys))
        assert data.prepare(listed, exp_dir, SPEECH, self.ear.states) == (len(keys), {})
        return data.read_clips(exp_dir, SPEECH)[0]

    def errors(self, waves: Sequence[np.ndarray]) -> float:
        """Word error rate of the held-out clips, spoken so."""
        return self.ear.word_error_rate([self.text(*key) for key in self.held_out], waves)

    def _mean_embedding(self, name: str) -> np.ndarray:
        person: np.ndarray = np.mean(
            [self._judge.embedding(self.wave(name, HELD_OUT + number)) for number in range(3)], axis=0
        )
        return person / np.linalg.norm(person)

    def judged(self, title: str, converted: Sequence[np.ndarray]) -> tuple[float, int]:
        """Of the converted held-out clips, the word error rate, and how many are nearer to their target than
        to their source, and than the source was; printed too."""
        similar = []
        for (name, number), wave in zip(self.held_out, converted, strict=True):
            heard, before = self._judge.embedding(wave), self._judge.embedding(self.wave(name, number))
            source, target = self._person(name), self._person(other(name))
            similar.append((heard @ target, heard @ source, before @ target))
        to_target, to_source, before = np.mean(similar, axis=0)
        nearer = sum(target > max(source, start) for target, source, start in similar)
        errors = self.errors(converted)
        print(f"{title}: word errors {errors:.1%}, nearer to the target {nearer} of", end=" ")
        print(f"{len(converted)}; like it {to_target:.2f}, the source {to_source:.2f}, before {before:.2f}")
        return errors, nearer


def other(name: str) -> str:
    return NAMES[1 - NAMES.index(name)]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Recordings:
    return Recordings(tmp_path_factory.mktemp("recordings"))


def test_a_linear_voice_of_a_minute_keeps_the_words_and_is_like_its_target(
    recordings: Recordings, tmp_path: Path
) -> None:
    began, voices = time.process_time(), {}
    for name in NAMES:
        keys, seconds = [], 0.0
        while seconds < LINEAR_SECONDS:
            keys.append((name, HELD_OUT + len(keys)))
            seconds += len(recordings.wave(*keys[-1])) / SPEECH.sampling_rate
        fitted = linear.fit(recordings.clips(keys, tmp_path / name), SPEECH)
        print(f"\n{name}, {fitted.seconds:.0f} s: penalty {fitted.penalty:.2g},", end=" ")
        print(f"{fitted.explained:.0%} of held-out clips' log-mels explained")
        voices[name] = linear.LinearVoice(fitted.weight, SPEECH, recordings.ear.states)
    held_out = [recordings.wave(*key) for key in recordings.held_out]
    mel = MelSpectrogram(SPEECH.mel)
    floor = [wave_of(mel(torch.from_numpy(wave)[None]), mel)[0].numpy() for wave in held_out]
    converted = [
        voices[other(name)].convert(wave)
        for (name, _), wave in zip(recordings.held_out, held_out, strict=True)
    ]
    print(f"linear, {time.process_time() - began:.0f} s of CPU time; word errors of the recordings", end=" ")
    print(f"{recordings.errors(held_out):.1%}, through their spectrograms {recordings.errors(floor):.1%}")
    errors, nearer = recordings.judged("linear", converted)
    assert errors <= MAX_LINEAR_ERRORS
    assert nearer >= MIN_NEARER


def test_a_conversion_is_nearer_to_its_target_than_the_source_was(
    recordings: Recordings, tmp_path: Path
) -> None:
    c = SPEECH.but(epochs=1000)
    clips = recordings.clips([(name, each) for name in NAMES for each in range(CLIPS)], tmp_path / "exp")
    test = [clip for clip in clips if int(clip.name[-7:-4]) < HELD_OUT]
    train = [clip for clip in clips if int(clip.name[-7:-4]) >= HELD_OUT]
    generator, discriminator = make_models(c)
    data.fit_tokens(generator, train, c.seed)
    backend: Any = make("cpu", "cpu")
    backend.seed(c.seed)
    trainer = Trainer(c, generator, discriminator, backend, data.steps_per_epoch(train, c))
    began = time.process_time()
    for _, batch in zip(range(STEPS), data.train_batches(train, c), strict=False):
        trainer.train_step(backend.shard_batch(batch))
    cpu_seconds = time.process_time() - began
    generator.eval()

    @torch.no_grad()
    def reconstructed(clip: data.Clip) -> np.ndarray:
        spec, lengths = torch.from_numpy(clip.spec)[None], torch.tensor([clip.frames])
        voice = generator.voice_of(spec, lengths)
        mean = generator.enc_q(spec, lengths, g=voice)[1]
        wave: np.ndarray = generator.dec(mean, voice)[0, 0].numpy()
        return wave

    voice = Voice(generator, backend, c, recordings.ear.states)
    converted = []
    for name, number in recordings.held_out:
        references = [recordings.wave(other(name), HELD_OUT + each) for each in range(3)]
        phonemes = phonemes_of(recordings.text(name, number), "en", c.version)
        converted.append(voice.convert(recordings.wave(name, number), references, phonemes=phonemes))
    by_name = {clip.name: clip for clip in test}
    errors = recordings.errors(
        [reconstructed(by_name[recordings.file(*key).name]) for key in recordings.held_out]
    )
    print(f"\n{STEPS} steps, {cpu_seconds:.0f} s of CPU time; reconstructed: word errors {errors:.1%}")
    _, nearer = recordings.judged("second stage", converted)
    assert cpu_seconds <= CPU_SECONDS
    assert errors <= MAX_ERRORS
    assert nearer >= MIN_NEARER
