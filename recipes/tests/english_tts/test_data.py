"""Alignments against praatio and the exact durations of the corpus; what is left out and what is refused."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("praatio")

from english_tts.tiny_voice import TINY, made_up
from praatio import textgrid
from tpulab_recipes.audio.alignments import frames_of, read_text_grid
from tpulab_recipes.audio.corpus import CorpusSettings, write_corpus
from tpulab_recipes.audio.corpus import utterances as corpus_utterances
from tpulab_recipes.common.errors import DataError
from tpulab_recipes.english_tts.data import (
    PUNCTUATION,
    SYMBOLS,
    PhonemeProcessor,
    batches,
    batches_per_epoch,
    prepare,
    read_features,
    split,
)

CONFIG = TINY.but(frame_buckets=(200,))


CORPUS = CorpusSettings(6, sample_rate=16_000, hop=320, speakers=1)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder, CORPUS)
    return folder


def test_there_are_96_symbols() -> None:
    assert len(SYMBOLS) == len(set(SYMBOLS)) == 96 == 3 + 15 * 4 + 24 + len(PUNCTUATION)


def test_text_grids_are_read_as_praatio_reads_them(corpus: Path) -> None:
    path = corpus / "TextGrid" / "utt_0001.TextGrid"
    tier = textgrid.openTextgrid(str(path), includeEmptyIntervals=True).getTier("phones")
    assert read_text_grid(path) == [(each.label, each.start, each.end) for each in tier.entries]


def test_short_and_utf_16_text_grids_are_the_same_and_a_torn_one_is_named(
    corpus: Path, tmp_path: Path
) -> None:
    path, other = corpus / "TextGrid" / "utt_0001.TextGrid", tmp_path / "other.TextGrid"
    textgrid.openTextgrid(str(path), True).save(str(other), "short_textgrid", includeBlankSpaces=True)
    assert read_text_grid(other) == read_text_grid(path)
    other.write_bytes(path.read_text().encode("utf-16"))
    assert read_text_grid(other) == read_text_grid(path)
    other.write_text(path.read_text()[:-300])
    with pytest.raises(DataError, match=r"other\.TextGrid cannot be read .* cut off or of another format"):
        read_text_grid(other)


def test_durations_are_exactly_those_that_were_synthesised(corpus: Path, tmp_path: Path) -> None:
    found = prepare(str(corpus), str(tmp_path), CONFIG)
    utterances, _ = read_features(str(tmp_path), CONFIG)
    assert found["left_out"] == []
    for one, row in zip(utterances, corpus_utterances(CORPUS), strict=True):
        assert one.durations.tolist() == [each // 320 for each in row.durations]
        assert PhonemeProcessor().names(one.phonemes) == [
            "<sil>" if each == "sil" else each for each in row.phonemes
        ]
        assert len(one.mel) == one.durations.sum()
        assert one.mel.max() <= 0
    every = np.concatenate([one.mel for one in utterances])
    np.testing.assert_allclose(found["mel_mean"], every.mean(0), rtol=1e-4)
    np.testing.assert_allclose(found["mel_std"], every.std(0), rtol=1e-3)
    with pytest.raises(DataError, match="prepared with the settings of sound"):
        read_features(str(tmp_path), CONFIG.but(hop_length=256))


def test_every_phoneme_has_a_frame_and_none_is_lost() -> None:
    random = np.random.default_rng(0)
    for _ in range(200):
        count, frames = int(random.integers(1, 12)), int(random.integers(12, 40))
        ends = np.sort(random.uniform(0, frames * 0.02, count))
        found = frames_of(ends, 0.02, frames)
        assert found.sum() == frames
        assert found.min() >= 1
    assert frames_of([0.021, 0.022, 0.1], 0.02, 5).tolist() == [1, 1, 3]
    with pytest.raises(DataError, match="3 phonemes do not fit 2 frames"):
        frames_of([0.1, 0.2, 0.3], 0.02, 2)


def _spoiled(corpus: Path, folder: Path) -> Path:
    """The corpus with a missing TextGrid, a misaligned one, one with an unknown symbol, and missing sound."""
    import shutil

    shutil.copytree(corpus, folder)
    grids = folder / "TextGrid"
    (grids / "utt_0000.TextGrid").unlink()
    text = (grids / "utt_0001.TextGrid").read_text()
    (grids / "utt_0002.TextGrid").write_text(text)
    (grids / "utt_0003.TextGrid").write_text(
        (grids / "utt_0003.TextGrid").read_text().replace('"AH"', '"QQ"')
    )
    (folder / "audio" / "utt_0004.wav").unlink()
    return folder


def test_unusable_files_are_named_and_left_out_or_refused(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _spoiled(corpus, tmp_path / "spoiled")
    found = prepare(str(folder), str(tmp_path / "out"), CONFIG)
    assert found["names"] == ["utt_0001", "utt_0005"]
    missing, misaligned, symbol, sound = found["left_out"]
    assert "utt_0000.TextGrid is missing" in missing
    assert "utt_0002 is misaligned" in misaligned
    assert "utt_0003: there is no symbol 'QQ'" in symbol
    assert "wavs/utt_0004.wav is missing" in sound
    assert "left out" in capsys.readouterr().err
    with pytest.raises(DataError, match="utt_0000"):
        prepare(str(folder), str(tmp_path / "out"), CONFIG.but(on_bad_file="refuse"))


def test_any_english_text_becomes_phonemes_and_punctuation_is_a_pause() -> None:
    processor = PhonemeProcessor()
    assert " ".join(processor.phonemes("The RED bird; 30 zebras.")) == (
        "<sil> DH AH0 R EH1 D B ER1 D <sil> TH ER1 T IY0 Z IY1 B R AH0 Z <sil>"
    )
    assert processor.names(processor.ids(["AE1", "sp", "spn"])) == ["AE1", "<sil>", "<unk>"]
    for empty in ("…", " , {sil}", "你好"):
        with pytest.raises(DataError, match="no words"):
            processor.phonemes(empty)


def test_phones_of_an_ipa_aligner_are_arpabets() -> None:
    """Case D05: MFA's `english_mfa` writes IPA (phones: montreal-forced-aligner.readthedocs.io)."""
    processor = PhonemeProcessor()
    phones = ["tʰ", "ɑː", "ɫ̩", "n̩", "tʃ", "dʲ", "ɾ̃", "ej", "cʰ", "d̪", "ɝ", "ʉː", "ɔj", "ʔ", "QQ"]
    names = ["T", "AA", "L", "N", "CH", "D", "N", "EY", "K", "D", "ER", "UW", "OY", "T"]
    assert processor.names(processor.ids(phones[:-1])) == names
    with pytest.raises(DataError, match="there is no symbol 'QQ'"):
        processor.ids(phones)


