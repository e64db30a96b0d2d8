"""A run that resumes from a checkpoint equals the unbroken run, whatever interrupted it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tpulab_recipes.runtime.selection import installed_backends, make  # noqa: E402
from tpulab_recipes.torch_training import (  # noqa: E402
    CheckpointError,
    create_optimizer_state,
    load_checkpoint,
    restore,
    save_checkpoint,
    snapshot,
    use_tensor_learning_rate,
)

#: Updates of an epoch; a checkpoint after three of them is in the middle.
EPOCH = 4


@dataclass(frozen=True)
class Settings:
    seed: int = 3
    learning_rate: float = 0.05
    dropout: float = 0.5


class Loop:
    """A small training with dropout, AdamW, a scheduler, and data that is shuffled and jittered."""

    def __init__(self, backend: Any, settings: Settings) -> None:
        self.backend, self.settings, self.step = backend, settings, 0
        backend.seed(settings.seed)
        layers = (torch.nn.Linear(6, 16), torch.nn.Dropout(settings.dropout), torch.nn.Linear(16, 1))
        self.model = backend.prepare(torch.nn.Sequential(*layers))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=settings.learning_rate)
        use_tensor_learning_rate(backend, self.optimizer)
        create_optimizer_state(self.optimizer)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)
        backend.sync()

    def parts(self) -> dict[str, Any]:
        return {"model": self.model, "optimizer": self.optimizer, "scheduler": self.scheduler}

    def save(self, folder: Path) -> None:
        state = snapshot(self.backend, **self.parts(), step=self.step, config=self.settings)
        save_checkpoint(self.backend, folder, self.step, state)

    def resume(self, folder: Path) -> None:
        found = load_checkpoint(folder)
        assert found is not None
        self.step = restore(self.backend, found[1], **self.parts(), config=self.settings)

    def train(self, until: int) -> list[float]:
        losses = []
        while self.step < until:
            epoch, place = divmod(self.step, EPOCH)
            order = np.random.default_rng((self.settings.seed, epoch)).permutation(8 * EPOCH)
            rows = np.sin(np.outer(order[8 * place : 8 * place + 8], np.arange(1, 7))).astype(np.float32)
            # Augmentation draws from every generator that the host has.
            rows += np.float32(random.random() + np.random.standard_normal()) + torch.randn(8, 6).numpy()
            with self.backend.step():
                loss = self.model(self.backend.to_device(rows)).square().mean()
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=True)
            self.scheduler.step()
            self.step += 1
            losses.append(float(loss.detach()))
        return losses

    def weights(self) -> list[Any]:
        return [tensor.numpy() for tensor in self.backend.to_host(list(self.model.parameters()))]


@pytest.fixture(
    params=[name for name in ("cpu", "torch_xla") if name == "cpu" or name in installed_backends()]
)
def backend(request: pytest.FixtureRequest) -> Any:
    return make(request.param, "cpu" if request.param == "torch_xla" else None)


def test_resuming_in_the_middle_of_an_epoch_equals_the_unbroken_run(backend: Any, tmp_path: Path) -> None:
    unbroken = Loop(backend, Settings())
    expected = unbroken.train(9)
    interrupted = Loop(backend, Settings())
    interrupted.train(3)
    interrupted.save(tmp_path)
    # Taking a snapshot changes nothing of the run that takes it.
    assert interrupted.train(9) == expected[3:]
    backend.seed(99)
    resumed = Loop(backend, Settings())
    resumed.resume(tmp_path)
    assert resumed.train(9) == expected[3:]
    for one, other in zip(resumed.weights(), unbroken.weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_dropout_would_differ_without_the_random_state(backend: Any) -> None:
    """Or the test above would show nothing."""
    loop = Loop(backend, Settings())
    loop.train(3)
    state = snapshot(backend, **loop.parts(), step=3, config=loop.settings)
    expected = loop.train(5)
    other = Loop(backend, replace(Settings(), seed=4))
    restore(
        backend,
        state | {"random": snapshot(backend, **other.parts(), step=0, config=Settings())["random"]},
        **other.parts(),
        config=Settings(),
    )
    other.step, other.settings = 3, Settings()
    assert other.train(5) != expected


def test_a_checkpoint_continues_with_the_same_weights_on_another_backend(
    backend: Any, tmp_path: Path
) -> None:
    other = make({"cpu": "torch_xla"}.get(backend.name, "cpu"), None)
    begun = Loop(backend, Settings())
    begun.train(2)
    begun.save(tmp_path)
    resumed = Loop(other, Settings())
    resumed.resume(tmp_path)
    assert resumed.step == 2
    weights = [loop.backend.to_host(loop.model.state_dict()) for loop in (begun, resumed)]
    for name, tensor in weights[0].items():
        assert torch.equal(tensor, weights[1][name])
    assert all(np.isfinite(resumed.train(4)))


def test_changed_settings_are_refused_by_name(tmp_path: Path) -> None:
    backend = make("cpu", None)
    loop = Loop(backend, Settings())
    loop.save(tmp_path)
    changed = Loop(backend, replace(Settings(), learning_rate=0.1, dropout=0.1))
    with pytest.raises(CheckpointError, match=r"dropout is 0\.5 there and 0\.1 here; learning_rate is 0\.05"):
        changed.resume(tmp_path)
    _, state = load_checkpoint(tmp_path) or (0, {})
    accepted = ["dropout", "learning_rate"]
    assert restore(backend, state, **changed.parts(), config=changed.settings, may_change=accepted) == 0


KILLED = """
import os, signal, sys
sys.path[:0] = [{tests!r}]
import torch
from torch_training.test_exact_resume import Loop, Settings, make
from pathlib import Path
loop = Loop(make("cpu", None), Settings())
loop.train(3)
loop.save(Path({folder!r}))
loop.train(5)
write = torch.save
def half(state, file):
    write(state, file)
    file.truncate(file.tell() // 2)
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
torch.save = half
loop.save(Path({folder!r}))
"""


def test_a_kill_during_the_write_leaves_the_previous_checkpoint(tmp_path: Path) -> None:
    program = KILLED.format(tests=str(Path(__file__).parents[1]), folder=str(tmp_path))
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(list(tmp_path.iterdir())) == 2, "half a file lies there"
    backend = make("cpu", None)
    expected = Loop(backend, Settings()).train(6)
    resumed = Loop(backend, Settings())
    resumed.resume(tmp_path)
    assert resumed.train(6) == expected[3:]
    resumed.save(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["step-00000003.pt", "step-00000006.pt"]
