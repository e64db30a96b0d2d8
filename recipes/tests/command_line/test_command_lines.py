"""The recipes' command lines, on plain PyTorch: what they print, what they refuse, and resuming from a
checkpoint."""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from tpulab_recipes.common.command_line import read_command

RECIPES = ("fashion_mnist", "resnet_profiling", "intents")


def main(recipe: str, *argv: str) -> int:
    code: int = importlib.import_module(f"tpulab_recipes.{recipe}.__main__").main(["--backend", "cpu", *argv])
    return code


@pytest.mark.parametrize("recipe", RECIPES)
def test_help_names_every_setting_with_its_default(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(recipe, "--help")
    assert left.value.code == 0
    text = capsys.readouterr().out
    config = importlib.import_module(f"tpulab_recipes.{recipe}.config").Config
    for name in config.__dataclass_fields__:
        assert f"--{name.replace('_', '-')}" in text


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(
    ("flags", "output"),
    [
        (("--batch-size", "0"), "at least 1"),
        (("--batch-siz", "8"), "--batch-size INT"),
        (("--batch-size", "many"), "many"),
        (("--preset", "huge"), "huge"),
    ],
)
def test_a_flag_that_makes_no_sense_is_explained_and_ends_with_two(
    recipe: str, flags: tuple[str, str], output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(recipe, *flags)
    assert left.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert output in " ".join(shown.err.replace("│", " ").split())


def read(*argv: str) -> Any:
    from tpulab_recipes.resnet_profiling.__main__ import Train
    from tpulab_recipes.resnet_profiling.config import FULL_SIZE, Config

    return read_command(Train, "resnet_profiling", {"small": Config(), "full-size": FULL_SIZE}, argv)


def test_a_flag_changes_one_setting_of_its_preset() -> None:
    from tpulab_recipes.resnet_profiling.config import FULL_SIZE, Config

    assert read().config == Config()
    assert read("--seed", "3").config == Config(seed=3)
    assert read("--preset", "full-size", "--seed", "3").config == FULL_SIZE.but(seed=3)
    assert read("--seed=3", "--preset=full-size").config == FULL_SIZE.but(seed=3)


def test_flags_may_be_written_with_underscores_as_the_originals_have_them() -> None:
    assert read("--batch_size", "7").config.batch_size == 7


@pytest.mark.parametrize("recipe", ["ddpm", "dia", "english_tts", "gpt_sovits"])
def test_an_interrupt_while_a_command_imports_its_framework_ends_it_in_one_sentence(
    recipe: str, tmp_path: Path
) -> None:
    (tmp_path / "tyro.py").write_text("raise KeyboardInterrupt")
    places = [str(tmp_path), *sys.path]
    ended = subprocess.run(
        [sys.executable, "-m", f"tpulab_recipes.{recipe}", "--help"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == -signal.SIGINT
    assert ended.stderr == "\nInterrupted; run the same command again to resume.\n"


def test_a_missing_chip_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("resnet_profiling", "--platform", "tpu") == 2
    assert "TPU" in capsys.readouterr().err


def test_missing_data_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main("fashion_mnist", "--data", str(tmp_path)) == 2
    assert "four files" in capsys.readouterr().err
    assert main("intents", "--data", str(tmp_path)) == 2
    assert "train.csv" in capsys.readouterr().err


def test_resnet_trains_and_reports_its_speed(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main("resnet_profiling", "--steps", "4", "--batch-size", "4", "--width", "0.125", "--log-every", "2")
        == 0
    )
    described, *lines, last = capsys.readouterr().out.splitlines()
    result = json.loads(last)
    assert (result["steps"], result["device"]) == (4, described)
    assert set(result) == {"device", "peak_memory_bytes", "steps", "loss", "images_per_second"}
    assert "without XLA" in described
    assert [re.sub(r"[\d.]+ images", "N images", line.split(":")[0]) for line in lines] == [
        "step 2",
        "step 4",
    ]


def test_alexnet_trains_and_continues_after_its_last_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tpulab_recipes.fashion_mnist import data
    from tpulab_recipes.fashion_mnist.data import synthetic_folder

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    images = synthetic_folder(train=32, test=16)
    assert data.load(images, "train").labels.shape == (32,)
    settings = (
        "--data",
        images,
        "--width",
        "0.125",
        "--batch-size",
        "16",
        "--checkpoints",
        str(tmp_path / "c"),
    )
    assert main("fashion_mnist", *settings, "--epochs", "1") == 0
    assert "epoch 1: loss" in capsys.readouterr().out
    assert main("fashion_mnist", *settings, "--epochs", "2") == 0
    text = capsys.readouterr().out
    assert "resuming after epoch 1" in text
    assert "epoch 1:" not in text
    result = json.loads(text.splitlines()[-1])
    assert set(result) == {"device", "peak_memory_bytes", "epochs", "loss", "accuracy", "step_ms"}
    assert result["epochs"] == 2
    assert re.search(r"epoch 2: loss [\d.]+, accuracy [\d.]+%, \d+ ms a step", text)


def test_bert_trains_and_continues_after_its_last_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("transformers")
    settings = ("--layers", "1", "--hidden", "16", "--batch-size", "225", "--checkpoints", str(tmp_path))
    assert main("intents", *settings, "--epochs", "1") == 0
    assert re.search(r"epoch 1: loss [\d.]+, weighted F1 [\d.]+", capsys.readouterr().out)
    assert main("intents", *settings, "--epochs", "1") == 0
    *_, going_on, nothing_left, last = capsys.readouterr().out.splitlines()
    assert going_on == "resuming after step 8"
    assert nothing_left.endswith("is at the last step: nothing is left to train.")
    assert json.loads(last)["steps"] == 8


def test_a_step_is_exported_by_torch_xla_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "step.zip"
    assert main("resnet_profiling", "--batch-size", "4", "--width", "0.125", "--export", str(file)) == 2
    assert "torch_xla" in capsys.readouterr().err
    assert not file.exists()


@pytest.mark.parametrize("recipe", ["fashion_mnist", "resnet_profiling", "intents", "audio"])
@pytest.mark.parametrize("seed", ["-1", "4294967296", str(10**40)])
def test_a_seed_that_a_framework_refuses_is_refused_at_once(
    recipe: str, seed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(f"tpulab_recipes.{recipe}.__main__")
    with pytest.raises(SystemExit) as left:
        module.main(["folder", "--seed", seed] if recipe == "audio" else ["--seed", seed])
    assert left.value.code == 2
    assert f"--seed must be from 0 to 4294967295, not {seed}." in capsys.readouterr().err


def test_seeds_of_subcommands_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    dia, gpt_sovits = (
        importlib.import_module(f"tpulab_recipes.{recipe}.__main__") for recipe in ("dia", "gpt_sovits")
    )
    with pytest.raises(SystemExit):
        dia.main(["finetune", "--seed", "-1"])
    assert "seed must be from 0 to 4294967295, not -1." in capsys.readouterr().err
    assert gpt_sovits.main(["train-s1", "--exp-dir", "d", "--seed", "-1"]) == 1
    assert "seed: -1 is not possible; give --seed at least 0." in capsys.readouterr().err


def test_nan_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main("fashion_mnist", "--learning-rate", "nan")
    assert "--learning-rate must be a number, not nan." in capsys.readouterr().err
