"""`python -m tpulab_recipes.audio`: what it writes, prints and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("tyro")
soundfile = pytest.importorskip("soundfile")
pytest.importorskip("praatio")

from tpulab_recipes.audio.__main__ import main  # noqa: E402


def test_it_writes_the_corpus_and_prints_its_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), "--count", "2", "--sample-rate", "16000", "--hop", "160"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    files = sorted((tmp_path / "audio").iterdir())
    assert [file.name for file in files] == ["utt_0000.wav", "utt_0001.wav"]
    assert {soundfile.info(file).samplerate for file in files} == {16_000}
    assert result["utterances"] == 2
    assert result["seconds"] == pytest.approx(sum(soundfile.info(file).duration for file in files), abs=1e-3)


@pytest.mark.parametrize(
    ("flags", "output"),
    [(("--speakers", "9"), "between 1 and 4"), (("--coun", "2"), "--count INT"), ((), "FOLDER")],
)
def test_what_makes_no_sense_is_explained_and_ends_with_two(
    flags: tuple[str, ...], output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main([str(tmp_path), *flags] if flags else [])
    assert left.value.code == 2
    assert output.lower() in " ".join(capsys.readouterr().err.replace("│", " ").split()).lower()


def test_a_folder_that_cannot_be_written_gets_a_one_sentence_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main([str(tmp_path / "file"), "--count", "1"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
