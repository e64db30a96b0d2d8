"""The settings `SPEECH`, trained on two voices that sound like people: held-out clips come back through the
posterior encoder and the decoder, and a conversion is nearer to its target than the source was.

Its words are another matter: Whisper tiny.en understands few of them after so short a training, and the
figures are printed beside those of the recordings.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tpulab_recipes.audio import files  # noqa: E402
from tpulab_recipes.audio.spoken import SpokenSettings, sentences  # noqa: E402
from tpulab_recipes.gpt_sovits import data  # noqa: E402
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
STEPS, CPU_SECONDS = 1400, 1200
#: Word error rate by Whisper tiny.en of held-out clips through posterior encoder and decoder.
MOST_ERRORS = 0.6
#: Of 24 conversions, how many are nearer to the target than to the source, and than the source was.
LEAST_NEARER = 22


def test_a_conversion_is_nearer_to_its_target_than_the_source_was(tmp_path: Path) -> None:
    c = SPEECH.but(epochs=1000)
    texts, ear, judge = list(sentences(SpokenSettings(count=2 * CLIPS))), Ear(), VoiceJudge()
    waves: dict[str, np.ndarray] = {}
    text_of: dict[str, str] = {}
    for place, (name, say) in enumerate(speakers(NAMES, tmp_path).items()):
        for number in range(CLIPS):
            clip = f"{name}_{number:03d}.wav"
            text_of[clip] = texts[number if number < HELD_OUT else 2 * number + place]
            wave = files.resample(say(text_of[clip]), RATE, c.sampling_rate).clip(-1, 1)
            files.save(tmp_path / clip, wave, c.sampling_rate)
            waves[clip] = files.load(tmp_path / clip, c.sampling_rate)
    listed = tmp_path / "clips.list"
    listed.write_text("".join(f"{clip}|voice|en|{text}\n" for clip, text in text_of.items()))
    assert data.prepare(listed, tmp_path / "exp", c, ear.states) == (len(text_of), {})
    clips, _ = data.read_clips(tmp_path / "exp", c)
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

    voice = Voice(generator, backend, c, ear.states)
    references = {
        name: [waves[clip.name] for clip in train if clip.name.startswith(name)][:3] for name in NAMES
    }
    people = {name: np.mean([judge.embedding(wave) for wave in references[name]], axis=0) for name in NAMES}

    def near(wave: np.ndarray, name: str) -> float:
        return float(judge.embedding(wave) @ people[name] / np.linalg.norm(people[name]))

    written, converted, similar = [text_of[clip.name] for clip in test], [], []
    for clip in test:
        source = next(name for name in NAMES if clip.name.startswith(name))
        target = NAMES[1 - NAMES.index(source)]
        wave = voice.convert(
            waves[clip.name], references[target], phonemes=phonemes_of(text_of[clip.name], "en", c.version)
        )
        converted.append(wave)
        similar.append((near(wave, target), near(wave, source), near(waves[clip.name], target)))
    to_target, to_source, before = np.mean(similar, axis=0)
    nearer = sum(target > max(source, start) for target, source, start in similar)
    errors = ear.word_error_rate(written, [reconstructed(clip) for clip in test])
    print(f"\n{STEPS} steps, {cpu_seconds:.0f} s of CPU time; word errors:")
    print(f"recordings {ear.word_error_rate(written, [waves[clip.name] for clip in test]):.1%}")
    print(f"reconstructed {errors:.1%}, converted {ear.word_error_rate(written, converted):.1%}")
    print(f"like the target {to_target:.2f}, like the source {to_source:.2f}, before {before:.2f}")
    print(f"nearer to the target: {nearer} of {len(test)}")
    assert cpu_seconds <= CPU_SECONDS
    assert errors <= MOST_ERRORS
    assert nearer >= LEAST_NEARER
