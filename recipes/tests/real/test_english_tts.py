"""The preset `small`, trained on a voice that sounds like a person: Whisper understands new sentences, and
the voice is still that person's."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tpulab_recipes.audio import files  # noqa: E402
from tpulab_recipes.audio.spoken import SpokenSettings, sentences  # noqa: E402
from tpulab_recipes.english_tts.config_english import get_small_config  # noqa: E402
from tpulab_recipes.english_tts.data import LJSpeechDataset, prepare  # noqa: E402
from tpulab_recipes.english_tts.english_trainer import EnglishTrainer  # noqa: E402
from tpulab_recipes.runtime.selection import make  # noqa: E402

from .judges import Ear  # noqa: E402
from .voices import VoiceJudge  # noqa: E402

pytestmark = pytest.mark.skipif(os.environ.get("TPULAB_REAL") != "1", reason="npm run test:real runs it")

#: Texts that are not of the corpus: Harvard sentences (IEEE 1969).
UNSEEN = (
    "The juice of lemons makes fine punch.",
    "It is easy to tell the depth of a well.",
    "Four hours of steady work faced us.",
    "Rice is often served in round bowls.",
    "The birch canoe slid on the smooth planks.",
    "Glue the sheet to the dark blue background.",
    "These days a chicken leg is a rare dish.",
    "The box was thrown beside the parked truck.",
)
#: Word error rate by Whisper tiny.en of 24 held-out sentences, spoken from text.
MOST_ERRORS = 0.15
#: Cosine of their voice, by Resemblyzer, to that of the recordings.
LEAST_SIMILARITY = 0.78
#: 20 minutes on two cores.
CPU_SECONDS = 2400


def test_the_small_preset_says_sentences_that_it_never_saw(tmp_path: Path) -> None:
    c = get_small_config().but(
        output_dir=str(tmp_path / "voice"),
        corpus_voice="hibari",
        corpus_count=2000,
        sample_rate=16_000,
        hop_length=320,
        frames_per_phoneme=3,
        frame_buckets=(96, 128, 160, 192, 224, 256, 320),
        postnet_dim=128,
        cross_locality=0.5,
        gradient_checkpointing=False,
        cpu_precision="bfloat16",
        batch_size=4,
        num_epochs=6,
        save_every=1,
    )
    prepare("", c.output_dir, c)
    dataset, ear, voice = LJSpeechDataset(c), Ear(), VoiceJudge()
    trainer = EnglishTrainer.of(c, dataset, backend=make("cpu", "cpu"))
    began = time.process_time()
    trainer.train()
    cpu_seconds = time.process_time() - began
    held_out = dataset.held_out[:24]
    texts = [one.text for one in held_out]

    def spoken(texts: list[str]) -> list[np.ndarray]:
        output = trainer.say([trainer.processor.ids(trainer.processor.phonemes(text)) for text in texts])
        assert sum(each.stopped for each in output) > len(output) / 2
        return [trainer.vocoder(each.mel) for each in output]

    recorded = [files.load(Path(c.output_dir) / f"corpus/audio/{one.name}.wav", 16_000) for one in held_out]
    person = np.mean([voice.embedding(wave) for wave in recorded], axis=0)

    def judged(texts: list[str], waves: list[np.ndarray]) -> tuple[float, float]:
        """Word error rate, and similarity to the person."""
        nearness = [voice.embedding(wave) @ person / np.linalg.norm(person) for wave in waves]
        return ear.word_error_rate(texts, waves), float(np.mean(nearness))

    found = judged(texts, spoken(texts))
    rows = {
        "from text": found,
        "other texts": judged(list(UNSEEN), spoken(list(UNSEEN))),
        "true spectrograms": judged(texts, [trainer.vocoder(one.mel) for one in held_out]),
        "recordings": judged(texts, recorded),
    }
    print(f"\n{trainer.steps_done} steps, {cpu_seconds:.0f} s of CPU time")
    for name, (errors, similarity) in rows.items():
        print(f"{name:18} word errors {errors:6.1%}, similarity {similarity:.2f}")
    trainer.close()
    assert not set(texts) & {one.text for one in dataset.train}
    assert len(set(sentences(SpokenSettings(count=c.corpus_count)))) == c.corpus_count
    assert cpu_seconds <= CPU_SECONDS
    assert found[0] <= MOST_ERRORS
    assert found[1] >= LEAST_SIMILARITY