def test_an_epoch_has_every_utterance_once_in_batches_of_few_shapes() -> None:
    utterances = [made_up(each) for each in range(11)]

    def names(epoch: int | None) -> list[Any]:
        return [
            row.tobytes()
            for batch in batches(utterances, TINY, epoch=epoch)
            for row in batch["mel"]
            if row.any()
        ]

    rows = list(batches(utterances, TINY, epoch=0))
    assert len(rows) == batches_per_epoch(utterances, TINY)
    assert {batch["mel"].shape for batch in rows} <= {(4, 32, 20), (4, 48, 20)}
    assert Counter(names(0)) == Counter(names(None))
    assert len(names(0)) == 11
    assert names(0) == names(0)
    assert names(0) != names(1)
    train, held_out = split(utterances, TINY)
    assert (len(train), len(held_out)) == (9, 2)


def test_each_row_of_the_documents_table_names_a_test_that_exists() -> None:
    checkout = Path(__file__).parents[3]
    notes = (checkout / "docs" / "recipe-notes.md").read_text()
    table = notes.partition("### What the document promises\n")[2].partition("\n### ")[0]
    named = set(re.findall(r"\| `(test_\w+)` *\|", table))
    tests = [*Path(__file__).parent.glob("test_*.py"), checkout / "recipes/tests/real/test_english_tts.py"]
    assert len(named) > 15
    assert named <= set(re.findall(r"^def (test_\w+)", "\n".join(map(Path.read_text, tests)), re.MULTILINE))
