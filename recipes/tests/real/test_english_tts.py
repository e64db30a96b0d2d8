"""The preset `hibari`, trained on a voice that sounds like a person: Whisper understands new sentences, and
the voice is still that person's. The second test trains a HiFi-GAN for that voice."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tpulab_recipes.audio import files  # noqa: E402
from tpulab_recipes.audio.spoken import SpokenSettings, sentences  # noqa: E402
from tpulab_recipes.english_tts.checkpoint_manager import save_final_model  # noqa: E402
from tpulab_recipes.english_tts.config_english import get_hibari_config  # noqa: E402
from tpulab_recipes.english_tts.data import LJSpeechDataset, prepare  # noqa: E402
from tpulab_recipes.english_tts.english_trainer import EnglishTrainer  # noqa: E402
from tpulab_recipes.english_tts.vocoder import save_vocoder, train_vocoder, trained_vocoder  # noqa: E402
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
MAX_ERRORS = 0.15
#: Cosine of their voice, by Resemblyzer, to that of the recordings.
MIN_SIMILARITY = 0.78
#: 20 minutes on two cores.
CPU_SECONDS = 2400
#: The same through a HiFi-GAN of ten CPU minutes, from true spectrograms: a short training for a vocoder.
VOCODER_MAX_ERRORS, VOCODER_MIN_SIMILARITY = 0.12, 0.74
#: Kept for the second test, and for section 9 of notebook 08.
VOICE = Path(__file__).parents[3] / ".tpulab" / "voices" / "person"
CONFIG = get_hibari_config().but(output_dir=str(VOICE), vocoder_size="small")


def judged(trainer: EnglishTrainer) -> dict[str, tuple[float, float]]:
    """Word error rate and similarity to the recordings, of what the trainer's vocoder makes audible."""
    ear, voice = Ear(), VoiceJudge()
    held_out = LJSpeechDataset(CONFIG, is_prepared=True).held_out[:24]
    texts = [one.text for one in held_out]
    recorded = [files.load(VOICE / f"corpus/audio/{one.name}.wav", 16_000) for one in held_out]
    person = np.mean([voice.embedding(wave) for wave in recorded], axis=0)
    person /= np.linalg.norm(person)

    def spoken(texts: Sequence[str]) -> list[np.ndarray]:
        output = trainer.say([trainer.processor.ids(trainer.processor.phonemes(text)) for text in texts])
        assert sum(each.stopped for each in output) > len(output) / 2
        return [trainer.vocoder(each.mel) for each in output]

    rows = {
        "from text": (texts, spoken(texts)),
        "other texts": (UNSEEN, spoken(UNSEEN)),
        "true spectrograms": (texts, [trainer.vocoder(one.mel) for one in held_out]),
        "recordings": (texts, recorded),
    }
    found = {}
    for name, (said, waves) in rows.items():
        similarity = float(np.mean([voice.embedding(wave) @ person for wave in waves]))
        found[name] = ear.word_error_rate(said, waves), similarity
        print(f"{name:18} word errors {found[name][0]:6.1%}, similarity {similarity:.2f}", flush=True)
    return found


def test_the_preset_hibari_speaks_sentences_that_it_never_saw() -> None:
    shutil.rmtree(VOICE, ignore_errors=True)
    prepare("", CONFIG.output_dir, CONFIG)
    dataset = LJSpeechDataset(CONFIG)
    trainer = EnglishTrainer.of(CONFIG, dataset, backend=make("cpu", "cpu"))
    began, cpu_began = time.perf_counter(), time.process_time()
    trainer.train()
    cpu_seconds = time.process_time() - cpu_began
    took = f"{cpu_seconds:.0f} s of CPU time in {time.perf_counter() - began:.0f} s"
    print(f"\n{trainer.steps_done} steps, {took}", flush=True)
    trainer.close()
    save_final_model(VOICE / "model", trainer.model, CONFIG, trainer.processor)
    found = judged(trainer)
    assert not {one.text for one in dataset.held_out} & {one.text for one in dataset.train}
    assert len(set(sentences(SpokenSettings(count=CONFIG.corpus_count)))) == CONFIG.corpus_count
    assert cpu_seconds <= CPU_SECONDS
    assert found["from text"][0] <= MAX_ERRORS
    assert found["from text"][1] >= MIN_SIMILARITY


def test_a_hifi_gan_of_the_same_recordings_is_understood() -> None:
    assert (VOICE / "model").is_dir(), "the test before this one trains the voice"
    trainer = EnglishTrainer.of(CONFIG, LJSpeechDataset(CONFIG), backend=make("cpu", "cpu"))
    assert trainer.setup_checkpoint_resumption()
    began = time.process_time()
    save_vocoder(VOICE / "model", train_vocoder(trainer))
    print(f"\nHiFi-GAN: {CONFIG.vocoder_steps} steps, {time.process_time() - began:.0f} s of CPU time")
    trainer.vocoder = trained_vocoder(VOICE / "model", CONFIG) or trainer.vocoder
    found = judged(trainer)
    trainer.close()
    assert found["true spectrograms"][0] <= VOCODER_MAX_ERRORS
    assert found["true spectrograms"][1] >= VOCODER_MIN_SIMILARITY
