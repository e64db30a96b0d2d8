"""Preparation keeps what the original wrote, takes corrections, and never mixes up two clips."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from preparing import clips_list, wav  # noqa: E402
from tpulab_recipes.common.errors import ConfigError, DataError  # noqa: E402
from tpulab_recipes.gpt_sovits.__main__ import main  # noqa: E402
from tpulab_recipes.gpt_sovits.config import FULL_SIZE, Config  # noqa: E402
from tpulab_recipes.gpt_sovits.data import (  # noqa: E402
    bert_features,
    prepare,
    read_clips,
    small_features,
    text_features_for,
)
from tpulab_recipes.gpt_sovits.text import read  # noqa: E402

CONFIG = Config()


def _prepare(listed: Path, root: Path, **options: Any) -> tuple[int, dict[str, str]]:
    return prepare(listed, root, CONFIG, small_features(CONFIG), **options)


def _rows(root: Path) -> dict[str, list[str]]:
    rows = [line.split("\t") for line in (root / "2-name2text.txt").read_text().splitlines()]
    return {row[0]: row[1:] for row in rows}


def test_rows_of_the_original_stay_until_their_text_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case R8: word alignments were lost, and a text stood beside the phonemes of another."""
    root, listed = tmp_path / "sov", tmp_path / "clips.list"
    root.mkdir()
    zh = "n i3 h ao3 sh ir4 j ie4\t[2, 2, 2, 2]\t你好世界"
    rows = [f"zh.wav\t{zh}", "en.wav\tHH AH0 L OW1\tNone\thello 12, there", "gone.wav\tB ER1 D\tNone\tbird"]
    (root / "2-name2text.txt").write_text("\n".join(rows) + "\n")
    clips_list(listed, {"zh.wav": "你好，世界。", "en.wav": "Hello 12 there!", "new.wav": "{B ER1 D}"})
    assert _prepare(listed, root) == (3, {})
    after = (root / "2-name2text.txt").read_text().splitlines()
    assert after == [*rows, "new.wav\tB ER1 D\tNone\t{B ER1 D}"]
    clips_list(listed, {"zh.wav": "{B ER1 D}", "en.wav": "Другой текст.", "new.wav": "{B ER1 D}"})
    done, reasons = _prepare(listed, root)
    assert done == 2
    assert _rows(root)["zh.wav"] == ["B ER1 D", "None", "{B ER1 D}"]
    assert "2-name2text.txt has another text for it ('hello 12, there')" in reasons["en.wav"]
    assert "'Д' is no letter of en" in reasons["en.wav"]
    assert "en.wav" not in _rows(root)
    assert _rows(root)["gone.wav"] == ["B ER1 D", "None", "bird"]
    assert "the text of zh.wav has changed" in capsys.readouterr().err


def test_corrected_text_and_sound_are_taken_and_the_rest_is_left(tmp_path: Path) -> None:
    """Case D11."""
    root, listed = tmp_path / "sov", tmp_path / "clips.list"
    clips_list(listed, dict.fromkeys(("a.wav", "b.wav"), "{AH0}"))
    assert _prepare(listed, root) == (2, {})
    before = {file: file.read_bytes() for file in root.rglob("*.*")}
    stamps = {file: file.stat().st_mtime_ns for file in root.rglob("b.wav*")}
    assert _prepare(listed, root) == (2, {})
    assert {file: file.read_bytes() for file in root.rglob("*.*")} == before
    clips_list(listed, {"a.wav": "{B ER1 D}", "b.wav": "{AH0}"})
    wav(tmp_path / "a.wav", hz=500, rate=8000)
    assert _prepare(listed, root) == (2, {})
    assert _rows(root)["a.wav"] == ["B ER1 D", "None", "{B ER1 D}"]
    for file in (*root.glob("5-wav32k/a.wav"), *root.glob("4-cnhubert/a.*"), *root.glob("spec*/a.*")):
        assert file.read_bytes() != before[file]
    assert {file: file.stat().st_mtime_ns for file in stamps} == stamps
    # Other settings are other results in the same folder.
    wide = CONFIG.but(ssl_channels=CONFIG.ssl_channels * 2)
    assert prepare(listed, root, wide, small_features(wide)) == (2, {})
    assert torch.load(root / "4-cnhubert/b.wav.pt", weights_only=True).shape[1] == wide.ssl_channels


