"""Sound to codes to batches: read, left out with a reason, or refused."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers.models.dia")

from tpulab_recipes.audio.codec import tiny_codec  # noqa: E402
from tpulab_recipes.audio.files import save  # noqa: E402
from tpulab_recipes.common.errors import DataError  # noqa: E402
from tpulab_recipes.common.storage import Folder  # noqa: E402
from tpulab_recipes.dia.config import Config  # noqa: E402
from tpulab_recipes.dia.data import (  # noqa: E402
    Clip,
    Layout,
    encode,
    eval_batches,
    is_unconditional,
    read_clips,
    rows,
    train_batches,
)
from tpulab_recipes.dia.model import tiny_processor  # noqa: E402
from tpulab_recipes.runtime.selection import make  # noqa: E402

#: Windows as long as these clips need.
SHORT = Config(audio_length=128, batch_size=4, epochs=20, learning_rate=3e-3, weight_decay=0.1)
LAYOUT = Layout((0, 8, 9, 10, 11, 12, 13, 14, 15), eos=1024, pad=1025, bos=1026)
FRAMES = 128 - LAYOUT.overhead


def _tokenize(text: str) -> list[int]:
    return list(tiny_processor().tokenizer(text)["input_ids"])


def _folder(place: Path, seconds: dict[str, float], *, sides: int = 1) -> Path:
    import soundfile

    for each in ("audio", "audio_prompts"):
        (place / each).mkdir(parents=True)
    for number, (name, length) in enumerate(seconds.items()):
        time = np.arange(round(length * 44_100)) / 44_100
        wave = 0.3 * np.sin(2 * np.pi * 220 * (number + 1) * time)
        if sides == 1:
            save(place / f"audio/{name}.wav", wave, 44_100)
        else:
            soundfile.write(str(place / f"audio/{name}.wav"), np.stack([wave, -wave], 1), 44_100)
        (place / f"audio_prompts/{name}_prompt.txt").write_text(f"[S1] Clip {name}.")
    return place


def test_encodes_once_and_continues(tmp_path: Path) -> None:
    place, codec, backend = (
        _folder(tmp_path, {"a": 0.3, "b": 0.6, "c": 0.2}),
        tiny_codec(),
        make("cpu", "cpu"),
    )
    done, skipped = encode(str(place), str(place), codec, backend, frames=FRAMES)
    assert (done, skipped.reasons) == (3, [])
    (place / "encoded_audio/b.pt").unlink()
    assert encode(str(place), str(place), codec, backend, frames=FRAMES)[0] == 1
    clips, _ = read_clips(str(place), SHORT, LAYOUT, _tokenize)
    assert [(clip.name, clip.codes.shape) for clip in clips] == [
        ("a", (26, 9)),
        ("b", (52, 9)),
        ("c", (18, 9)),
    ]
    assert bytes(clips[0].text[1:].astype(np.uint8)) == b" Clip a."
    assert clips[0].text[0] == 1, "[S1]"


def test_both_sides_of_stereo(tmp_path: Path) -> None:
    place, codec = _folder(tmp_path, {"a": 0.3}, sides=2), tiny_codec()
    encode(str(place), str(place), codec, make("cpu", "cpu"), frames=FRAMES, channels=18)
    codes = torch.load(place / "encoded_audio/a.pt", weights_only=True)
    assert codes.shape == (26, 18)
    assert not torch.equal(codes[:, :9], codes[:, 9:])


def test_a_dataset_of_hugging_face(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    sound = (_folder(tmp_path / "files", {"a": 0.3}) / "audio/a.wav").read_bytes()
    table = datasets.Dataset.from_dict({"audio": [{"bytes": sound, "path": None}], "text": ["[S1] Hello."]})
    table.save_to_disk(str(tmp_path / "set"))
    encode(str(tmp_path / "set"), str(tmp_path / "out"), tiny_codec(), make("cpu", "cpu"), frames=FRAMES)
    clips, _ = read_clips(str(tmp_path / "out"), SHORT, LAYOUT, _tokenize)
    assert [len(clip.codes) for clip in clips] == [26]


def test_a_clip_without_sound_or_words_is_left_out(tmp_path: Path) -> None:
    place = _folder(tmp_path, {"dots": 0.2, "good": 0.3, "one": 0.2, "silent": 0.2})
    (place / "audio_prompts/dots_prompt.txt").write_text("[S1] ... ?!")
    save(place / "audio/one.wav", np.full(1, 0.1), 44_100)
    save(place / "audio/silent.wav", np.zeros(9000), 44_100)
    done, skipped = encode(str(place), str(place), tiny_codec(), make("cpu", "cpu"), frames=FRAMES)
    assert done == 1
    assert skipped.reasons == [
        "dots: its text has no letter or digit to say.",
        "one: it lasts 0.0000 s, too short to say it",
        "silent: audio/silent.wav is silent.",
    ]


def test_leaves_out_unusable_clips_and_reports_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = _folder(tmp_path, {"good": 0.3, "long": 2.0, "torn": 0.2, "wordy": 0.2})
    (place / "audio/torn.wav").write_bytes(b"RIFF")
    (place / "audio/mute.wav").write_bytes(b"")
    (place / "audio_prompts/wordy_prompt.txt").write_text("a" * 129)
    done, skipped = encode(str(place), str(place), tiny_codec(), make("cpu", "cpu"), frames=FRAMES)
    assert done == 2
    assert [reason.split()[0].rstrip(":") for reason in skipped.reasons] == ["audio/mute.wav", "long", "torn"]
    (place / "encoded_audio/half.pt").write_bytes(b"PK")
    (place / "audio_prompts/half_prompt.txt").write_text("half")
    clips, skipped = read_clips(str(place), SHORT, LAYOUT, _tokenize)
    assert [clip.name for clip in clips] == ["good"]
    output = capsys.readouterr().err
    for reason in (
        "long: it lasts 2.0 s, and 1.3 s fit the window (audio_length)",
        "wordy: a text of 129 bytes (from 1 to 128 fit).",
        "half.pt cannot be read as codes",
        "audio/mute.wav has no audio_prompts/mute_prompt.txt.",
    ):
        assert f"left out: {reason}" in output


def test_refuses_folders_without_clips(tmp_path: Path) -> None:
    (tmp_path / "audio").mkdir()
    with pytest.raises(DataError, match=r"has no clips: put audio/NAME\.wav"):
        encode(str(tmp_path), str(tmp_path), tiny_codec(), make("cpu", "cpu"), frames=FRAMES)
    with pytest.raises(DataError, match="has no clips to train on"):
        read_clips(str(tmp_path), SHORT, LAYOUT, _tokenize)
    with pytest.raises(DataError, match="holds no clips"):
        read_clips(str(tmp_path / "nowhere"), SHORT, LAYOUT, _tokenize)


def _clips(count: int) -> list[Clip]:
    text = np.arange(97, 107, dtype=np.int32)
    return [Clip(str(n), text, np.full((5, 9), n, np.int16)) for n in range(count)]


def test_batches_depend_on_seed_and_number_alone() -> None:
    config, clips = SHORT.but(batch_size=2, epochs=3), _clips(5)
    whole = list(train_batches(clips, config, LAYOUT))
    assert len(whole) == 6
    for late, early in zip(train_batches(clips, config, LAYOUT, 3), whole[3:], strict=True):
        assert all(np.array_equal(late[name], early[name]) for name in late)
    assert {tuple(value.shape) for batch in whole for value in batch.values()} == {(2, 128), (2, 128, 9)}
    with pytest.raises(DataError, match="5 clips are less than one batch of 6"):
        next(train_batches(clips, SHORT.but(batch_size=6), LAYOUT))


def test_text_is_dropped_by_number_in_the_requested_share() -> None:
    config = SHORT.but(unconditional_frac=0.15)
    dropped = [is_unconditional(number, config) for number in range(10_000)]
    assert sum(dropped) == 1500
    first = dropped.index(True, 10)
    batch = rows(_clips(1), config, LAYOUT, first=first)
    assert not batch["input_ids"].any()
    assert batch["attention_mask"].sum() == 10, "the mask stays the text's"


def test_evaluation_reads_each_clip_once() -> None:
    batches = list(eval_batches(_clips(5), SHORT.but(batch_size=4), LAYOUT))
    assert len(batches) == 2
    assert sum(int((batch["labels"] != -100).sum()) for batch in batches) == 5 * 9 * 6
    assert all((batch["attention_mask"].sum(1) > 0).all() for batch in batches)


def test_clips_are_read_several_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after another, 10,000 clips in a bucket took half an hour before the first step."""
    (tmp_path / "encoded_audio").mkdir()
    (tmp_path / "audio_prompts").mkdir()
    for clip in _clips(4):
        torch.save(torch.from_numpy(clip.codes), tmp_path / f"encoded_audio/{clip.name}.pt")
        (tmp_path / f"audio_prompts/{clip.name}_prompt.txt").write_text("[S1] Hi.")
    together, read = threading.Barrier(4, timeout=30), Folder.read

    def waits_for_three_others(folder: Folder, name: str) -> object:
        together.wait()
        return read(folder, name)

    monkeypatch.setattr(Folder, "read", waits_for_three_others)
    clips, _ = read_clips(str(tmp_path), SHORT, LAYOUT, _tokenize)
    assert [clip.name for clip in clips] == ["0", "1", "2", "3"]
