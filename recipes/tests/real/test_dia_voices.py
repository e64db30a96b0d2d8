"""200 clips of five people for Dia: words and voices survive `prepare` and the codec that training is given.

A small model of 210,000 parameters does not hold them: after 160 epochs (12 CPU minutes) its loss was 1.9.
What one learns of 32 clips is in `test_dia.py`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tpulab_recipes.audio import files  # noqa: E402
from tpulab_recipes.audio.mel_codec import fit_mel_codec  # noqa: E402
from tpulab_recipes.audio.recordings import prepare  # noqa: E402
from tpulab_recipes.audio.transcripts import load_whisper  # noqa: E402
from tpulab_recipes.dia.config import Config  # noqa: E402
from tpulab_recipes.dia.data import Layout, encode, read_clips  # noqa: E402
from tpulab_recipes.dia.model import tiny_model, tiny_processor  # noqa: E402
from tpulab_recipes.runtime.selection import make  # noqa: E402

from .judges import HARVARD, Ear, distance, whisper_folder, words  # noqa: E402
from .voices import RATE, VoiceJudge, speakers  # noqa: E402

pytestmark = pytest.mark.skipif(os.environ.get("TPULAB_REAL") != "1", reason="npm run test:real runs it")

#: Each with the folder of its recordings: the tag of its speaker.
VOICES = {"hibari": "S1", "bf_emma": "S1", "am_michael": "S2", "bm_george": "S2", "am_fenrir": "S2"}
#: Clips that are listened to.
TRANSCRIPTS = 20
#: Word error rate by Whisper tiny.en through the codec; it was 9.1 %, and 7.3 % for the clips themselves.
MAX_ERRORS = 0.15
#: Share of clips whose nearest voice of the five is their own; it was 100 %.
MIN_OWN = 0.8


def test_words_and_voices_of_five_people_are_kept_by_preparation_and_codec(tmp_path: Path) -> None:
    ear, judge, backend = Ear(), VoiceJudge(), make("cpu", "cpu")
    pause = np.zeros(2 * 16_000, np.float32)
    for name, say in speakers(tuple(VOICES), tmp_path).items():
        waves = [files.resample(np.float32(say(text)), RATE, 16_000) for text in HARVARD]
        recording = np.concatenate([part for wave in waves for part in (wave, pause)])
        folder = tmp_path / "recordings" / VOICES[name]
        folder.mkdir(parents=True, exist_ok=True)
        files.save(folder / f"{name}.wav", np.clip(recording, -1, 1), 16_000)
    place, whisper = str(tmp_path / "clips"), load_whisper(whisper_folder(), "en")
    options: Any = {"made_by": "tiny.en", "sample_rate": 16_000, "seconds": 4.6}
    _, lengths, lost = prepare(str(tmp_path / "recordings"), place, whisper, **options)
    assert (len(lengths), lost.reasons) == (len(VOICES) * len(HARVARD), [])
    cut = {file.stem: files.load(file, 16_000) for file in sorted((tmp_path / "clips/audio").glob("*.wav"))}
    codec, config = fit_mel_codec(list(cut.values())), Config(audio_length=256)
    layout, tokenizer = Layout.of(tiny_model().config), tiny_processor().tokenizer
    frames = config.audio_length - layout.overhead
    done, skipped = encode(place, place, codec, backend, frames=frames, text_length=128)
    assert (done, skipped.reasons) == (len(lengths), [])
    clips, _ = read_clips(place, config, layout, lambda text: tokenizer(text)["input_ids"])

    def sound(codes: Any) -> np.ndarray:
        wave: np.ndarray = codec.decode(torch.as_tensor(codes).long().T[None])[0].numpy()
        return wave

    chosen = clips[:: len(clips) // TRANSCRIPTS]
    truth = [_sentence_of(bytes(clip.text.tolist()).decode()) for clip in chosen]
    coded = [sound(clip.codes) for clip in chosen]
    others = [clip for clip in clips if all(clip is not each for each in chosen)]
    voices = {
        name: np.mean(
            [judge.embedding(sound(clip.codes)) for clip in others if name in clip.name][:8], axis=0
        )
        for name in VOICES
    }
    nearest = [max(VOICES, key=lambda name: float(judge.embedding(wave) @ voices[name])) for wave in coded]
    own = float(np.mean([name in clip.name for name, clip in zip(nearest, chosen, strict=True)]))
    rates = {
        "clips that were cut": ear.word_error_rate(truth, [cut[clip.name] for clip in chosen]),
        "through the codec": ear.word_error_rate(truth, coded),
    }
    print("\nword error rate by Whisper tiny.en")
    for name, rate in rates.items():
        print(f"  {name:28} {rate:6.1%}")
    print(f"  own voice is the nearest of five, by Resemblyzer: {own:.0%}")
    assert rates["through the codec"] <= MAX_ERRORS
    assert own >= MIN_OWN


def _sentence_of(transcript: str) -> str:
    """The sentence that a clip is of: Whisper, which transcribed it, makes mistakes."""
    return min(HARVARD, key=lambda each: distance(words(each), words(transcript)))
