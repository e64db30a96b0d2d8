"""The commands, as they are typed: from sound to a model that transformers loads."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("transformers.models.dia")

from preparing import dia_folder  # noqa: E402
from tpulab_recipes import runtime  # noqa: E402
from tpulab_recipes.audio.corpus import CorpusSettings, write_corpus  # noqa: E402
from tpulab_recipes.common.errors import ConfigError  # noqa: E402
from tpulab_recipes.dia.__main__ import main  # noqa: E402
from tpulab_recipes.dia.config import FULL_SIZE, Config, read_train_config  # noqa: E402
from tpulab_recipes.dia.model import tiny_model  # noqa: E402
from tpulab_recipes.runtime.selection import make  # noqa: E402


@pytest.fixture(autouse=True)
def _on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process chooses its backend once; here other files have theirs."""
    monkeypatch.setattr(runtime, "use", lambda *_args, **_options: make("cpu", "cpu"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("corpus")
    write_corpus(place, CorpusSettings(count=6, sample_rate=44_100, hop=512))
    return place


def _result(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return dict(json.loads(capsys.readouterr().out.splitlines()[-1]))


def _train_file(place: Path, **sections: Any) -> str:
    (place / "model.json").write_text(json.dumps({"data": {"audio_length": 300, "text_length": 100}}))
    file = place / "train.json"
    file.write_text(
        json.dumps(
            {
                "experiment_id": "x",
                "preset": "small",
                "data": {"audio_folder": "sounds", "config": "model.json"},
                "training": {"batch_size": 2, "epochs": 2, "learning_rate": 1e-3, "unconditional_frac": 0.2},
                "output": {"output_dir": "out", "run_name": "one", "save_every": 1},
                "eval": {"eval_step": 5},
                "flags": {"scratch": True},
            }
            | sections
        )
    )
    return str(file)


def test_the_original_s_command_trains_and_transformers_loads_the_result(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    command = ["finetune", "--train_config", _train_file(tmp_path), "--audio_folder", str(corpus)]
    command += ["--output_dir", str(out), "--epochs", "1"]
    assert main(command) == 0
    first = _result(capsys)
    assert (first["steps"], first["epochs"], first["left_out"]) == (2, 1, 0), "a flag wins over the file"
    figures = [json.loads(line) for line in (out / "logs/metrics.jsonl").read_text().splitlines()]
    assert {"step", "loss", "learning_rate", "epoch"} <= figures[0].keys()
    assert main(command) == 0, "the same command goes on: nothing is left to do"
    assert _result(capsys)["steps"] == 2
    plain = transformers.DiaForConditionalGeneration.from_pretrained(out / "model")
    ours = torch.load(sorted(out.glob("step-*.pt"))[-1], weights_only=True)["model"]
    assert all(torch.equal(value, ours[name]) for name, value in plain.state_dict().items())

    assert (
        main(
            [
                "evaluate",
                "--model",
                str(out / "model"),
                "--audio-folder",
                str(corpus),
                "--audio-length",
                "384",
            ]
        )
        == 0
    )
    assert _result(capsys)["clips"] == 6
    exported = tmp_path / "again"
    assert main(["export", "--checkpoints", str(out), "--output", str(exported)]) == 0
    again = transformers.DiaForConditionalGeneration.from_pretrained(exported)
    assert all(torch.equal(value, ours[name]) for name, value in again.state_dict().items())


def test_speaks_into_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wav = tmp_path / "a.wav"
    assert main(["generate", "--text", "[S1] Hi.", "--output", str(wav), "--max-tokens", "40"]) == 0
    assert wav.stat().st_size > 1000
    assert _result(capsys)["seconds"] > 0
    two = ["[S1] Hi.", "[S2] " + "A long text. " * 20]
    several = [
        "generate",
        "--text",
        *two,
        "--output",
        str(wav),
        "--max-tokens",
        "40",
        "--precision",
        "bfloat16",
    ]
    assert main(several) == 0
    result = _result(capsys)
    assert result["wav"] == [str(tmp_path / f"a_{number}.wav") for number in (1, 2)]
    assert all(Path(file).stat().st_size > 1000 for file in result["wav"])
    assert main(["generate", "--text", "x", "--prompt", str(wav)]) == 1
    assert "prompt_text: Give the words of the prompt" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trainig": {}}, r"there is no such key; did you mean 'training'\?"),
        ({"training": {"batchsize": 2}}, r"did you mean 'batch_size'\?"),
        ({"training": 3}, "it must be an object"),
        ({"data": {"config": "nowhere.json"}}, r"nowhere\.json cannot be read as JSON"),
        ({"training": {"batch_size": "two"}}, r"train\.json: training\.batch_size: must be int, not 'two'"),
        ({"training": {"epochs": True}}, "training.epochs: must be int, not True"),
        ({"training": {"epochs": None}}, "training.epochs: must be int, not None"),
        ({"training": {"batch_size": 2.5}}, "training.batch_size: must be int"),
        ({"training": {"warmup_steps": math.inf}}, "training.warmup_steps: must be int"),
        (
            {"training": {"learning_rate": math.inf}},
            r"train\.json: learning_rate: inf is not a number above 0",
        ),
        ({"training": {"weight_decay": math.nan}}, r"train\.json: weight_decay: nan is not a number from 0"),
        ({"data": {"config": 5}}, "config: must be str"),
        ({"data": {"audio_folder": ["a"]}}, "audio_folder: must be str"),
        ({"output": {"output_dir": 5}}, "output_dir: must be str"),
        ({"output": {"save_every": "often"}}, "save_every: must be int"),
        ({"eval": {"demo_every": math.inf}}, "demo_every: must be int"),
        ({"flags": {"scratch": "no"}}, "scratch: must be bool"),
    ],
)
def test_training_files_that_cannot_be_used(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_train_config(_train_file(tmp_path, **change), Config())


def test_a_training_file_has_lengths_places_and_keys_without_effect(tmp_path: Path) -> None:
    config, places, idle = read_train_config(_train_file(tmp_path), FULL_SIZE)
    assert (config.audio_length, config.text_length, config.batch_size, config.model) == (384, 128, 2, "")
    assert (places.data, places.output, places.save_every) == ("sounds", "out/one", 1)
    assert idle == ("eval.eval_step",)


def test_another_number_of_devices_is_refused(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["finetune", "--audio-folder", str(corpus), "--output-dir", "x", "--num_cores", "8"]
    command += ["--preset", "small"]
    assert main(command) == 1
    assert "num_cores: 8 devices requested, XLA has 1" in capsys.readouterr().err
    assert main(["finetune", "--preset", "small"]) == 1
    assert "Give --audio-folder and --output-dir" in capsys.readouterr().err


def test_the_rest_is_encoded_and_left_out_clips_are_counted_each_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case D11: nothing more was encoded as soon as one clip was."""
    place = dia_folder(tmp_path / "dia", {f"clip{n}": "[S1] Hello." for n in range(8)} | {"long": "x" * 200})
    command = ["finetune", "--audio-folder", str(place), "--output-dir", str(tmp_path / "a"), "--epochs", "1"]
    command += ["--preset", "small"]
    assert main(command) == 0
    for file in sorted((place / "encoded_audio").glob("*.pt"))[3:]:
        file.unlink()
    capsys.readouterr()
    again = tmp_path / "b"
    assert main([*command[:4], str(again), *command[5:]]) == 0
    shown = capsys.readouterr()
    assert "7 clips to train on, 1 held out" in shown.out
    assert "a tiny random model for trials" in shown.out
    assert f"{place}, 7 clips (1 left out)" in shown.out
    result = json.loads(shown.out.splitlines()[-1])
    assert (result["left_out"], result["steps"]) == (1, 3)
    assert "shortened to 0; give --warmup-steps, or more --epochs" in shown.err
    # Corrected: the run goes on, and says that its data are others.
    (place / "audio_prompts/clip0_prompt.txt").write_text("[S1] Another text.")
    assert main([*command[:4], str(again), "--epochs", "2", "--preset", "small"]) == 0
    shown = capsys.readouterr()
    assert "resuming after step 3" in shown.out
    assert "the data have changed since that checkpoint" in shown.err


def test_encoding_in_place_adds_one_folder_and_counts_reasons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cases R1 and D07: the names of what was left out lay beside the sound."""
    place = dia_folder(tmp_path / "dia", {"good": "[S1] Hello.", "one": b"[S1] caf\xe9", "two": b"\xe9"})
    for name in ("page", "other"):
        (place / f"audio/{name}.wav").write_bytes(b"<html>not found")
        (place / f"audio_prompts/{name}_prompt.txt").write_text("[S1] Hello.")
    assert main(["encode", "--audio-folder", str(place)]) == 0
    shown = capsys.readouterr().out
    assert sorted(each.name for each in place.iterdir()) == ["audio", "audio_prompts", "encoded_audio"]
    assert len((place / "encoded_audio/left_out.txt").read_text().splitlines()) == 4
    assert re.search(r"\n +2  … is an HTML page", shown)
    assert re.search(r"\n +2  … line N: byte N is not UTF-8 \(its bytes fit cp1252\)", shown)


def test_the_rate_comes_from_the_flag_then_the_file_then_the_preset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case R5: a flag with the preset's own value lost against the file."""
    place = dia_folder(tmp_path / "dia", {f"clip{n}": "[S1] Hello." for n in range(4)})
    file = tmp_path / "one.json"
    file.write_text(json.dumps({"preset": "small", "training": {"epochs": 1, "learning_rate": 1e-3}}))
    for number, (flags, epochs) in enumerate(((["--epochs=4"], 4), (["--epochs", "3"], 3), ([], 1))):
        command = ["finetune", "--train-config", str(file), "--audio-folder", str(place)]
        assert main([*command, "--output-dir", str(tmp_path / str(number)), *flags]) == 0
        shown = capsys.readouterr().out
        assert json.loads(shown.splitlines()[-1])["epochs"] == epochs
        of_file = "learning_rate" if flags else "epochs, learning_rate"
        typed = "epochs" if flags else "none"
        assert f"settings of the file: {of_file}; of flags: {typed}" in shown.replace(
            "learning_rate, epochs", "epochs, learning_rate"
        )


def test_outputs_in_a_bucket_are_in_the_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case R4: they were in a local folder of its name."""
    import fsspec

    place = dia_folder(tmp_path / "dia", {f"clip{n}": "[S1] Hello." for n in range(4)})
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    command = [
        "finetune",
        "--audio-folder",
        str(place),
        "--output-dir",
        "memory://dia/run",
        "--epochs",
        "1",
        "--preset",
        "small",
    ]
    assert main(command) == 0
    files = {name.rsplit("/run/", 1)[1] for name in fsspec.filesystem("memory").find("/dia/run")}
    assert {"step-00000001.pt", "logs/metrics.jsonl", "model/model.safetensors", "model/config.json"} <= files
    assert list(work.iterdir()) == []


def test_invalid_values_are_refused_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case D09."""
    place = dia_folder(tmp_path / "dia", {"one": "[S1] Hello."})
    command = ["finetune", "--audio-folder", str(place), "--output-dir", str(tmp_path / "run")]
    command += ["--preset", "small"]
    for flags, printed in (
        (["--held-out", "nan"], "held_out: nan is not from 0 to below 1; give --held-out"),
        (["--held-out", "-0.5"], "held_out: -0.5 is not"),
        (["--held-out", "2"], "held_out: 2.0 is not"),
        (["--log-every", "0"], "log_every: 0 is not possible; give --log-every at least 1"),
        (["--save-minutes", "nan"], "save_minutes: nan is not a number"),
        (["--learning-rate", "nan"], "learning_rate: nan is not a number above 0"),
    ):
        assert main([*command, *flags]) == 1
        assert printed in capsys.readouterr().err
    assert sorted(each.name for each in place.iterdir()) == ["audio", "audio_prompts"]
    assert main(command) == 1
    assert "of 1 clip(s) none is left to train on, 1 held out; add some, or give --held-out 0" in (
        capsys.readouterr().err
    )


def test_v0_1_is_refused_at_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It was trained, and then could not be written in any form."""
    from tpulab_recipes.dia import model as models

    place = dia_folder(tmp_path / "dia", {"one": "[S1] Hello."})
    loaded = tiny_model()
    loaded.set_attn_implementation(models._STATIC["v0.1"])
    command = ["--audio-folder", str(place), "--output-dir", str(tmp_path / "run")]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(models, "load_model", lambda *_: loaded)
        assert main(["finetune", *command, "--preset", "small"]) == 1
    assert "finetune: this model has the rule v0.1" in capsys.readouterr().err
    assert sorted(each.name for each in place.iterdir()) == ["audio", "audio_prompts"]


def test_the_seed_s_command_means_the_full_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It trained a tiny random model, and no line said so."""
    import runpy
    import sys

    recipes = Path(__file__).parents[2]
    requested: list[str] = []

    def load_model(place: str, _rule: str = "") -> Any:
        requested.append(place)
        raise ConfigError("model", "stop here")

    monkeypatch.setattr("tpulab_recipes.dia.model.load_model", load_model)
    monkeypatch.chdir(recipes)
    command = "dia_tpu/finetune.py --train_config configs/train/default.json --audio_folder x"
    monkeypatch.setattr(sys, "argv", [*command.split(), "--output_dir", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(recipes / "dia_tpu/finetune.py"), run_name="__main__")
    assert ended.value.code == 1
    assert requested == ["nari-labs/Dia-1.6B-0626"]
    assert "model: stop here" in capsys.readouterr().err
    plain = ["finetune", *command.split()[1:], "--output_dir", str(tmp_path / "out"), "--preset", "small"]
    assert main(plain) == 1
    assert requested[1:] == [""], "a toy by name"


def test_a_toy_is_trained_only_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a preset one was trained, and its voice is noise."""
    place = dia_folder(tmp_path / "dia", {"one": "[S1] Hello."})
    monkeypatch.setattr("tpulab_recipes.dia.model.load_model", lambda *_: pytest.fail("a model was made"))
    command = ["finetune", "--audio-folder", str(place), "--output-dir", str(tmp_path / "run")]
    scratch = tmp_path / "scratch.json"
    scratch.write_text(json.dumps({"preset": "full-size", "flags": {"scratch": True}}))
    for flags in ([], ["--batch-size", "4"], ["--train-config", str(scratch)]):
        assert main([*command, *flags]) == 1
        refused = capsys.readouterr().err
        assert all(f"--preset {name}" in refused for name in ("full-size", "small"))
    assert sorted(each.name for each in place.iterdir()) == ["audio", "audio_prompts"]


def test_a_training_file_s_demos_are_spoken_while_it_trains(tmp_path: Path) -> None:
    """`eval.demo_every` was accepted and did nothing."""
    place = dia_folder(tmp_path / "dia", {f"clip{n}": "[S1] Hello." for n in range(9)})
    file = tmp_path / "one.json"
    file.write_text(json.dumps({"preset": "small", "eval": {"demo_every": 1}, "training": {"epochs": 1}}))
    command = ["finetune", "--train-config", str(file), "--audio-folder", str(place)]
    assert main([*command, "--output-dir", str(tmp_path / "out"), "--batch-size", "4"]) == 0
    spoken = sorted((tmp_path / "out/samples").glob("*.wav"))
    assert len(spoken) == 2
    assert all(each.stat().st_size > 1000 for each in spoken)
