"""The commands from prepared data to sound; figures in three places with equal keys."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import soundfile

pytest.importorskip("tyro")
pytest.importorskip("torch")

from tpulab_recipes.english_tts.__main__ import main
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


def _run(capsys: pytest.CaptureFixture[str], command: str, folder: Path, *more: str) -> dict[str, Any]:
    status = main([command, *_SIZES.split(), "--output-dir", str(folder), *more])
    shown = capsys.readouterr()
    assert status == 0, shown.err
    return dict(json.loads(shown.out.splitlines()[-1]))


def test_from_prepare_to_speech(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    prepared = _run(capsys, "prepare", folder)
    assert prepared["utterances"] == 8
    logged: list[dict[str, float]] = []
    write = wandb.sdk.wandb_run.Run.log
    monkeypatch.setattr(
        wandb.sdk.wandb_run.Run,
        "log",
        lambda run, values, **where: (logged.append(values), write(run, values, **where))[1],
    )
    trained = _run(
        capsys, "train", folder, "--use-wandb", "--use-tensorboard", "--enable-interbatch-profiling"
    )
    assert (trained["steps"], trained["epochs"]) == (2, 1)
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
    assert list((folder / "logs").glob("events.*"))
    assert list((folder / "logs").glob("wandb/offline-run-*"))

    # Resumed at the end: nothing is left to do.
    assert _run(capsys, "train", folder, "--resume", "auto")["steps"] == 2
    found = _run(capsys, "validate", folder)
    assert found["total"] == pytest.approx(trained["validation_loss"], rel=1e-5)
    exported = _run(capsys, "export", folder, "--to", str(folder / "voice"))
    assert sorted(each.name for each in Path(exported["exported"]).iterdir()) == [
        "config.json",
        "model.safetensors",
        "phonemes.json",
    ]
    said = ("--text", "The red bird.", "--model", str(folder / "voice"), "--output", str(folder / "said.wav"))
    spoken = _run(capsys, "speak", folder, *said)
    info = soundfile.info(folder / "said.wav")
    assert (info.samplerate, info.frames) == (16_000, 320 * spoken["frames"])
    profiled = _run(capsys, "profile", folder, "--rounds", "1")
    assert profiled["total_batch_count"] == 2
    assert profiled["step_ms"] > profiled["forward_ms"] > 0


def test_what_is_wrong_is_one_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["speak", "--text", "A zebra.", "--backend", "cpu", "--model", str(folder / "voice")]) == 1
    assert "zebra" in capsys.readouterr().err
    assert main(["validate", "--backend", "cpu", "--output-dir", str(folder / "nothing")]) == 1
    assert "run the command prepare first" in capsys.readouterr().err
    assert os.environ.get("PJRT_DEVICE")
