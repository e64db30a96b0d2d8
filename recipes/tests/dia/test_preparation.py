"""Encoding never changes the user's files, continues after an interruption, and detects corrections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers.models.dia")

from preparing import dia_folder, wav  # noqa: E402
from tpulab_recipes.audio.codec import tiny_codec  # noqa: E402
from tpulab_recipes.dia.config import Config  # noqa: E402
from tpulab_recipes.dia.data import Layout, encode, read_clips  # noqa: E402
from tpulab_recipes.runtime.selection import make  # noqa: E402

LAYOUT = Layout((0, 8, 9, 10, 11, 12, 13, 14, 15), eos=1024, pad=1025, bos=1026)
WINDOW = {"frames": 128 - LAYOUT.overhead, "text_length": 128}
CODEC, HOST = tiny_codec(), make("cpu", "cpu")


def _encode(place: Path, output: Path | str | None = None, codec: Any = CODEC) -> tuple[int, list[str]]:
    done, skipped = encode(str(place), str(output or place), codec, HOST, **WINDOW)
    return done, skipped.reasons


def _clips(place: Path) -> dict[str, bytes]:
    clips, _ = read_clips(str(place), Config(audio_length=128), LAYOUT, lambda text: list(text.encode()))
    return {clip.name: bytes(clip.text.tolist()) for clip in clips}


def _inputs(place: Path) -> dict[str, tuple[bytes, int]]:
    files = [*place.glob("audio/*"), *place.glob("audio_prompts/*")]
    return {str(file): (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


def test_encoding_never_writes_to_what_it_reads(tmp_path: Path) -> None:
    """Cases R1, D01 and D02: prompt files were rewritten, with characters that are not UTF-8 replaced."""
    texts = {
        "spaces": "  [S1] Spaces.\r\n ",
        "latin": "[S1] The café is closed.".encode("cp1252"),
        "wide": "[S1] The café is open.".encode("utf-16"),
        "mark": "[S1] A mark.".encode("utf-8-sig"),
    }
    place = dia_folder(tmp_path / "dia", texts)
    before = _inputs(place)
    done, left_out = _encode(place)
    assert done == 3
    assert [reason.partition(":")[0] for reason in left_out] == ["audio_prompts/latin_prompt.txt, line 1"]
    assert "cp1252" in left_out[0]
    assert _inputs(place) == before
    assert sorted(each.name for each in place.iterdir()) == ["audio", "audio_prompts", "encoded_audio"]
    expected = {"spaces": b"[S1] Spaces.", "wide": "[S1] The café is open.".encode(), "mark": b"[S1] A mark."}
    assert _clips(place) == expected
    other = tmp_path / "coded"
    assert _encode(place, other)[0] == 3
    assert _clips(other) == expected
    assert "�" not in "".join(file.read_text() for file in other.glob("audio_prompts/*"))
    assert _inputs(place) == before


def test_continues_where_it_was_interrupted_and_takes_corrections(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case D11: training took whatever was encoded, and corrections never."""
    place = dia_folder(tmp_path, {f"clip{n}": "[S1] Hello." for n in range(5)})
    assert _encode(place) == (5, [])
    assert _encode(place) == (0, [])
    codes = place / "encoded_audio"
    (codes / "clip3.pt").unlink()
    (codes / "clip4.pt").write_bytes((codes / "clip4.pt").read_bytes()[:200])
    capsys.readouterr()
    assert _encode(place) == (2, [])
    assert "encoding again: clip4.pt cannot be read" in capsys.readouterr().err
    old = (codes / "clip0.pt").read_bytes()
    wav(place / "audio/clip0.wav", 0.2, 700, 44_100)
    (place / "audio_prompts/clip0_prompt.txt").write_text("[S1] The bird.")
    assert _encode(place) == (1, [])
    assert (codes / "clip0.pt").read_bytes() != old
    assert _clips(place)["clip0"] == b"[S1] The bird."
    # A copy of the same files is the same, whatever its times are.
    (place / "audio/clip1.wav").touch()
    assert _encode(place) == (0, [])
    # Codes of another codec mean nothing to the model.
    assert _encode(place, codec=tiny_codec(seed=1))[0] == 5


def test_codes_of_another_program_stay_as_they_are(tmp_path: Path) -> None:
    place = dia_folder(tmp_path, {"a": "[S1] Hello.", "b": "[S1] Hello."})
    (place / "encoded_audio").mkdir()
    theirs = torch.zeros(10, 9, dtype=torch.int16)
    torch.save(theirs, place / "encoded_audio/a.pt")
    assert _encode(place)[0] == 1
    assert torch.equal(torch.load(place / "encoded_audio/a.pt", weights_only=True), theirs)


def test_a_process_that_is_killed_never_leaves_codes_of_another_sound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = dia_folder(tmp_path, {"a": "[S1] Hello."})
    _encode(place)
    wav(place / "audio/a.wav", 0.3, 700, 44_100)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(torch, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            _encode(place)
    assert not (place / "encoded_audio/a.pt").exists()
    assert _encode(place)[0] == 1


def test_odd_texts_are_named_before_anything_is_encoded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case D12."""
    texts = {
        "plain": "[S1] Hello. [S2] Hello.",
        "tagged": "[S1] Two files have this name.",
        "untagged": "Nobody is named.",
        "third": "[S1] One. [S3] Three.",
        "small": "[s1] Small letters.",
        "late": "Well, [S1] hello.",
        "nul": "[S1] A\0B.",
        "emoji": "[S1] Good 😀.",
        "pad": "[S1] The <pad> is here.",
        "empty": "",
        "blank": "  \n\t",
        "long": "[S1] " + "many words " * 54,
    }
    place = dia_folder(tmp_path / "dia", texts)
    (place / "audio/tagged.mp3").write_bytes((place / "audio/plain.wav").read_bytes())
    (place / "audio/folder.wav").mkdir()
    done, left_out = _encode(place, tmp_path / "coded")
    printed = capsys.readouterr().err
    for name in ("untagged", "third", "small", "late", "pad"):
        assert f"note: {name}: " in printed
    assert "note: plain" not in printed
    reasons = "\n".join(left_out)
    for reason in (
        "audio/tagged.wav has the same name as audio/tagged.mp3",
        "audio/folder.wav is a folder",
        "nul_prompt.txt, line 1: it has a NUL character",
        "empty: a text of 0 bytes",
        "blank: a text of 0 bytes",
        "long: a text of 595 bytes (from 1 to 128 fit)",
    ):
        assert reason in reasons
    assert len(left_out) == 6
    assert done == len(list((tmp_path / "coded/encoded_audio").glob("*.pt"))) == 8
    assert _clips(tmp_path / "coded")["emoji"] == "[S1] Good 😀.".encode()
