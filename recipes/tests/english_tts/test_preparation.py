"""Preparation of a data folder: odd tables and names, interruptions, and never other data than meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("praatio")
pytest.importorskip("torch")

import soundfile
from praatio import textgrid
from preparing import lj_clip, lj_folder, text_grid, wav
from tpulab_recipes.common.errors import DataError
from tpulab_recipes.common.progress import Silent
from tpulab_recipes.english_tts.config_english import get_lesson_config
from tpulab_recipes.english_tts.data import PhonemeProcessor, ensure_prepared, prepare, read_features

CONFIG = get_lesson_config()


def _prepare(folder: Path, output: Path, **changes: Any) -> dict[str, Any]:
    return prepare(str(folder), str(output), CONFIG.but(**changes))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_table_with_a_mark_has_the_same_names_as_without(encoding: str, tmp_path: Path) -> None:
    """Case D01: the first name began with the mark."""
    rows = [f"clip{n}|text {n}|text {n}" for n in range(3)]
    plain = _prepare(lj_folder(tmp_path / "plain", rows), tmp_path / "a")
    found = _prepare(lj_folder(tmp_path / "marked", rows, encoding), tmp_path / "b")
    assert found["names"] == plain["names"] == ["clip0", "clip1", "clip2"]
    assert found["left_out"] == []


def test_a_table_in_another_encoding_is_one_sentence_with_its_line(tmp_path: Path) -> None:
    """Case D02."""
    folder = lj_folder(tmp_path, ["clip0|a|a", "clip1|café |naïve "], "cp1252")
    with pytest.raises(DataError, match=r"metadata\.csv, line 2: byte \d+ is not UTF-8.*cp1252"):
        _prepare(folder, tmp_path / "out")


def test_odd_repeated_and_outside_names_are_named(tmp_path: Path) -> None:
    """Case D04: results were written outside the output folder, and names counted twice."""
    sub = lj_folder(tmp_path / "sub", ["spk1/clip1|one|one", "spk2/clip1|two|two"])
    assert _prepare(sub, tmp_path / "out-sub")["names"] == ["spk1/clip1", "spk2/clip1"]
    one, two = (np.load(tmp_path / f"out-sub/features/spk{n}/clip1.npz")["mel"] for n in (1, 2))
    assert not np.array_equal(one, two)

    far = tmp_path / "elsewhere/clip7"
    wav(far.with_suffix(".wav"))
    outside = lj_folder(tmp_path / "outside", ["clip0|fine|fine", "../clip5|up|up"])
    with (outside / "metadata.csv").open("a") as file:
        file.write(f"{far}|far|far\n")
    before = set(tmp_path.rglob("*.npz"))
    found = _prepare(outside, tmp_path / "out-outside")
    assert found["names"] == ["clip0"]
    assert [reason.partition(": '")[0] for reason in found["left_out"]] == [
        "metadata.csv, line 2",
        "metadata.csv, line 3",
    ]
    assert all("leads out of the folder" in reason for reason in found["left_out"])
    made = set(tmp_path.rglob("*.npz")) - before
    assert made == {tmp_path / "out-outside/features/clip0.npz"}
    with pytest.raises(DataError, match=r"line 2: .* leads out of the folder"):
        _prepare(outside, tmp_path / "refuse", on_bad_file="refuse")

    rows = ["clip0|fine|fine", "clip4|first|first", "clip4|second|second", "clip9|words only here|"]
    twice = _prepare(lj_folder(tmp_path / "twice", rows), tmp_path / "out-twice")
    assert twice["names"] == ["clip0", "clip4", "clip9"]
    assert "line 3: 'clip4' occurs a second time" in twice["left_out"][0]
    texts = {one.name: one.text for one in read_features(str(tmp_path / "out-twice"), CONFIG)[0]}
    assert texts == {"clip0": "fine", "clip4": "first", "clip9": "words only here"}

    odd = tmp_path / "odd"
    for name in ("clip0", "clip2", "clip3", "clip6", "clip8"):
        lj_clip(odd, name)
    (odd / "wavs/clip8.wav").rename(odd / "wavs/clip8.WAV")
    rows = [
        "file_name|text|normalized_text",
        "clip0|a|a",
        " clip3 |b|b",
        "clip2.wav|c|c",
        '"clip6"|d|d',
        "clip8|e|e",
    ]
    (odd / "metadata.csv").write_text("\n".join(rows))
    found = _prepare(odd, tmp_path / "out-odd")
    assert (found["names"], found["left_out"]) == (["clip0", "clip3", "clip2", "clip6", "clip8"], [])


def test_tiers_of_a_speaker_are_used_and_others_are_named(tmp_path: Path) -> None:
    """Case D05."""
    folder = lj_folder(tmp_path, [f"{name}|a|a" for name in ("speaker", "other", "quote")])
    text_grid(folder / "TextGrid/speaker.TextGrid", tier="anna - phones")
    text_grid(folder / "TextGrid/other.TextGrid", tier="words")
    text_grid(folder / "TextGrid/quote.TextGrid", ("sil", '"', "L", "sil"))
    found = _prepare(folder, tmp_path / "out")
    assert found["names"] == ["speaker"]
    assert "no single tier 'phones'; its tiers: 'words'" in found["left_out"][0]
    assert "quote" in found["left_out"][1]
    assert "is punctuation" in found["left_out"][1]


def test_unchanged_clips_are_not_computed_again_and_corrections_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case D11."""
    from tpulab_recipes.english_tts import data

    folder, output = lj_folder(tmp_path / "lj", [f"clip{n}|a|a" for n in range(3)]), tmp_path / "out"
    first = _prepare(folder, output)
    read, names = data.read_utterance, []

    def counted(place: Path, name: str, *rest: Any) -> Any:
        names.append(name)
        return read(place, name, *rest)

    monkeypatch.setattr(data, "read_utterance", counted)
    assert _prepare(folder, output) == first
    assert names == []
    wav(folder / "wavs/clip1.wav", hz=700)
    (folder / "metadata.csv").write_text("clip0|a|a\nclip1|a|a\nclip2|another|another\n")
    (output / "features/clip0.npz").write_bytes(b"PK torn")
    found = _prepare(folder, output)
    assert sorted(names) == ["clip0", "clip1", "clip2"]  # by threads
    assert found["mel_mean"] != first["mel_mean"]


