"""Times Dia's training step and its input side; prints a JSON line. Run by `main.mjs` in the environment
`torch-xla`.

The same batches of random codes, of mixed lengths in one window, go to the recipe's compiled step on XLA:CPU,
to the same step in plain PyTorch, and to transformers' model as its documentation trains it. Groups of steps
take turns, and each waits for the device at its end; a figure is the lower quartile of its groups, because
other work on the machine only adds time.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")
os.environ["CPU_NUM_DEVICES"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
from tpulab_recipes.dia.config import Config
from tpulab_recipes.dia.data import IGNORED, Clip, train_batches
from tpulab_recipes.dia.model import tiny_model
from tpulab_recipes.dia.trainer import Trainer
from tpulab_recipes.runtime.selection import make

CONFIG = Config(audio_length=256, batch_size=4, epochs=1000)
GROUPS, STEPS = 6, 4


def clips(count: int = 40) -> list[Clip]:
    random = np.random.default_rng(0)
    return [
        Clip(
            str(number),
            random.integers(97, 122, 30).astype(np.int32),
            random.integers(0, 1024, (int(random.integers(100, 240)), 9)).astype(np.int16),
        )
        for number in range(count)
    ]


def recipe(name: str) -> tuple[Callable[[Any], None], Callable[[], None], dict[str, float]]:
    """The step on a host batch, the wait for the device, and the compile time."""
    backend = make(name, "cpu")
    trainer = Trainer(CONFIG, tiny_model(), backend, 10_000)
    batch = next(train_batches(clips(), CONFIG, trainer.layout))
    before, began = backend.compilations().seconds, time.perf_counter()
    trainer.train_step(backend.shard_batch(batch))
    backend.sync()
    took = {
        "first_step_s": time.perf_counter() - began,
        "compile_s": backend.compilations().seconds - before,
    }
    return lambda each: trainer.train_step(backend.shard_batch(each)), backend.sync, took


def plain() -> tuple[Callable[[Any], None], Callable[[], None], dict[str, float]]:
    """transformers' model and AdamW, with the recipe's clipping and rates for weight decay."""
    model = tiny_model().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=CONFIG.learning_rate, betas=(0.9, 0.95))

    def step(batch: Any) -> None:
        tensors = {name: torch.from_numpy(value) for name, value in batch.items()}
        tensors["labels"] = tensors["labels"].transpose(1, 2).flatten(0, 1).long()
        loss = model(**tensors).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CONFIG.clip_norm)
        optimizer.step()
        optimizer.zero_grad()
        loss.item()

    return step, lambda: None, {"first_step_s": 0.0, "compile_s": 0.0}


def main() -> None:
    torch.set_num_threads(1)
    # XLA first: autograd knows only the devices that exist at its first backward pass.
    kinds = {"recipe, XLA:CPU": recipe("torch_xla"), "recipe, plain PyTorch": recipe("cpu")}
    kinds["plain transformers, eager"] = plain()
    layout = Trainer(CONFIG, tiny_model(), make("cpu", "cpu"), 1).layout
    batches = list(itertools.islice(train_batches(clips(), CONFIG, layout), STEPS))
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for turn in range(GROUPS + 1):
        for name, (step, wait, _) in kinds.items():
            began = time.perf_counter()
            for batch in batches:
                step(batch)
            wait()
            if turn:  # the first fills caches
                times[name].append((time.perf_counter() - began) / STEPS)
    codes = sum(int((batch["labels"] != IGNORED).sum()) for batch in batches) / STEPS
    figures = {
        name: {
            "step_ms": 1e3 * statistics.quantiles(times[name], n=4)[0],
            "codes_per_s": codes / statistics.quantiles(times[name], n=4)[0],
            **took,
        }
        for name, (_, _, took) in kinds.items()
    }
    began, count = time.perf_counter(), 400
    for _ in itertools.islice(train_batches(clips(), CONFIG, layout), count):
        pass
    sys.stdout.write(
        json.dumps({"steps": figures, "input_batches_per_s": count / (time.perf_counter() - began)}) + "\n"
    )


if __name__ == "__main__":
    main()
