"""Eight devices train like one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from english_tts.tiny_voice import STATISTICS, TINY, made_up
from needs_torch_xla import NEEDS_TORCH_XLA
from tpulab_recipes.english_tts.data import batch_of
from tpulab_recipes.english_tts.trainer import KokoroTrainer

#: The mode is chosen once in a process, so this is a separate one. 8 devices of XLA:CPU.
PROGRAM = """
import json, sys
from pathlib import Path
from english_tts.test_sharded import train
from tpulab_recipes import runtime
print(json.dumps(train(runtime.use("torch_xla", platform="cpu", spmd=True), Path(sys.argv[1]))))
"""


def train(backend: Any, folder: Path) -> tuple[list[float], list[list[int]]]:
    """Losses of three steps, and the shape of each device's rows."""
    config = TINY.but(
        batch_size=8, frame_dropout=0.0, n_decoder_layers=1, postnet_dim=0, output_dir=str(folder)
    )
    rows = [made_up(each) for each in range(8)]
    trainer = KokoroTrainer(config, backend, rows, [], STATISTICS)
    batch = backend.shard_batch(batch_of(rows, 48, config))
    held = [list(piece.shape) for piece in backend.shards(batch["mel"])]
    return [float(trainer.train_step(batch).total) for _ in range(3)], held


@pytest.mark.long
@NEEDS_TORCH_XLA
def test_eight_devices_train_like_one(host: Any, tmp_path: Path) -> None:
    root = Path(__file__).parents[1]
    here = {"PYTHONPATH": os.pathsep.join(map(str, (root, root.parent / "src"))), "PJRT_DEVICE": "CPU"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env=os.environ | here | {"CPU_NUM_DEVICES": "8", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    losses, held = json.loads(done.stdout.splitlines()[-1])
    np.testing.assert_allclose(losses, train(host, tmp_path)[0], rtol=1e-4)
    assert held == [[1, 48, 20]] * 8