def test_an_interrupted_preparation_ends_like_an_unbroken_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = clips_list(tmp_path / "clips.list", {f"{n}.wav": "{AH0}" for n in range(4)})
    _prepare(listed, tmp_path / "whole")
    count, save = 0, np.save

    def interrupted(*given: Any) -> None:
        nonlocal count
        count += 1
        if count == 3:
            raise KeyboardInterrupt
        save(*given)

    with monkeypatch.context() as patched:
        patched.setattr(np, "save", interrupted)
        with pytest.raises(KeyboardInterrupt):
            _prepare(listed, tmp_path / "twice")
    assert _prepare(listed, tmp_path / "twice") == (4, {})
    files = [file.relative_to(tmp_path / "whole") for file in (tmp_path / "whole").rglob("*.*")]
    for file in (each for each in files if each.name != "made.jsonl"):
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "twice" / file).read_bytes()


def test_lists_with_one_name_twice_windows_paths_and_bad_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case D08: the phonemes of one clip stood beside the text of another."""
    two = tmp_path / "two.list"
    for part, hz in (("a", 200), ("b", 300)):
        wav(tmp_path / part / "001.wav", hz=hz, rate=8000)
    two.write_text("a/001.wav|x|en|{AH0}\nb/001.wav|x|en|{B ER1 D}\n")
    with pytest.raises(
        DataError, match=r"a/001\.wav \(line 1\) and b/001\.wav \(line 2\) have one and the same name"
    ):
        _prepare(two, tmp_path / "sov")
    assert not (tmp_path / "sov").exists()
    windows = tmp_path / "windows.list"
    windows.write_bytes(b"\xef\xbb\xbfD:\\voice\\001.wav|x|en|{AH0}\r\n\r\nonly|three|columns\r\n")
    command = ["prepare", "--inp-text", str(windows), "--exp-dir", str(tmp_path / "win")]
    assert main(command) == 1
    output = capsys.readouterr().err
    assert "nothing is prepared" in output
    assert "give --inp-wav-dir" in output
    assert "Traceback" not in output
    assert main([*command, "--inp-wav-dir", str(tmp_path / "a")]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (result["prepared"], result["left_out"]) == (1, 1)
    assert list(_rows(tmp_path / "win")) == ["001.wav"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_lists_in_other_encodings(encoding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Cases D01 and D02."""
    text = "{AH0}, café" if encoding == "cp1252" else "{AH0}"
    listed = clips_list(tmp_path / "clips.list", {"a.wav": text}, encoding)
    status = main(["prepare", "--inp-text", str(listed), "--exp-dir", str(tmp_path / "sov")])
    output = capsys.readouterr()
    assert "Traceback" not in output.err
    if encoding == "cp1252":
        assert status == 1
        assert "clips.list, line 1: byte" in output.err
    else:
        assert status == 0
        assert list(_rows(tmp_path / "sov")) == ["a.wav"]