def test_training_continues_with_an_interrupted_preparation_and_never_takes_other_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case R2: training silently took the synthetic corpus."""
    from tpulab_recipes.english_tts import data

    folder, output = lj_folder(tmp_path / "lj", [f"clip{n}|a|a" for n in range(4)]), tmp_path / "voice"
    read = data.read_utterance

    def interrupted(place: Path, name: str, *rest: Any) -> Any:
        if name == "clip2":
            raise KeyboardInterrupt
        return read(place, name, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(data, "read_utterance", interrupted)
        with pytest.raises(KeyboardInterrupt):
            _prepare(folder, output)
    config = CONFIG.but(output_dir=str(output))
    command = f"was interrupted.*english_tts prepare --data-dir {folder} --output-dir {output}"
    with pytest.raises(DataError, match=command):
        read_features(str(output), config)
    ensure_prepared(config, Silent(), built_in=False)
    assert f"resuming the preparation of {folder}" in capsys.readouterr().out
    assert json.loads((output / "statistics.json").read_text())["names"] == [f"clip{n}" for n in range(4)]
    assert not (output / "corpus").exists()
    ensure_prepared(config, Silent(), built_in=False)

    with pytest.raises(DataError, match=r"vioce is not prepared: name your data with --data-dir"):
        ensure_prepared(CONFIG.but(output_dir=str(tmp_path / "vioce")), Silent(), built_in=False)
    with pytest.raises(DataError, match="the data folder NOTHERE does not exist"):
        ensure_prepared(config.but(data_dir="NOTHERE"), Silent(), built_in=True)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["lj", "voice"]


def test_silence_at_the_ends_is_cut_and_every_clip_is_as_loud(tmp_path: Path) -> None:
    """A second of silence at both ends of a clip that was recorded at a tenth of the level of the other."""
    folder, sound, rate = lj_folder(tmp_path / "lj", ["loud|a|a"]), [], 16_000
    tone = np.sin(np.arange(rate) * 2 * np.pi * 220 / rate)
    for level in (0.004, 0.04):
        sound.append(np.concatenate([np.zeros(rate), level * tone, np.zeros(rate // 10)]))
    for name, wave in zip(("soft", "hard"), sound, strict=True):
        soundfile.write(folder / f"wavs/{name}.wav", wave, rate)
        end = len(wave) / rate
        entries = [(0, 1, "sil"), (1, 1.5, "HH"), (1.5, 2, "AH0"), (2, end, "sil")]
        grid = textgrid.Textgrid()
        grid.addTier(textgrid.IntervalTier("phones", entries, 0, end))
        grid.save(str(folder / f"TextGrid/{name}.TextGrid"), "short_textgrid", includeBlankSpaces=True)
    (folder / "metadata.csv").write_text("soft|a|a\nhard|a|a\n")
    _prepare(folder, tmp_path / "out")
    soft, hard = read_features(str(tmp_path / "out"), CONFIG)[0]
    # 0.2 s before, all of the 0.1 s after: frames of 20 ms.
    assert soft.durations.tolist() == hard.durations.tolist() == [10, 25, 25, 5]
    np.testing.assert_allclose(soft.mel[15:55].max(1), hard.mel[15:55].max(1), atol=0.05)
    _prepare(folder, tmp_path / "as-recorded", loudness=0.0, edge_silence=9.0)
    soft, hard = read_features(str(tmp_path / "as-recorded"), CONFIG)[0]
    assert soft.durations.tolist() == [50, 25, 25, 5]
    far = hard.mel[60:95].max(1) - soft.mel[60:95].max(1)
    np.testing.assert_allclose(far, np.log(10), atol=0.05)


def test_only_trained_symbols_are_spoken() -> None:
    """Aligned data have stresses and no punctuation; a lexicon has it otherwise."""
    voice = PhonemeProcessor(trained=("<sil>", "DH", "AH0", "R", "EH1", "D", "HH", "L", "OW1"))
    for text, spoken in (
        ("The red. Red!", "<sil> DH AH0 R EH1 D <sil> R EH1 D <sil>"),
        ("{HH AH0 L OW1 , , D}", "<sil> HH AH0 L OW1 <sil> D <sil>"),
        ("{HH AH1 L OW0}", "<sil> HH AH0 L OW1 <sil>"),
    ):
        assert " ".join(voice.phonemes(text)) == spoken
    with pytest.raises(DataError, match="never trained on B"):
        voice.phonemes("The bird.")


def test_the_built_in_voice_that_sounds_like_a_person_is_prepared_whole(tmp_path: Path) -> None:
    found = _prepare_built_in(tmp_path / "voice", corpus_voice="hibari", corpus_count=6)
    assert (len(found["names"]), found["left_out"]) == (6, [])
    assert {"AH0", "<sil>"} < set(found["symbols"])
    assert not set(found["symbols"]) & {".", ",", "<unk>"}
    utterances, _ = read_features(str(tmp_path / "voice"), LONG)
    for one in utterances:
        assert one.durations.sum() == len(one.mel)
        read = [each.rstrip("012") for each in PhonemeProcessor(trained=found["symbols"]).phonemes(one.text)]
        aligned = [each.rstrip("012") for each in PhonemeProcessor().names(one.phonemes)]
        # What is spoken of a text is what was aligned for it.
        assert read == aligned


LONG = CONFIG.but(frame_buckets=(320,))


def _prepare_built_in(output: Path, **changes: Any) -> dict[str, Any]:
    return prepare("", str(output), LONG.but(**changes))
