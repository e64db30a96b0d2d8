"""Long recordings become clips and prompts; nothing is made twice, and corrections stay."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers.models.dia")

from preparing import wav
from tpulab_recipes import runtime
from tpulab_recipes.audio import files, transcripts
from tpulab_recipes.audio.corpus import CorpusSettings, write_corpus
from tpulab_recipes.audio.recordings import prepare
from tpulab_recipes.dia.__main__ import main
from tpulab_recipes.runtime.selection import make

RATE = 44_100


class Ear:
    """Transcribes each wave as its length, and counts the waves."""

    def __init__(self) -> None:
        self.received = 0

    def __call__(self, waves: Sequence[np.ndarray]) -> list[str]:
        self.received += len(waves)
        return [f"It lasts {len(wave) / 16_000:.1f} seconds." for wave in waves]


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> list[np.ndarray]:
    place = tmp_path_factory.mktemp("corpus")
    write_corpus(place, CorpusSettings(count=3, sample_rate=RATE))
    return [files.load(file, RATE) for file in sorted(place.glob("*/*.wav"))]


def _record(path: Path, sentences: Sequence[np.ndarray], pause: float = 2.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    silence = np.zeros(int(pause * RATE), np.float32)
    files.save(path, np.concatenate([part for each in sentences for part in (each, silence)]), RATE)


@pytest.fixture
def place(tmp_path: Path, sentences: list[np.ndarray]) -> Path:
    """An interview of three sentences, an answer of a second speaker, and files that cannot be used."""
    place = tmp_path / "recordings"
    _record(place / "talk.wav", sentences)
    _record(place / "S2" / "answer.wav", sentences[:1])
    _record(place / "S2" / "written.wav", sentences[:1], pause=0.1)
    (place / "S2" / "written.TXT").write_text("[Sighs] Somebody has written this down.")
    (place / "talk.txt").write_text("Of a recording that is cut.")
    wav(place / "tone.wav", 2.0, 440, RATE)
    (place / "torn.flac").write_bytes(b"<!DOCTYPE html>")
    (place / "talk.mp3").write_bytes((place / "talk.wav").read_bytes())
    (place / "notes.txt").write_text("not a recording")
    return place


def _prepare(
    place: Path, output: Path, hear: Callable[..., list[str]], **more: Any
) -> tuple[int, int, list[str]]:
    options = {"made_by": "ear", "sample_rate": RATE, "seconds": 4.0} | more
    done, lengths, skipped = prepare(str(place), str(output), hear, **options)
    return done, len(lengths), skipped.reasons


def _texts(output: Path) -> dict[str, str]:
    return {
        file.name.removesuffix("_prompt.txt"): file.read_text() for file in output.glob("audio_prompts/*")
    }


def test_recordings_become_clips_with_speakers_and_unusable_files_are_named(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {file: file.read_bytes() for file in place.rglob("*.*")}
    output, ear = tmp_path / "clips", Ear()
    done, clips, left_out = _prepare(place, output, ear)
    assert (done, clips, ear.received) == (3, 5, 4)
    texts = _texts(output)
    assert sorted(texts) == ["S2_answer_0001", "S2_written", "talk_0001", "talk_0002", "talk_0003"]
    assert texts["S2_written"] == "[S2] [Sighs] Somebody has written this down."
    assert "note: talk.mp3: its text is not used" in capsys.readouterr().err
    assert texts["S2_answer_0001"].startswith("[S2] It lasts")
    assert texts["talk_0002"].startswith("[S1] It lasts")
    for name in texts:
        assert 0.5 < len(files.load(output / f"audio/{name}.wav", RATE)) / RATE <= 4.0
    reasons = "\n".join(left_out)
    assert "talk.wav has the same name as talk.mp3" in reasons
    assert "tone.wav: nobody speaks in it" in reasons
    assert "torn.flac is an HTML page" in reasons
    assert len(left_out) == 3
    assert {file: file.read_bytes() for file in place.rglob("*.*")} == before


def test_continues_with_new_recordings_and_keeps_corrections(
    place: Path, tmp_path: Path, sentences: list[np.ndarray], capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the kind of case D11."""
    output, ear = tmp_path / "clips", Ear()

    def killed(waves: Sequence[np.ndarray]) -> list[str]:
        if ear.received:
            raise KeyboardInterrupt
        return ear(waves)

    with pytest.raises(KeyboardInterrupt):
        _prepare(place, output, killed)
    assert sorted(_texts(output)) == ["S2_answer_0001", "S2_written"]
    first = ear.received
    _prepare(place, output, ear)
    assert ear.received == 4
    assert first < 4
    corrected = output / "audio_prompts/talk_0001_prompt.txt"
    corrected.write_text("[S1] What is really said.")
    (output / "audio/talk_0003.wav").unlink()
    (output / "audio_prompts/talk_0003_prompt.txt").unlink()
    assert _prepare(place, output, ear)[:2] == (0, 4)
    # Another model transcribes all clips again, except corrected ones.
    assert _prepare(place, output, ear, made_by="another")[:2] == (2, 4)
    assert "talk.mp3: its texts were corrected, and stay" in capsys.readouterr().out
    assert corrected.read_text() == "[S1] What is really said."
    received = ear.received
    _record(place / "later.wav", sentences[1:2])
    assert _prepare(place, output, ear, made_by="another")[:2] == (1, 5)
    assert ear.received == received + 1
    # Another sound under the same name: its clips are new, and none of the old ones is left.
    (place / "talk.mp3").unlink()
    _record(place / "talk.wav", sentences[:2])
    assert _prepare(place, output, ear, made_by="another")[:2] == (1, 5)
    assert sorted(name for name in _texts(output) if name.startswith("talk")) == ["talk_0001", "talk_0002"]


