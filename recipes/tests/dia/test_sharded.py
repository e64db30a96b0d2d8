"""Training with parameters in slices over eight devices, with recomputed layers in one loop, equals the
training of one device with all parameters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers.models.dia")

from needs_torch_xla import NEEDS_TORCH_XLA
from tpulab_recipes.dia.config import Config
from tpulab_recipes.dia.data import Clip, train_batches
from tpulab_recipes.dia.model import tiny_model
from tpulab_recipes.dia.trainer import Trainer
from tpulab_recipes.runtime.selection import make
from tpulab_recipes.torch_training import ScannedLayers

#: The mode is chosen once in a process, so this is a separate one. 8 devices of XLA:CPU.
PROGRAM = """
import json
from dia.test_sharded import trained
from tpulab_recipes import runtime
print(json.dumps(trained(runtime.use("torch_xla", platform="cpu", spmd=True), divided=True)))
"""


def trained(backend: Any, *, divided: bool) -> dict[str, Any]:
    """Losses of three steps, and the shapes that each device holds of a weight and of its moment."""
    backend.seed(0)
    lengths = {"audio_length": 128, "batch_size": 8, "warmup_steps": 1, "unconditional_frac": 0.3}
    config = Config(**lengths, shard=divided, remat=divided, scan_layers=divided)
    trainer = Trainer(config, tiny_model(), backend, 10)
    clips = []
    for n in range(10):
        random = np.random.default_rng(n)
        codes = random.integers(0, 1024, (20 + 5 * n, 9)).astype(np.int16)
        clips.append(Clip(str(n), random.integers(97, 122, 9 + n).astype(np.int32), codes))
    losses = []
    for _, batch in zip(range(3), train_batches(clips, config, trainer.layout), strict=False):
        losses.append(float(trainer.train_step(backend.shard_batch(batch))))
    assert isinstance(trainer.model.model.decoder.layers, ScannedLayers) == divided
    weight = trainer.model.model.encoder.layers[0].mlp.down_proj.weight
    moment = trainer.optimizer.state[weight]["exp_avg"]
    held = [[list(piece.shape) for piece in backend.shards(each)] for each in (weight, moment)]
    return {"losses": losses, "held": held, "held_out": trainer.evaluate(clips[:8])}


def _on_eight_devices() -> dict[str, Any]:
    tests = Path(__file__).parents[1]
    here = {
        "PYTHONPATH": f"{tests.parent / 'src'}{os.pathsep}{tests}",
        "PJRT_DEVICE": "CPU",
        "CPU_NUM_DEVICES": "8",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | here,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.long
@NEEDS_TORCH_XLA
def test_eight_devices_train_like_one() -> None:
    sharded, whole = _on_eight_devices(), trained(make("cpu", "cpu"), divided=False)
    np.testing.assert_allclose(sharded["losses"], whole["losses"], rtol=1e-5)
    np.testing.assert_allclose(sharded["held_out"], whole["held_out"], rtol=1e-5)
    # Each device has an eighth of a matrix of 32 x 64, and of its moments.
    assert sharded["held"] == [[[32, 8]] * 8] * 2
