"""Hugging Face's Trainer in one process to which XLA shows eight devices, as in kernels of `torch-xla`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")
pytest.importorskip("accelerate")
pytestmark = pytest.mark.long

PROGRAM = """
import torch, transformers
from torch_xla import runtime
if COUNTED:
    runtime.world_size()
from tpulab.hf import Callback

class Line(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x, labels):
        guess = x * self.weight
        return {"loss": (guess - labels).pow(2).mean(), "logits": guess}

arguments = transformers.TrainingArguments(
    output_dir="out", per_device_train_batch_size=2, max_steps=6, learning_rate=0.1, optim="adamw_torch",
    lr_scheduler_type="constant", logging_steps=2, save_strategy="no", report_to=[], disable_tqdm=True,
)
data = [{"x": torch.ones(1), "labels": torch.ones(1)} for _ in range(64)]
trainer = transformers.Trainer(
    model=Line(), args=arguments, train_dataset=data, eval_dataset=data[:4], callbacks=[Callback(log=False)]
)
trainer.train()
print("trained", arguments.device, trainer.state.global_step, float(trainer.model.weight) > 0)
"""


def run(folder: Path, *, counted: bool) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"COUNTED = {counted}\n{PROGRAM}"],
        cwd=folder,
        env={**os.environ, "PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "8"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_it_trains_on_one_of_them_when_the_world_size_was_read_first(tmp_path: Path) -> None:
    done = run(tmp_path, counted=True)
    assert "trained xla:0 6 True" in done.stdout, done.stderr[-2000:]


def test_otherwise_the_callback_raises_before_xla_would_end_the_process(tmp_path: Path) -> None:
    done = run(tmp_path, counted=False)
    assert done.returncode == 1
    assert "LonelyProcessError: Accelerate treats the 8 devices" in done.stderr, done.stderr[-2000:]
    assert "trained" not in done.stdout