def test_a_clip_of_exactly_the_shortest_length_is_used_and_a_bucket_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cases D09 and R4."""
    monkeypatch.chdir(tmp_path)
    wav(tmp_path / "a.wav", 0.6, rate=8000)
    (tmp_path / "clips.list").write_text("a.wav|x|en|{AH0}\n")
    assert _prepare(tmp_path / "clips.list", tmp_path / "sov") == (1, {})
    assert main(["prepare", "--inp-text", "clips.list", "--exp-dir", "gs://my-bucket/sov"]) == 1
    assert "exp_dir: gs://my-bucket/sov is a bucket" in capsys.readouterr().err
    assert not list(tmp_path.glob("gs:*"))


def test_sound_in_the_output_folder_itself_is_not_written_over(tmp_path: Path) -> None:
    place = tmp_path / "5-wav32k"
    wav(place / "a.wav", rate=8000)
    before = (place / "a.wav").read_bytes()
    (tmp_path / "clips.list").write_text("5-wav32k/a.wav|x|en|{AH0}\n")
    _, reasons = _prepare(tmp_path / "clips.list", tmp_path)
    assert "is in the output folder itself" in reasons["a.wav"]
    assert (place / "a.wav").read_bytes() == before


def test_torn_results_are_left_out_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Cases D10 and D11: a torn spectrogram or sound ended training with a traceback."""
    names = ("a.wav", "b.wav", "c.wav")
    listed, root = clips_list(tmp_path / "clips.list", dict.fromkeys(names, "{AH0}")), tmp_path / "sov"
    assert main(["prepare", "--inp-text", str(listed), "--exp-dir", str(root)]) == 0
    for file in (*root.glob("spec-*/a.wav.npy"), root / "5-wav32k/b.wav"):
        file.write_bytes(file.read_bytes()[:100])
    clips, reasons = read_clips(root, CONFIG)
    assert [clip.name for clip in clips] == ["c.wav"]
    assert reasons.keys() == {"a.wav", "b.wav"}
    (tmp_path / "b.list").write_text("nowhere.wav|x|en|{AH0}\nd.wav|x|zh|你好\n")
    assert main(["prepare", "--inp-text", str(tmp_path / "b.list"), "--exp-dir", str(tmp_path / "x")]) == 1
    assert len((tmp_path / "x/left_out.txt").read_text().splitlines()) == 2
    assert "give --inp-wav-dir" in capsys.readouterr().err


def _tiny_bert(folder: Path) -> Any:
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer

    folder.mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"你好世界,.!?"]
    (folder / "vocab.txt").write_text("\n".join(words), "utf-8")
    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 16}
    model = BertForMaskedLM(BertConfig(vocab_size=len(words), **sizes)).eval()
    model.save_pretrained(folder)
    return model


def test_languages_of_a_list_and_bert_s_states_of_chinese(tmp_path: Path) -> None:
    """The files are those of the original's first step: `word2ph`, and 3-bert for Chinese alone."""
    pytest.importorskip("jieba")
    model, root, listed = _tiny_bert(tmp_path / "bert"), tmp_path / "sov", tmp_path / "clips.list"
    clips_list(listed, {"zh.wav": "你好，世界。", "en.wav": "Hello.", "ja.wav": "{k o}"})
    listed.write_text(listed.read_text("utf-8").replace("zh.wav|anna|en", "zh.wav|anna|ZH"), "utf-8")
    features = bert_features(str(tmp_path / "bert"))
    assert _prepare(listed, root, text_features=features) == (3, {})
    assert _rows(root)["zh.wav"] == ["n i2 h ao3 , sh ir4 j ie4 .", "[2, 2, 1, 2, 2, 1]", "你好,世界."]
    assert _rows(root)["en.wav"][1:] == ["None", "Hello."]
    assert [file.name for file in (root / "3-bert").iterdir()] == ["zh.wav.pt"]
    found = torch.load(root / "3-bert" / "zh.wav.pt", weights_only=True)
    # Ids of [CLS], the six characters and [SEP]; each character's state as often as it has phonemes.
    ids = torch.tensor([[2, 5, 6, 9, 7, 8, 10, 3]])
    states = model(ids, output_hidden_states=True).hidden_states[-3][0, 1:-1].detach()
    wanted = states.repeat_interleave(torch.tensor([2, 2, 1, 2, 2, 1]), 0).T
    assert (found - wanted).abs().max() < 1e-6
    before = (root / "2-name2text.txt").read_bytes()
    (root / "3-bert" / "zh.wav.pt").unlink()
    assert _prepare(listed, root, text_features=features) == (3, {})
    assert (root / "2-name2text.txt").read_bytes() == before
    again = torch.load(root / "3-bert" / "zh.wav.pt", weights_only=True)
    assert torch.equal(again, found)
    # Other words have other states, and what is not Chinese has none.
    listed.write_text(listed.read_text("utf-8").replace("你好，世界。", "世界！"), "utf-8")
    assert _prepare(listed, root, text_features=features) == (3, {})
    assert torch.load(root / "3-bert" / "zh.wav.pt", weights_only=True).shape == (8, 5)
    mixed = features(read("{HH AH0}你好", "zh"))
    assert mixed is not None
    assert mixed.shape == (8, 6)
    assert not mixed[:, :2].any()
    assert mixed[:, 2:].any(0).all()
    full = text_features_for(FULL_SIZE, "")
    assert full(read("{HH AH0}")) is None
    with pytest.raises(ConfigError, match="Chinese texts need BERT"):
        full(read("你好", "zh"))
    with pytest.raises(ConfigError, match=r"bert_pretrained_dir.*cannot be loaded"):
        bert_features(str(root))


