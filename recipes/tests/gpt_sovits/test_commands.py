"""The commands, as they are typed: from a list of clips to a voice that converts and speaks."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tpulab_recipes import runtime  # noqa: E402
from tpulab_recipes.audio import files  # noqa: E402
from tpulab_recipes.audio.corpus import CorpusSettings, write_corpus  # noqa: E402
from tpulab_recipes.common.errors import CheckpointError, ConfigError, DataError  # noqa: E402
from tpulab_recipes.gpt_sovits.__main__ import main  # noqa: E402
from tpulab_recipes.gpt_sovits.checkpoints import make_models  # noqa: E402
from tpulab_recipes.gpt_sovits.config import (  # noqa: E402
    FULL_SIZE,
    Config,
    config_from,
    read_s2_config,
    s2_json,
)
from tpulab_recipes.gpt_sovits.data import (  # noqa: E402
    Clip,
    features_for,
    fit_tokens,
    hubert_features,
    prepare,
    read_clips,
    rows,
    small_features,
)
from tpulab_recipes.gpt_sovits.modules import rand_slice_segments  # noqa: E402
from tpulab_recipes.gpt_sovits.s1 import Text2SemanticDecoder  # noqa: E402
from tpulab_recipes.gpt_sovits.serve import VoiceServer  # noqa: E402
from tpulab_recipes.gpt_sovits.text import phonemes_of, symbols  # noqa: E402
from tpulab_recipes.gpt_sovits.voices import Voice  # noqa: E402
from tpulab_recipes.runtime.selection import make  # noqa: E402

from .reference import golden, tensor  # noqa: E402


@pytest.fixture(autouse=True)
def _on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process chooses its backend once; here other files have theirs."""
    monkeypatch.setattr(runtime, "use", lambda *_args, **_options: make("cpu", "cpu"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("corpus")
    write_corpus(place, CorpusSettings(count=5, sample_rate=8000, hop=160, speakers=2))
    return place


def _result(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return dict(json.loads(capsys.readouterr().out.splitlines()[-1]))


def test_from_a_list_to_a_voice_that_converts_and_speaks(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    exp, run = str(tmp_path / "exp"), tmp_path / "run"
    prepared = ["prepare", "--inp-text", str(corpus / "corpus.list"), "--exp-dir", exp]
    assert main(prepared) == 0
    assert _result(capsys)["prepared"] == 5
    before = {file: file.stat().st_mtime_ns for file in Path(exp).rglob("*.npy")}
    assert main(prepared) == 0, "the same command goes on: nothing is left to do"
    assert {file: file.stat().st_mtime_ns for file in Path(exp).rglob("*.npy")} == before
    capsys.readouterr()

    command = ["train", "--exp_dir", exp, "--output_dir", str(run), "--batch_size", "2", "--epochs", "1"]
    assert main(command) == 0
    done = _result(capsys)
    assert (done["steps"], done["epochs"], done["left_out"]) == (2, 1, 0)
    assert done["held_out_mel_l1"] > 0
    assert main(command) == 0
    assert _result(capsys)["steps"] == 2
    assert sorted(file.name for file in run.glob("*")) == [
        "D_latest.pth",
        "G_latest.pth",
        "logs",
        "settings.json",
        "step-00000002.pt",
        "voice.pth",
    ]

    source, reference = corpus / "audio" / "utt_0000.wav", corpus / "audio" / "utt_0001.wav"
    voice = ["--voice", str(run / "voice.pth"), "--ref-wav", str(reference)]
    wav = tmp_path / "converted.wav"
    assert main(["convert", *voice, "--source", str(source), "--output", str(wav)]) == 0
    received = len(files.load(source, 8000)) / 8000
    assert _result(capsys)["seconds"] == pytest.approx(received, abs=0.05)
    assert wav.stat().st_size > 1000

    torch.manual_seed(0)
    sizes = {"hidden_dim": 16, "head": 2, "n_layer": 1, "vocab_size": 129, "phoneme_vocab_size": 732}
    first = Text2SemanticDecoder(**sizes, bert_channels=8)
    state = {f"model.{key}": value.half() for key, value in first.state_dict().items()}
    torch.save({"weight": state, "config": {"model": sizes}, "info": "GPT-e1"}, tmp_path / "s1.ckpt")
    output = ["speak", *voice, "--ref-text", "the red bird", "--text", "A {M UW1 N}.", "--max-sec", "1"]
    short = [*output, "--pretrained-s1", str(tmp_path / "s1.ckpt")]
    assert main(short) == 1
    assert "the reference lasts 1.9 s, not 3 to 10 s." in capsys.readouterr().err
    files.save(tmp_path / "long.wav", np.tile(files.load(reference, 8000), 2), 8000)
    output[output.index("--ref-wav") + 1] = str(tmp_path / "long.wav")
    assert main([*short, "--max-sec", "nan"]) == 1
    assert "max_sec: nan is not a length in seconds" in capsys.readouterr().err
    assert main([*output, "--pretrained-s1", str(tmp_path / "s1.ckpt"), "--output", str(wav)]) == 0
    assert 0.4 < _result(capsys)["seconds"] <= 1.0

    exported = tmp_path / "exported.pth"
    assert main(["export", "--checkpoints", str(run), "--output", str(exported)]) == 0
    ours, theirs = (torch.load(each, weights_only=True)["weight"] for each in (exported, run / "voice.pth"))
    assert all(torch.equal(value, theirs[key]) for key, value in ours.items())
    assert main(["prepare", *prepared[1:], "--pretrained-s2G", str(run / "G_latest.pth")]) == 0
    rows = (Path(exp) / "6-name2semantic.tsv").read_text().splitlines()
    # The original takes the first line for names of columns.
    assert (rows[0], len(rows)) == ("item_name\tsemantic_audio", 6)

    stage = tmp_path / "s1"
    command = ["train-s1", "--exp-dir", exp, "--output-dir", str(stage), "--epochs", "1", "--n-layer", "1"]
    capsys.readouterr()
    assert main(command) == 0
    done = _result(capsys)
    assert (done["steps"], done["left_out"], done["first_stage"]) == (1, 0, str(stage / "s1.ckpt"))
    assert done["held_out_loss"] > 0
    assert main([*command, "--epochs", "2", "--batch-size", "4"]) == 0
    stage_file = ["--pretrained-s1", str(stage / "s1.ckpt")]
    capsys.readouterr()
    assert main([*output, *stage_file, "--output", str(wav)]) == 0
    one = _result(capsys)["seconds"]
    aloud = [*output[:5], "--ref-text", "the red bird", "--max-sec", "1", *stage_file]
    assert main([*aloud, "--text", "A {M UW1 N}. A {M UW1 N}.", "--output", str(wav)]) == 0
    # Two sentences of at most a second each, and a pause.
    assert one + 0.3 < _result(capsys)["seconds"] <= 2.3
    at_once = ["--sentences-at-once", "2", "--text", "A {M UW1 N}. A {M UW1 N}. A {M UW1 N}."]
    assert main([*aloud, *at_once, "--output", str(wav)]) == 0
    assert 2 * one + 0.6 < _result(capsys)["seconds"] <= 3.6

    running: list[VoiceServer] = []
    began, forever = threading.Event(), VoiceServer.serve_forever

    def serve_forever(server: VoiceServer, *args: Any) -> None:
        running.append(server)
        began.set()
        forever(server, *args)

    monkeypatch.setattr(VoiceServer, "serve_forever", serve_forever)
    thread = threading.Thread(target=main, args=(["serve", *aloud[1:], "--port", "0"],), daemon=True)
    thread.start()
    assert began.wait(120)
    with urlopen(f"{running[0].address}?text=A%20%7BM%20UW1%20N%7D.", timeout=120) as answer:
        assert answer.read(4) == b"RIFF"
    running[0].shutdown()
    thread.join()


def test_the_original_s_configuration_is_read_and_unknown_keys_are_named(tmp_path: Path) -> None:
    file = tmp_path / "s2.json"
    written = s2_json(FULL_SIZE) | {"s2_ckpt_dir": "logs", "content_module": "cnhubert"}
    written["train"] |= {"fp16_run": True, "pretrained_s2G": "s2G.pth", "log_interval": 100}
    written["data"]["exp_dir"] = "logs/me"
    file.write_text(json.dumps(written))
    config, places, idle = read_s2_config(file, FULL_SIZE)
    assert config == FULL_SIZE
    assert (places.pretrained_s2G, places.exp_dir) == ("s2G.pth", "logs/me")
    assert {"train.fp16_run", "s2_ckpt_dir"} <= set(idle)
    for change, message in (
        ({"trian": {}}, "did you mean 'train'"),
        ({"train": {"epoch": 3}}, "did you mean 'epochs'"),
        ({"model": {"upsample_rates": [2]}}, "multiply to 2; hop_length is 640"),
    ):
        file.write_text(json.dumps(change))
        with pytest.raises(ConfigError, match=message):
            read_s2_config(file, FULL_SIZE)


def test_unusable_input_gets_a_one_sentence_error(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = tmp_path / "odd.list"
    listed.write_text(f"{corpus}/audio/utt_0000.wav|anna|KO|안녕\nnowhere.wav|anna|EN|the cat\n")
    done, reasons = prepare(listed, tmp_path / "exp", Config(), small_features(Config()))
    assert done == 0
    assert "language: 'KO' is not one of en, zh, ja" in reasons["utt_0000.wav"]
    assert "cannot be read as sound" in reasons["nowhere.wav"]
    with pytest.raises(DataError, match="has no clip that can be used"):
        read_clips(tmp_path / "exp", Config())
    listed.write_text("only two|parts\n")
    with pytest.raises(DataError, match=r"line 1: it must be wav\|speaker\|language\|text"):
        prepare(listed, tmp_path / "exp", Config(), small_features(Config()))
    assert main(["train"]) == 1
    assert "give --exp-dir" in capsys.readouterr().err
    full = ["prepare", "--preset", "full-size", "--inp-text", str(listed), "--exp-dir", str(tmp_path)]
    assert main([*full[:2], "speech", *full[3:], "--pretrained-s2G", "s2G.pth"]) == 1
    assert "semantic_frame_rate: is 50hz: a first stage writes 25" in capsys.readouterr().err
    assert main(full) == 1
    assert "cnhubert_base_dir: 768 semantic features need HuBERT" in capsys.readouterr().err
    assert (
        " ".join(phonemes_of("The {HH AH0} cat; 2 zebras!"))
        == "DH AH0 HH AH0 K AE1 T , T UW1 Z IY1 B R AH0 Z !"
    )
    assert set(phonemes_of("Zebulonium: at 10:30, or so…")) <= set(symbols("v1"))
    for text, wrong in (("你好", "'你' is no letter of en"), ("…", "no phonemes")):
        with pytest.raises(ConfigError, match=wrong):
            phonemes_of(text)


def test_sound_too_short_a_damaged_voice_and_odd_settings_are_refused() -> None:
    c = Config()
    generator, _ = make_models(c)
    voice = Voice(generator.eval(), make("cpu", "cpu"), c, small_features(c))
    short, tone = np.zeros(100, np.float32), np.sin(np.arange(8000, dtype=np.float32))
    with pytest.raises(ConfigError, match="source: 100 samples are too short"):
        voice.convert(short, [tone])
    with pytest.raises(ConfigError, match="ref_wav: 100 samples are too short"):
        voice.convert(tone, [tone, short])
    generator.dec.conv_pre.bias.data.fill_(np.nan)
    with pytest.raises(CheckpointError, match="no finite sound"):
        voice.convert(tone, [tone])
    for odd in ({"n_heads": 0}, {"sampling_rate": -1}, {"n_mel_channels": 0}, {"precision": 5}):
        with pytest.raises(ConfigError, match=str(next(iter(odd.values())))):
            config_from(odd, "settings.json")


def test_batches_match_the_original_s_collate_function() -> None:
    name, file = "collate", golden("collate")
    config = Config(
        segment_size=8,
        buckets=(12,),
        text_length=5,
        filter_length=8,
        hop_length=8,
        win_length=8,
        upsample_rates=(8,),
        upsample_kernel_sizes=(8,),
        ssl_channels=4,
    )
    items = []
    for n in range(3):
        ssl, spec, wav = (file[f"in/{key}/{n}"] for key in ("ssl", "spec", "wav"))
        items.append((spec.shape[1], file[f"in/text/{n}"].astype(np.int64), ssl[0], spec, wav[0]))
    items.sort(key=lambda item: -item[0])
    clips = [Clip("", *item[1:]) for item in items]
    drawn = np.float32([0.0, 0.5, 0.999])
    batch = rows(clips, config, 12, np.random.default_rng(0), uniform=drawn)
    for key in ("ssl", "spec", "spec_lengths", "text", "text_lengths"):
        np.testing.assert_array_equal(batch[key], file[f"out/{key}"])
    assert tensor(name, "out/wav_lengths").tolist() == [len(clip.wav) for clip in clips]
    # Of the sound, only the segment is sent, and the device finds its place from `uniform`.
    frames = torch.tensor(batch["spec_lengths"])
    places = torch.arange(12)[None, None].expand(3, 1, 12)
    _, starts = rand_slice_segments(places, frames, config.segment_frames, torch.tensor(batch["uniform"]))
    assert starts.tolist() == [int(u * clip.frames) for u, clip in zip(drawn, clips, strict=True)]
    for row, start in enumerate(starts.tolist()):
        sound = np.pad(file["out/wav"][row, 0], (0, 8))[start * 8 :][:8]
        np.testing.assert_array_equal(batch["segment"][row, 0], sound)


def test_semantic_tokens_are_fitted_to_all_clips_and_not_to_the_first_by_name() -> None:
    config = Config(codebook=4)
    generator, _ = make_models(config)
    empty = np.zeros(0, np.float32)
    clips = [
        Clip(name, empty, np.full((24, 30_000), value, np.float32), empty, empty)
        for name, value in (("anna", 0.0), ("bert", 1.0), ("carl", 5.0))
    ]
    fit_tokens(generator, clips, 0)
    codes = [int(generator.extract_latent(torch.from_numpy(clip.ssl)[None])[0, 0, 0]) for clip in clips]
    assert len(set(codes)) == 3


def test_a_whisper_s_encoder_stands_in_for_hubert(tmp_path: Path) -> None:
    sizes = {"d_model": 8, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 16}
    more = {"decoder_layers": 1, "decoder_attention_heads": 2, "vocab_size": 60, "pad_token_id": 0}
    torch.manual_seed(0)
    model = transformers.WhisperModel(transformers.WhisperConfig(**sizes, **more)).eval()
    model.save_pretrained(tmp_path)
    mels = transformers.WhisperFeatureExtractor()
    mels.save_pretrained(tmp_path)
    wave = np.float32(0.3 * np.sin(np.arange(33 * 16_000) * 0.1))
    config = Config(sampling_rate=16_000, hop_length=160, ssl_channels=8)
    found = features_for(config, str(tmp_path), "whisper")(wave)
    # 50 a second, in windows of 30 s.
    assert found.shape == (8, 33 * 50)
    given = mels(wave[: 30 * 16_000], sampling_rate=16_000, return_tensors="pt").input_features
    states = model.encoder(given).last_hidden_state[0].detach().numpy()
    np.testing.assert_allclose(found[:, :1500], states.T, atol=1e-5)
    with pytest.raises(ConfigError, match="give the folder or name of a Whisper"):
        features_for(config, "", "whisper")
    with pytest.raises(ConfigError, match=r"cnhubert_base_dir.*neither a folder here nor"):
        features_for(config, str(tmp_path / "none"), "whisper")


def test_semantic_features_are_transformers_hubert_s(tmp_path: Path) -> None:
    config = transformers.HubertConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, conv_dim=(8,) * 7
    )
    torch.manual_seed(0)
    transformers.HubertModel(config).save_pretrained(tmp_path)
    wave = np.float32(np.sin(np.arange(32_000) / 50))
    found = hubert_features(str(tmp_path), 32_000)(wave)
    assert found.shape == (16, 49)
    plain = transformers.HubertModel.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        low = torch.from_numpy(files.resample(wave * np.float32(1145.14), 32_000, 16_000))
        states = plain(low[None]).last_hidden_state
    np.testing.assert_array_equal(found, states[0].T)
    with pytest.raises(ConfigError, match=r"cnhubert_base_dir.*neither a folder here nor"):
        hubert_features(str(tmp_path / "nowhere"), 32_000)
