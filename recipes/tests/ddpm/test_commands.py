"""The commands one after the other, as people type them, in separate processes."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ddpm.tiny import SHALLOW, TRAINING, flags
from tpulab_recipes.common.log_writers import read_json_lines
from tpulab_recipes.common.settings import to_dict
from tpulab_recipes.ddpm.__main__ import main
from tpulab_recipes.ddpm.commands import Train, WithEncoders, read
from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.presets import LAION256, PRESETS, SMALL

#: A command that imports JAX and compiles, on a machine that may be busy.
DEADLINE_S = 900
#: The program of `tiny.shallow_config`, which other tests have compiled already.
NETWORK = flags(SHALLOW | TRAINING | {"train.save_freq": 4, "dataset.args.image_format": "png"})


def run(*arguments: str | Path) -> dict[str, object]:
    """Runs a command in a separate process and returns the JSON that it ends with."""
    done = subprocess.run(
        [sys.executable, "-m", "tpulab_recipes.ddpm", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_weights_and_biases_without_its_package_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the command for this Python: the environment of JAX does not have it."""
    monkeypatch.setitem(sys.modules, "wandb", None)  # as if it were not installed
    train = ["train", "--preset", "small", "--global_dir", str(tmp_path), "--wandb-project", "p"]
    assert main(train) == 1
    printed = capsys.readouterr().err
    (command,) = re.findall("install it with `(.*)`", printed)
    assert shlex.split(command) == [sys.executable, "-m", "pip", "install", "wandb"]
    assert "Traceback" not in printed
    assert not list(tmp_path.glob("checkpoints*"))