def test_a_folder_of_recordings_becomes_a_voice_s_clips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A minute of somebody speaking is cut and transcribed; corrections stay, and nothing is made twice."""
    from tpulab_recipes.audio import files, transcripts
    from tpulab_recipes.audio.corpus import CorpusSettings, write_corpus

    write_corpus(tmp_path / "corpus", CorpusSettings(count=3, sample_rate=8000))
    pause = np.zeros(16_000, np.float32)
    spoken = [files.load(each, 8000) for each in sorted((tmp_path / "corpus").glob("audio/*.wav"))]
    place, root = tmp_path / "recordings", tmp_path / "voice"
    place.mkdir()
    files.save(place / "talk.wav", np.concatenate([part for each in spoken for part in (each, pause)]), 8000)
    wav(place / "tone.wav", 2.0, 440, 8000)
    requested: list[tuple[str, str]] = []
    transcribed: list[int] = []

    def load_whisper(name: str, language: str) -> Any:
        requested.append((name, language))

        def transcribe(waves: Any) -> list[str]:
            transcribed.append(len(waves))
            return ["The bird is red."] * len(waves)

        return transcribe

    monkeypatch.setattr(transcripts, "load_whisper", load_whisper)
    command = ["prepare", "--recordings", str(place), "--exp-dir", str(root), "--whisper", "an-ear"]
    assert main(command) == 0
    printed = capsys.readouterr()
    result = json.loads(printed.out.splitlines()[-1])
    assert (result["prepared"], result["left_out"]) == (3, 1)
    assert "tone.wav: nobody speaks in it" in (root / "left_out.txt").read_text()
    assert (requested, transcribed) == ([("an-ear", "en")], [3])
    names = [f"talk_{number:04d}.wav" for number in (1, 2, 3)]
    assert (root / "clips.list").read_text().splitlines() == [
        f"clips/audio/{name}|voice|en|The bird is red." for name in names
    ]
    clips, reasons = read_clips(root, CONFIG)
    assert ([clip.name for clip in clips], reasons) == (names, {})
    (root / "clips/audio_prompts/talk_0002_prompt.txt").write_text("My boat\nis blue.")
    assert main(command) == 0
    assert transcribed == [3]
    assert _rows(root)["talk_0002.wav"][2] == "My boat is blue."
    assert _rows(root)["talk_0001.wav"][2] == "The bird is red."


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ((), "Give either --inp-text or --recordings"),
        (("--inp-text", "a.list", "--recordings", "r"), "Give either --inp-text or --recordings"),
        (("--recordings", "EXP"), "are not apart; give another folder"),
        (("--recordings", "r", "--text-lang", "auto"), "'auto' is not the one language"),
        (("--recordings", "r", "--whisper", "./nothing"), "whisper: './nothing' is neither a folder here"),
    ],
)
def test_recordings_that_cannot_be_prepared_get_a_one_sentence_error(
    more: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from tpulab_recipes.audio import transcripts

    if "./nothing" not in more:
        monkeypatch.setattr(transcripts, "load_whisper", lambda *_: None)
    place = str(tmp_path / "voice")
    given = [place if each == "EXP" else each for each in more]
    assert main(["prepare", "--exp-dir", place, *given]) == 1
    printed = capsys.readouterr().err
    assert message in printed
    assert "Traceback" not in printed
