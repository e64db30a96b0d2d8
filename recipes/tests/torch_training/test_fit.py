"""The training loop: what it prints, when it saves, evaluates and samples, and how it resumes."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tpulab_recipes.common import interruption  # noqa: E402
from tpulab_recipes.common.errors import ConfigError, StorageError, TrainingDiverged  # noqa: E402
from tpulab_recipes.common.interruption import Interrupted  # noqa: E402
from tpulab_recipes.runtime import DeviceRuntimeError  # noqa: E402
from tpulab_recipes.runtime.selection import make  # noqa: E402
from tpulab_recipes.runtime.too_large import refuse_too_large  # noqa: E402
from tpulab_recipes.torch_training import Resumable, compiled_step, make_adamw, set_learning_rate  # noqa: E402
from tpulab_recipes.torch_training.checkpoint import checkpoints  # noqa: E402
from tpulab_recipes.torch_training.fit import Loop, Training, fit, require_rows  # noqa: E402
from tpulab_recipes.torch_training.learning_rate import fitting_warmup, warmup_cosine  # noqa: E402


@dataclass(frozen=True)
class _Config:
    epochs: int = 2
    seed: int = 0


class _Line(Resumable):
    """Fits a line."""

    def __init__(self, config: _Config, total: int) -> None:
        self.config, self.backend, self.total, self.steps_done, self.peak = (
            config,
            make("cpu", None),
            total,
            0,
            0.1,
        )
        torch.manual_seed(0)
        self.model = self.backend.prepare(torch.nn.Linear(2, 1))
        self.optimizer = make_adamw(self.backend, self.model, learning_rate=0.1, weight_decay=0.0)

    def before_step(self) -> None:
        self.rate = self.peak * warmup_cosine(self.steps_done, 3, self.total)
        set_learning_rate(self.backend, self.optimizer, self.rate)

    @compiled_step
    def train_step(self, batch: Any) -> Any:
        loss = (self.model(batch["x"]) - batch["y"]).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()


def _batches(first: int, total: int, *, bad: int = -1) -> Iterator[Any]:
    for number in range(first, total):
        x = np.random.default_rng(number).standard_normal((4, 2)).astype(np.float32)
        yield {"x": x, "y": x.sum(1, keepdims=True) * (math.nan if number == bad else 1)}


def _training(output: Path | str, epochs: int = 2, **changes: Any) -> Training:
    trainer = _Line(_Config(epochs), 5 * epochs)
    return Training(
        **{
            "name": "A line",
            "trainer": trainer,
            "batches": lambda first: _batches(first, 5 * epochs),
            "in_epoch": 5,
            "epochs": epochs,
            "output": str(output),
            "data": "made up; ",
            "fingerprint": "one",
            "evaluate": lambda: {"held_out_loss": 0.5},
            **changes,
        }
    )


def test_a_run_prints_what_it_trains_logs_saves_and_evaluates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samples: list[int] = []
    training = _training(tmp_path)
    training.sample = lambda: samples.append(training.trainer.steps_done) or "a sample"
    result = fit(training, Loop(save_every=4, log_every=2, sample_every=4))
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0] == "A line: 3 parameters, all trained; made up; 10 steps"
    assert "epoch 1: loss " in shown.out
    assert ", held out loss 0.500, " in shown.out
    assert "training: 10 of 10 (100%)" in shown.err
    assert "rate " in shown.err
    assert result.keys() == {"epochs", "loss", "step_ms", "held_out_loss"}
    assert samples == [4, 8, 10]
    rows = [json.loads(line) for line in (tmp_path / "logs/metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if "loss" in row] == [2, 4, 5, 6, 8, 10]
    assert [row["step"] for row in rows if "held_out_loss" in row] == [5, 10]
    assert [file.name for file in checkpoints(tmp_path)] == [f"step-{n:08d}.pt" for n in (5, 8, 10)]


def test_a_run_that_is_killed_resumes_to_the_same_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = _training(tmp_path / "whole")
    fit(whole, Loop(quiet=True))
    killed = _training(tmp_path / "killed", batches=lambda first: _interrupted(first, 7))
    with pytest.raises(KeyboardInterrupt):
        fit(killed, Loop(save_every=3, quiet=True))
    again = _training(tmp_path / "killed", fingerprint="two")
    capsys.readouterr()
    fit(again, Loop(quiet=True))
    shown = capsys.readouterr()
    assert "resuming after step 6" in shown.out
    assert "the data have changed" in shown.err
    for one, other in zip(whole.trainer.model.parameters(), again.trainer.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_checkpoint_at_or_beyond_the_last_epoch_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit(_training(tmp_path), Loop(quiet=True))
    capsys.readouterr()
    fit(_training(tmp_path), Loop(quiet=True))
    assert "is at the last step: nothing is left to train" in capsys.readouterr().out
    with pytest.raises(ConfigError, match=r"epochs: 1 are 5 steps, and the checkpoint in .* has 10"):
        fit(_training(tmp_path, epochs=1), Loop(quiet=True))


@pytest.mark.parametrize("at", [7, 10])
def test_an_interrupted_run_saves_its_step_and_resumes_to_the_same_end(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = _training(tmp_path / "whole")
    fit(whole, Loop(quiet=True))
    stopped = _training(tmp_path / "stopped")
    monkeypatch.setattr(interruption, "requested", lambda: stopped.trainer.steps_done == at)
    with pytest.raises(Interrupted, match=rf"^ after step {at}, saved in .*stopped$"):
        fit(stopped, Loop(quiet=True))
    monkeypatch.undo()
    assert checkpoints(tmp_path / "stopped")[-1].name == f"step-{at:08d}.pt"
    again = _training(tmp_path / "stopped")
    fit(again, Loop(quiet=True))
    for one, other in zip(whole.trainer.model.parameters(), again.trainer.model.parameters(), strict=True):
        assert torch.equal(one, other)


def _interrupted(first: int, at: int) -> Iterator[Any]:
    yield from _batches(first, at)
    raise KeyboardInterrupt


def test_a_checkpoint_is_written_by_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A preempted machine loses at most the last interval."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    training = _training(tmp_path, epochs=1, in_epoch=10, batches=lambda first: _batches(first, 10))
    before = training.trainer.before_step

    def before_slow_step() -> None:
        # Not while batches are read: a thread reads them ahead of the steps.
        now[0] += 60
        before()

    training.trainer.before_step = before_slow_step
    saved: list[int] = []
    state = training.trainer.state
    training.trainer.state = lambda: (saved.append(training.trainer.steps_done), state())[1]
    fit(training, Loop(save_minutes=4, quiet=True))
    assert len(saved) >= 3
    assert max(b - a for a, b in zip([0, *saved], saved, strict=False)) <= 5
    assert saved[-1] == 10


@pytest.mark.parametrize(
    "printed",
    [
        "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.11 GiB",
        "CUDA error: out of memory",
        "INTERNAL: CUDA_ERROR_OUT_OF_MEMORY",
        "MPS backend out of memory (MPS allocated: 9.06 GB)",
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4294967296 bytes",
    ],
)
def test_messages_of_other_allocators_are_recognised_too(printed: str) -> None:
    with (
        pytest.raises(DeviceRuntimeError, match=re.escape(printed.partition("\n")[0])) as found,
        refuse_too_large("A step", "Use fewer clips."),
    ):
        raise RuntimeError(printed)
    assert found.value.code == "too_large"


def test_a_step_that_the_compiler_refuses_is_named_with_its_bytes_and_a_remedy(tmp_path: Path) -> None:
    training = _training(tmp_path, remedy="Use fewer clips.")
    printed = (
        "Bad StatusOr access: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 29.30G of "
        "15.75G hbm. Exceeded hbm capacity by 13.55G.\n\nTotal hbm usage >= 29.55G:"
    )

    def refused(_: Any) -> Any:
        raise RuntimeError(printed)

    training.step = refused
    with pytest.raises(DeviceRuntimeError, match=r"Used 29\.30G of 15\.75G hbm") as found:
        fit(training, Loop(quiet=True))
    assert found.value.code == "too_large"
    assert str(found.value).endswith("Exceeded hbm capacity by 13.55G. Use fewer clips.")
    printed = "another error"
    with pytest.raises(RuntimeError, match="another error") as other:
        fit(training, Loop(quiet=True))
    assert not isinstance(other.value, DeviceRuntimeError)


def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_the_checkpoints(tmp_path: Path) -> None:
    training = _training(tmp_path, batches=lambda first: _batches(first, 10, bad=7))
    with pytest.raises(TrainingDiverged, match="not finite at step 10: lower learning_rate"):
        fit(training, Loop(quiet=True))
    assert [file.name for file in checkpoints(tmp_path)] == ["step-00000005.pt"]


def test_a_warm_up_longer_than_the_run_is_shortened_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case R6: the rate stayed near zero for the whole run."""
    assert [fitting_warmup(*each) for each in ((20, 26), (26, 26), (500, 26), (20, 5), (0, 1))] == [
        20,
        2,
        2,
        0,
        0,
    ]
    assert max(warmup_cosine(step, 500, 26) for step in range(26)) == 1
    fit(_training(tmp_path, warmup_steps=500), Loop(quiet=True))
    printed = capsys.readouterr().err
    assert (
        "warmup_steps: the warm-up of 500 steps is not shorter than the run of 10; the rate would end at 2%"
        in printed
    )
    assert "It is shortened to 1; give --warmup-steps, or more --epochs" in printed
    fit(_training(tmp_path / "b", warmup_steps=3), Loop(quiet=True))
    assert "warm-up" not in capsys.readouterr().err


