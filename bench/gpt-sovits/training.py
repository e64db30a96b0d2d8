"""Times the two updates of GPT-SoVITS on XLA:CPU and in plain PyTorch; prints a JSON line. Run by `main.mjs`
in the environment `torch-xla`.

The same batches go to the recipe's compiled updates, and to the same modules eagerly. Groups of steps take
turns, and each waits for the device at its end; a figure is the lower quartile of its groups, because other
work on the machine only adds time.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")
os.environ["CPU_NUM_DEVICES"] = "1"

import numpy as np
import torch
from tpulab_recipes.gpt_sovits.checkpoints import make_models
from tpulab_recipes.gpt_sovits.config import Config
from tpulab_recipes.gpt_sovits.data import Clip, spectrogram, train_batches
from tpulab_recipes.gpt_sovits.trainer import Trainer
from tpulab_recipes.runtime.selection import make

CONFIG = Config(epochs=1000)
GROUPS, STEPS = 5, 3


def clips(count: int = 12) -> list[Clip]:
    made = []
    for number in range(count):
        random = np.random.default_rng(number)
        wave = np.float32(0.1 * random.standard_normal((90 + 5 * number) * CONFIG.hop_length))
        spec = spectrogram(wave, CONFIG)
        ssl = random.standard_normal((CONFIG.ssl_channels, spec.shape[1]), np.float32)
        made.append(Clip(str(number), random.integers(1, 300, 30), ssl, spec, wave))
    return made


def main() -> None:
    torch.set_num_threads(1)
    data, found = clips(), {}
    trainers = {"XLA:CPU": "torch_xla", "plain PyTorch": "cpu"}
    made: dict[str, Any] = {}
    for title, name in trainers.items():
        backend = make(name, "cpu")
        trainer = Trainer(CONFIG, *make_models(CONFIG), backend, 10)
        batch = next(train_batches(data, CONFIG))
        before = backend.compilations()
        trainer.train_step(backend.shard_batch(batch))
        backend.sync()
        spent = backend.compilations() - before
        found[title] = {"programs": spent.count, "compile_s": spent.seconds}
        made[title] = trainer
    times: dict[str, list[float]] = {title: [] for title in trainers}
    batches = list(zip(range(STEPS), train_batches(data, CONFIG), strict=False))
    for _ in range(GROUPS):
        for title, trainer in made.items():
            began = time.perf_counter()
            for _, batch in batches:
                trainer.train_step(trainer.backend.shard_batch(batch))
            trainer.backend.sync()
            times[title].append((time.perf_counter() - began) * 1e3 / STEPS)
    for title, each in times.items():
        found[title]["step_ms"] = statistics.quantiles(each, n=4)[0]
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