def test_rows_of_a_dataset_are_recordings(tmp_path: Path, sentences: list[np.ndarray]) -> None:
    datasets = pytest.importorskip("datasets")
    _record(tmp_path / "a.wav", sentences)
    _record(tmp_path / "b.wav", sentences[:1], pause=0.1)
    rows = {"audio": [{"bytes": (tmp_path / name).read_bytes(), "path": None} for name in ("a.wav", "b.wav")]}
    datasets.Dataset.from_dict(rows).save_to_disk(tmp_path / "plain")
    datasets.Dataset.from_dict(rows | {"text": ["", "One."]}).save_to_disk(tmp_path / "texts")
    ear = Ear()
    assert _prepare(tmp_path / "plain", tmp_path / "one", ear)[:2] == (2, 4)
    assert _prepare(tmp_path / "texts", tmp_path / "two", ear)[:2] == (2, 4)
    assert _texts(tmp_path / "two")["clip_000001"] == "[S1] One."


def test_the_command_prepares_encodes_and_counts(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tpulab_recipes.audio.codec import tiny_codec

    codec = tmp_path / "codec"
    tiny_codec().model.save_pretrained(codec)
    output = tmp_path / "clips"
    command = ["prepare", "--recordings", str(place), "--output", str(output), "--codec", str(codec)]
    monkeypatch.setattr(runtime, "use", lambda *_args, **_options: make("cpu", "cpu"))
    monkeypatch.setattr(transcripts, "load_whisper", lambda *_: Ear())
    assert main(command) == 0
    printed = capsys.readouterr()
    assert "clips of at most 4.3 s" in printed.out
    assert "seconds       clips" in printed.out
    result = json.loads(printed.out.splitlines()[-1])
    assert (result["recordings"], result["clips"], result["encoded"], result["left_out"]) == (3, 5, 5, 3)
    assert len((output / "left_out.txt").read_text().splitlines()) == 3
    assert "      1  nobody speaks in it" in printed.out
    assert main(command) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (result["recordings"], result["clips"], result["encoded"]) == (0, 5, 0)
    assert (
        main(
            [
                "finetune",
                "--audio-folder",
                str(output),
                "--output-dir",
                str(tmp_path / "run"),
                "--epochs",
                "1",
                "--preset",
                "small",
            ]
        )
        == 0
    )


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--output", "PLACE"), "are not apart; give another folder"),
        (("--output", "PLACE/clips"), "are not apart; give another folder"),
        (("--seconds", "nan"), "is not from 0 to"),
        (("--seconds", "60"), "a longer clip needs --audio-length"),
        (("--whisper", "./nothing"), "whisper: './nothing' is neither a folder here"),
        (("--recordings", "./nothing"), "does not exist"),
    ],
)
def test_an_invalid_request_is_one_sentence(
    place: Path,
    tmp_path: Path,
    more: tuple[str, str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: Any,
) -> None:
    if more[0] == "--recordings":
        # Without an attribute to call, loading a model first would be another error.
        monkeypatch.setattr(transcripts, "load_whisper", None)
    elif more[0] != "--whisper":
        monkeypatch.setattr(transcripts, "load_whisper", lambda *_: Ear())
    base = ["prepare", "--recordings", str(place), "--output", str(tmp_path / "clips")]
    assert main([*base, more[0], more[1].replace("PLACE", str(place))]) == 1
    assert message in capsys.readouterr().err
