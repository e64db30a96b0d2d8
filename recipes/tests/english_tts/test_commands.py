"""The commands from prepared data to sound; figures in three places with equal keys."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

pytest.importorskip("tyro")
pytest.importorskip("torch")

import torch
from common.test_log_writers import records
from safetensors.torch import load_file
from tpulab_recipes.english_tts.__main__ import COMMANDS, main
from tpulab_recipes.runtime import selection

_SIZES = (
    "--hidden-dim 16 --n-heads 2 --n-encoder-layers 1 --n-decoder-layers 1 --encoder-ff-dim 16"
    " --decoder-ff-dim 16 --postnet-dim 8 --corpus-count 8 --batch-size 4 --frame-buckets 160"
    " --num-epochs 1 --log-interval 1 --validation-split 0.25 --num-workers 0 --backend cpu"
)


@pytest.fixture(scope="module", autouse=True)
def own_backend() -> Any:
    """Commands choose the backend of the process."""
    before, selection._current = selection._current, None
    yield
    selection._current = before


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("voice")


def _run(
    capsys: pytest.CaptureFixture[str], command: str, folder: Path, *more: str, progress: str = ""
) -> dict[str, Any]:
    status = main([command, *_SIZES.split(), "--output-dir", str(folder), *more])
    shown = capsys.readouterr()
    assert status == 0, shown.err
    assert progress in shown.err
    return dict(json.loads(shown.out.splitlines()[-1]))


def _in_tensorboard(folder: Path) -> dict[int, set[str]]:
    from tensorboardX.proto.event_pb2 import Event

    found: dict[int, set[str]] = {}
    (file,) = folder.glob("events.*")
    for event in map(Event.FromString, records(file)):
        for value in event.summary.value:
            found.setdefault(event.step, set()).add(value.tag)
    return found


def test_from_prepare_to_speech(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    prepared = _run(capsys, "prepare", folder, progress="preparing: 8 of 8 (100%)")
    assert prepared["utterances"] == 8
    logged: list[dict[str, float]] = []
    write = wandb.sdk.wandb_run.Run.log
    monkeypatch.setattr(
        wandb.sdk.wandb_run.Run,
        "log",
        lambda run, values, **where: (logged.append(values), write(run, values, **where))[1],
    )
    logs = ("--use-wandb", "--use-tensorboard", "--enable-interbatch-profiling", "--sample-every", "1")
    vocoder = ("--vocoder-size=small", "--vocoder-steps=2", "--vocoder-batch-size=2", "--vocoder-frames=8")
    trained = _run(capsys, "train", folder, *logs, *vocoder, progress="training: 2 of 2 (100%)")
    assert (trained["steps"], trained["epochs"]) == (2, 1)
    assert len(list((folder / "samples").glob("000001_*.wav"))) == 2
    best = next((folder / "best").glob("step-*.pt"))
    held = torch.load(best, weights_only=True)["model_state_dict"]
    exported = load_file(folder / "model/model.safetensors")
    assert all(torch.equal(value, held[name]) for name, value in exported.items())
    rows = [json.loads(line) for line in (folder / "logs" / "metrics.jsonl").read_text().splitlines()]
    batch = {f"train/batch_{name}_loss" for name in ("total", "mel", "duration", "stop")}
    batch |= {
        "train/learning_rate",
        "train/grad_scale",
        "epoch",
        "train/samples_per_second",
        "memory/pressure",
    }
    batch |= {"memory/cleanup_count", "memory/cleanup_overhead_percent"}
    assert batch <= rows[0].keys()
    assert {"train/epoch_total_loss", "val/total_loss"} <= rows[-1].keys()
    assert [row.keys() - {"step", "time"} for row in rows] == [each.keys() for each in logged]
    by_step: dict[int, set[str]] = {}
    for row in rows:
        by_step.setdefault(row["step"], set()).update(row.keys() - {"step", "time"})
    assert _in_tensorboard(folder / "logs") == by_step
    assert list((folder / "logs").glob("wandb/offline-run-*"))

    # Resumed at the end: nothing is left to do.
    assert _run(capsys, "train", folder, "--resume", "auto")["steps"] == 2
    found = _run(capsys, "validate", folder)
    assert found["total"] == pytest.approx(trained["validation_loss"], rel=1e-5)
    exported = _run(capsys, "export", folder, "--to", str(folder / "voice"), *vocoder)
    assert sorted(each.name for each in Path(exported["exported"]).iterdir()) == [
        "config.json",
        "model.safetensors",
        "phonemes.json",
        "vocoder.safetensors",
    ]
    output = (
        "--text",
        "The red bird.",
        "--model",
        str(folder / "voice"),
        "--output",
        str(folder / "said.wav"),
    )
    spoken = _run(capsys, "speak", folder, *output)
    info = soundfile.info(folder / "said.wav")
    assert (info.samplerate, info.frames) == (16_000, 320 * spoken["frames"])
    by_the_vocoder = soundfile.read(folder / "said.wav")[0]
    _run(capsys, "speak", folder, *output, "--vocoder", "griffin-lim")
    assert not np.allclose(soundfile.read(folder / "said.wav")[0], by_the_vocoder, atol=1e-3)
    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*")}
    rounds = ("--rounds", "1", "--no-mixed-precision")
    profiled = _run(capsys, "profile", folder, *rounds, progress="profiling: 4 of 4 (100%)")
    assert profiled["total_batch_count"] == 2
    assert min(profiled["step_ms"], profiled["forward_ms"]) > 0
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("*")} == before


def test_an_invalid_request_gets_a_one_sentence_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["speak", "--text", "你好。", "--backend", "cpu", "--model", str(folder / "voice")]) == 1
    assert "'你好。' has no words" in capsys.readouterr().err
    assert main(["validate", "--backend", "cpu", "--output-dir", str(folder / "nothing")]) == 1
    assert "english_tts prepare --data-dir YOUR_DATA --output-dir" in capsys.readouterr().err
    assert os.environ.get("PJRT_DEVICE")


def test_each_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    names = [command.__name__.lower() for command in COMMANDS]
    assert names == ["prepare", "train", "validate", "speak", "export", "profile"]
    for name in names:
        with pytest.raises(SystemExit) as ended:
            main([name, "--help"])
        assert ended.value.code == 0
        shown = capsys.readouterr().out
        assert "--output-dir" in shown
        assert f"english_tts {name}" in shown