def test_from_shapes_to_pictures_with_a_kill_in_between(tmp_path: Path) -> None:
    images, data, out = tmp_path / "images", tmp_path / "data", tmp_path / "run"
    assert main(["shapes", "--write_dir", str(images), "--count", "64"]) == 0
    encode = ["encode", "--preset", "small", *NETWORK, "--data_dir", str(images), "--write_dir", str(data)]
    assert main([*encode, "--quiet"]) == 0
    train = ["train", "--preset", "small", *NETWORK, "--global_dir", str(out), str(data)]

    # Killed without warning as soon as there is a checkpoint: the same command resumes.
    output = tmp_path / "said"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "tpulab_recipes.ddpm", *train, "--steps", "100000"],
            stdout=file,
            stderr=file,
        )
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not (out / "checkpoints_recent" / "4").exists():
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    saved = max(int(name) for name in os.listdir(out / "checkpoints_recent") if name.isdigit())
    done = run(*train, "--steps", str(saved + 4), "--tensorboard")
    assert done["step"] == saved + 4
    rows = read_json_lines(str(out / "logs"))
    assert [row["step"] for row in rows] == list(range(2, saved + 5, 2))
    always = {"step", "time", "loss", "gnorm", "learning_rate", "skipped", "images_per_second"}
    # XLA:CPU has no peak of which there could be a share.
    assert set(rows[0]) == always | {"tflop_per_second"}
    assert list((out / "logs").glob("events.out.tfevents*"))
    assert json.loads((out / "config.json").read_text())["train"]["batch_size"] == 8

    pictures = tmp_path / "pictures"
    checkpoints = str(out / "checkpoints_recent")
    prompt = "a large red circle; a small blue cross;"
    options = ["--prompt", prompt, "--num_steps", "2", "--npz", "--guidance_scale", "2", "--quiet"]
    assert main(["evaluate", "--checkpoint_dir", checkpoints, "--save_dir", str(pictures), *options]) == 0
    assert json.loads((pictures / "prompts.json").read_text()) == ["a large red circle", "a small blue cross"]
    assert (pictures / "grid.png").read_bytes().startswith(b"\x89PNG")
    assert np.load(pictures / "images.npz")["images"].shape == (2, 16, 16, 3)

    exported = tmp_path / "exported"
    assert main(["export", "--checkpoint_dir", checkpoints, "--write_dir", str(exported)]) == 0
    assert json.loads((exported / "model_index.json").read_text())["unet"] == ["torch_unet", "UNet"]
    assert (exported / "unet" / "diffusion_pytorch_model.safetensors").exists()


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["train", "--config", "smal", "--global_dir", "X"], "no preset of that name"),
        (["train", "--global_dir", "X", "X/none"], "X/none does not exist"),
        (["encode", "--preset", "small", "--data_dir", "X/none", "--write_dir", "X"], "does not exist"),
        (
            ["encode", "--preset", "small", "--data_dir", "X", "--write_dir", "X"],
            "is the folder that is read",
        ),
        (
            ["download", "--data_dir", "X/none", "--write_dir", "X/out", "--downloader", "own"],
            "does not exist",
        ),
        (["evaluate", "--checkpoint_dir", "X/none", "--save_dir", "X"], "has no checkpoint"),
        (["benchmark", "--configs", "small", "--compile_for", "v99"], "none of v4, v5e, v5p, v6e"),
        (["train", "--coordinator", "x:1", "--global_dir", "X"], "--num-processes"),
        (["train", "--train.ema-decay", "1.5", "--global_dir", "X"], "must be in [0, 1)"),
        (["train", "--global_dir", "X", "Y", "Z"], "takes one folder"),
    ],
)
def test_mistakes_get_a_one_sentence_error(
    arguments: list[str],
    output: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "X").mkdir()
    assert main([*arguments, "--quiet"]) == 1
    error = capsys.readouterr().err
    assert output in error
    assert len(error.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["train", "--train.bath-size", "3", "--global-dir", "X"], "--train.batch-size INT"),
        (["train", "--train.batch-size", "many", "--global-dir", "X"], "many"),
        (["train", "--model.mean-type", "velocity", "--global-dir", "X"], "velocity"),
        (["train"], "--global-dir"),
        (["encode", "--data-dir", "X", "--write-dir", "X"], "--preset"),
        (["evaluate", "--save-dir", "X"], "--checkpoint-dir"),
        (["evaluat"], "evaluate"),
    ],
)
def test_flags_that_make_no_sense_are_explained_and_end_with_two(
    arguments: list[str], output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert output in " ".join(shown.err.replace("│", " ").split())


@pytest.mark.parametrize("command", ["encode", "train", "evaluate", "distill", "export"])
def test_help_names_every_setting(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([command, "--help"])
    assert left.value.code == 0
    text = capsys.readouterr().out
    names = flags_of(to_dict(Config()))
    assert len(names) > 80
    assert [name for name in names if f"{name} " not in text and f"{name}," not in text] == []


def flags_of(settings: dict[str, Any], group: str = "") -> list[str]:
    found: list[str] = []
    for key, value in settings.items():
        name = group + key.replace("_", "-")
        found += flags_of(value, f"{name}.") if isinstance(value, dict) else [f"--{name}"]
    return found


def test_a_flag_changes_one_setting_of_its_preset_or_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('preset = "laion256"\n[train]\nbatch_size = 16\n')

    def train(*arguments: str) -> Config:
        command = read(["train", "--global-dir", "X", *arguments])
        assert isinstance(command, Train)
        return command.config

    assert train() == SMALL
    assert train("--seed", "3") == replace(SMALL, seed=3)
    assert train("--seed=3", "--preset=cifar10") == replace(PRESETS["cifar10"], seed=3)
    mine = LAION256.but({"train.batch_size": 16, "model.args.ch_mult": [1, 2, 3], "sampler": "ancestral"})
    # As the origin writes its flags.
    requested = ["--config", str(file), "--model.args.ch_mult", "1", "2", "3", "--sampler", "ancestral"]
    assert train(*requested) == mine


def test_a_bucket_that_cannot_be_reached_states_what_is_needed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)  # as if it were not installed
    assert (
        main(["encode", "--preset", "small", "--data_dir", "gs://b/x", "--write_dir", "gs://b/y", "--quiet"])
        == 1
    )
    assert "gcsfs" in capsys.readouterr().err


def test_a_token_is_put_where_hugging_face_looks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "old")
    for more, expected in (([], "old"), (["--auth_token", "new"], "new")):
        command = read(["encode", "--preset", "small", "--data_dir", "X", "--write_dir", "X", *more])
        assert isinstance(command, WithEncoders)
        command.sign_in()
        assert os.environ["HF_TOKEN"] == expected


@pytest.mark.parametrize("flag", ["--num-images", "--max-batch-size", "--num-steps", "--save-images"])
def test_counts_below_one_are_refused(flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = ["--checkpoint-dir", str(tmp_path), "--save-dir", str(tmp_path / "pictures")]
    assert main(["evaluate", *folders, "--prompt", "red", flag, "0"]) == 1
    assert capsys.readouterr().err == f"{flag}: must be at least 1, not 0.\n"