def test_an_output_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file is a file, not a folder"):
        Loop().check(str(tmp_path / "file" / "run"))
    Loop().check(str(tmp_path / "new" / "run"))
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_batch_that_the_devices_cannot_share_is_refused_by_its_flag() -> None:
    class _Eight:
        @staticmethod
        def world() -> Any:
            return type("World", (), {"one_program": True, "global_devices": 8})

    with pytest.raises(ConfigError, match=r"batch_size: a batch of 12 .* 8 devices; give --batch-size 16"):
        require_rows(12, _Eight())  # type: ignore[arg-type]
    require_rows(16, _Eight())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mode", "printed"),
    [
        ("nonsense", "WANDB_MODE: 'nonsense' is none of online, offline"),
        (None, "run `wandb login`, or set WANDB_API_KEY, or set WANDB_MODE=offline"),
    ],
)
def test_weights_and_biases_without_a_key_or_in_a_bad_mode_is_refused_before_the_work(
    mode: str | None, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case D18."""
    pytest.importorskip("wandb")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    if mode:
        monkeypatch.setenv("WANDB_MODE", mode)
    with pytest.raises(ConfigError, match=printed):
        Loop(wandb_project="p").check(str(tmp_path / "run"))


def test_a_run_that_uses_one_of_eight_chips_is_reported_before_it_starts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    training = _training("", epochs=1)
    backend = training.trainer.backend
    monkeypatch.setattr(backend, "devices", lambda: [*type(backend).devices(backend)] * 8)
    fit(training, Loop(quiet=True))
    assert "note: 1 of 8 chips is used; give --spmd for all of them." in capsys.readouterr().err
