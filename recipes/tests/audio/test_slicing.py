"""Speech is found in long recordings, cut where nobody speaks, and never lost."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from tpulab_recipes.audio import files
from tpulab_recipes.audio.corpus import CorpusSettings, write_corpus
from tpulab_recipes.audio.slicing import FRAME, RATE, clips_of, histogram, is_speech, speech_probabilities

SECOND = RATE / FRAME


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> tuple[np.ndarray, list[tuple[float, float]]]:
    """Four sentences with pauses of 0.5, 3 and 0.5 s, in soft noise; where each is, in seconds."""
    place = tmp_path_factory.mktemp("corpus")
    write_corpus(place, CorpusSettings(count=4, sample_rate=RATE))
    noise = np.random.default_rng(0).standard_normal(RATE * 30).astype(np.float32) * 1e-3
    place_in, spoken = RATE, []
    for file, pause in zip(sorted(place.glob("*/*.wav")), (0.5, 3, 0.5, 1), strict=True):
        wave = files.load(file, RATE)
        noise[place_in : place_in + len(wave)] += wave
        spoken.append((place_in / RATE, (place_in + len(wave)) / RATE))
        place_in += len(wave) + int(pause * RATE)
    return np.clip(noise[:place_in], -1, 1), spoken


def test_speech_is_found_and_cut_in_its_pauses(
    recording: tuple[np.ndarray, list[tuple[float, float]]],
) -> None:
    wave, spoken = recording
    speech = is_speech(speech_probabilities(wave))
    clips = clips_of(wave, speech, 3.0)
    assert len(clips) == 4
    for (start, end), (first, last) in zip(clips, spoken, strict=True):
        assert first - 0.3 <= start <= first + 0.35
        assert last - 0.35 <= end <= last + 0.3
    # Where they fit, sentences stay together; the long pause separates them in any case.
    pairs = clips_of(wave, speech, 10.0)
    assert len(pairs) == 2
    assert pairs[0][1] < spoken[1][1] + 0.3 < spoken[2][0] - 0.3 < pairs[1][0]


@pytest.mark.parametrize("most", [0.1, 1.0, 2.5, 7.0])
def test_no_clip_is_too_long_and_no_speech_is_lost_or_doubled(most: float) -> None:
    random = np.random.default_rng(0)
    speech = np.repeat(random.random(200) < 0.7, random.integers(1, 60, 200))
    wave = random.standard_normal(len(speech) * FRAME).astype(np.float32)
    clips = clips_of(wave, speech, most)
    assert max(end - start for start, end in clips) <= most + 1e-6
    held = np.zeros(len(speech), int)
    for start, end in clips:
        held[round(start * SECOND) : round(end * SECOND)] += 1
    assert held.max() == 1
    assert held[speech].min() == 1


def test_without_a_pause_the_quietest_place_is_cut() -> None:
    wave = np.ones(100 * FRAME, np.float32)
    wave[60 * FRAME : 61 * FRAME] = 0.1
    assert [round(end * SECOND) for _, end in clips_of(wave, np.ones(100, bool), 80 / SECOND)] == [60, 100]


def test_silence_and_clicks_are_not_speech() -> None:
    assert not is_speech(speech_probabilities(np.zeros(RATE, np.float32))).any()
    assert clips_of(np.zeros(RATE, np.float32), np.zeros(31, bool), 3.0) == []
    assert speech_probabilities(np.zeros(100, np.float32)).shape == (0,)
    assert clips_of(np.zeros(100, np.float32), np.zeros(0, bool), 3.0) == []
    click = np.zeros(40, np.float32)
    click[10:14] = 0.9
    assert not is_speech(click).any()


def test_the_histogram_counts_every_clip() -> None:
    rows = histogram([0.5, 1.0, 8.0, 7.9]).splitlines()
    assert [int(row.split()[3]) for row in rows[1:]] == [1, 1, 0, 0, 0, 0, 0, 2]
    assert rows[-1].endswith("#" * 40)
    assert histogram([2.0]).count("#") == 40


def test_a_folder_of_another_model_is_named(tmp_path: Path) -> None:
    from tpulab_recipes.audio.transcripts import load_whisper
    from tpulab_recipes.common.errors import RecipeError

    (tmp_path / "config.json").write_text("{}")
    for name in (str(tmp_path), str(tmp_path / "nothing")):
        with pytest.raises(RecipeError, match="whisper"):
            load_whisper(name)


def test_an_unreachable_hub_is_queried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers requested every file, each with five retries."""
    import huggingface_hub
    from tpulab_recipes.audio.transcripts import load_whisper
    from tpulab_recipes.common.errors import ConfigError

    requested: list[tuple[str, ...]] = []

    def unreachable(*names: str) -> str:
        requested.append(names)
        raise huggingface_hub.errors.LocalEntryNotFoundError("no\nconnection")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", unreachable)
    with pytest.raises(ConfigError, match=r"'openai/whisper-small' is neither .* \(no connection\)"):
        load_whisper("openai/whisper-small")
    assert requested == [("openai/whisper-small", "config.json")]


def test_whisper_of_transformers_transcribes_in_batches(tmp_path: Path) -> None:
    """With random weights its words mean nothing, but a clip alone gives the same words as in a batch."""
    transformers = pytest.importorskip("transformers")
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from tpulab_recipes.audio.transcripts import load_whisper

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    plain = Tokenizer(models.BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    plain.pre_tokenizer, plain.decoder = (
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
    )
    special = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>"]
    tokenizer = transformers.WhisperTokenizerFast(
        tokenizer_object=plain, bos_token=special[0], eos_token=special[0]
    )
    tokenizer.add_special_tokens({"additional_special_tokens": special[1:]})
    ids = dict(zip(special, tokenizer.convert_tokens_to_ids(special), strict=True))
    ends = {"eos_token_id": ids[special[0]], "pad_token_id": ids[special[0]], "bos_token_id": ids[special[0]]}
    torch.manual_seed(0)
    model = transformers.WhisperForConditionalGeneration(
        transformers.WhisperConfig(
            vocab_size=len(tokenizer),
            d_model=16,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=16,
            decoder_ffn_dim=16,
            decoder_start_token_id=ids[special[1]],
            suppress_tokens=None,
            begin_suppress_tokens=None,
            **ends,
        )
    )
    model.save_pretrained(tmp_path)
    generation = {
        "is_multilingual": True,
        "lang_to_id": {"<|en|>": ids["<|en|>"]},
        "task_to_id": {"transcribe": ids["<|transcribe|>"]},
        "no_timestamps_token_id": ids["<|notimestamps|>"],
        "decoder_start_token_id": ids[special[1]],
        "max_new_tokens": 12,
        **ends,
    }
    (tmp_path / "generation_config.json").write_text(json.dumps(generation))
    transformers.WhisperProcessor(transformers.WhisperFeatureExtractor(), tokenizer).save_pretrained(tmp_path)
    transcribe = load_whisper(str(tmp_path), "en")
    random = np.random.default_rng(0)
    waves = [random.standard_normal(length).astype(np.float32) / 10 for length in [8_000, 30_000] * 5]
    texts = transcribe(waves)
    assert len(texts) == 10
    assert all(texts)
    assert not any("<|" in text for text in texts)
    assert transcribe(waves[8:9]) == texts[8:9]
    assert transcribe([]) == []
