"""One process of `test_processes`: writes its rank, draws, rows and replicas, and the common results.

`python one_process.py BACKEND FOLDER PROCESS PROCESSES PORT`
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from tpulab_recipes import runtime
from tpulab_recipes.fashion_mnist.data import Images, eval_batches
from tpulab_recipes.images.garments import draw_dataset
from tpulab_recipes.runtime import Backend, World

ROWS = np.arange(48, dtype=np.float32).reshape(16, 3)
TRAIN, TEST = Images(*draw_dataset(40, seed=0)), Images(*draw_dataset(21, seed=1))


def in_torch(backend: Backend, folder: Path, process: int, processes: int) -> dict[str, Any]:
    """Trains on this process's rows. One process alone sees in each step what two see together."""
    import torch
    from tpulab_recipes.fashion_mnist.config import Config
    from tpulab_recipes.fashion_mnist.processes import (
        batches_of_process,
        correct_of_process,
        rows_of_process,
    )
    from tpulab_recipes.fashion_mnist.trainer import Trainer
    from tpulab_recipes.torch_training import save_checkpoint

    world = backend.world()
    # Each draws its own first weights.
    torch.manual_seed(process)
    apart = torch.nn.Linear(3, 2)
    before = apart.weight.sum().item()
    placed = backend.prepare(apart)  # type: ignore[attr-defined]
    backend.seed(3)
    drawn = [torch.rand(4).tolist(), np.random.random(4).tolist(), random.random()]
    config = Config(width=0.125, batch_size=8, dropout=0.0, epochs=2)
    trainer, losses = Trainer(config, backend), []
    messages = []
    if processes > 1:
        all_reduce = torch.distributed.all_reduce
        torch.distributed.all_reduce = lambda tensor: messages.append(all_reduce(tensor))
    worlds = [world] if processes > 1 else [World(index, 2, 1, 2, one_program=False) for index in range(2)]
    for epoch in range(config.epochs):
        shares = [batches_of_process(TRAIN, config, each, epoch) for each in worlds]
        for parts in zip(*shares, strict=True):
            batch = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            losses.append(trainer.train_step(backend.shard_batch(batch)))
    sent = len(messages)
    correct, read = correct_of_process(trainer, TEST, world)
    weights = hashlib.sha256()
    for tensor in backend.to_host(trainer.model.state_dict()).values():
        weights.update(tensor.numpy().tobytes())
    save_checkpoint(backend, folder / f"checkpoints-{process}-of-{processes}", 4, trainer.state())
    return {
        "drawn": drawn,
        "drawn_apart": before,
        "prepared": placed.weight.sum().item(),
        "messages_a_step": sent / len(losses),
        "own_rows": backend.own_rows({"x": np.arange(6), "rate": 0.5}),  # type: ignore[attr-defined]
        "rows": rows_of_process(TRAIN, world, config.seed, 0).tolist(),
        "losses": [backend.reduce_metrics({"loss": loss})["loss"] for loss in losses],
        "weights": weights.hexdigest(),
        "read": read,
        "sums": backend.reduce_metrics({"correct": correct, "read": read}, how="sum"),
        "counted": int((trainer.evaluate(TEST).predicted == TEST.labels).sum()),
    }


def in_jax(backend: Backend) -> dict[str, Any]:
    """One program over the devices of all processes: reads `TEST` with a layer of drawn weights."""
    import jax

    key = backend.seed(3)
    drawn = [jax.random.uniform(key, (4,)).tolist(), np.random.random(4).tolist(), random.random()]
    layer = np.random.default_rng(0).standard_normal((28 * 28, 10)).astype(np.float32)

    def count(layer: Any, batch: Any) -> tuple[Any, Any]:
        read = (batch["pixels"].reshape(-1, 28 * 28).astype(np.float32) @ layer).argmax(axis=-1)
        return ((read == batch["labels"]) * batch["counts"]).sum(), batch["counts"].sum()

    step, everywhere = backend.compile(count), backend.replicate(layer)
    correct, read = 0.0, 0.0
    for batch in backend.batches(eval_batches(TEST, 8)):
        found = backend.reduce_metrics(dict(zip(("correct", "read"), step(everywhere, batch), strict=True)))
        correct, read = correct + found["correct"], read + found["read"]
    by_numpy = (TEST.pixels.reshape(-1, 28 * 28).astype(np.float32) @ layer).argmax(axis=-1)
    divided = backend.shard_batch(ROWS)
    mean = backend.compile(lambda x: x.mean())(divided)
    backend.sync(mean)
    return {
        "drawn": drawn,
        "rows": [piece.tolist() for piece in backend.shards(divided)],
        "whole": backend.to_host(divided).tolist(),
        "replicas": [piece.tolist() for piece in backend.shards(backend.replicate(ROWS))],
        "mean": backend.reduce_metrics({"mean": mean})["mean"],
        "sums": {"correct": correct, "read": read},
        "counted": int((by_numpy == TEST.labels).sum()),
    }


def threads() -> int:
    """Of this process, those of libraries too; 0 where only Linux would tell."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.exists() else 0


def main(name: str, folder: Path, process: int, processes: int, port: int) -> None:
    place = f"127.0.0.1:{port}"
    if processes > 1 and name == "jax":
        import jax

        jax.distributed.initialize(place, processes, process)
    elif processes > 1:
        import torch

        # As `python -m torch.distributed.run` names them; the backend makes the group.
        os.environ |= {"RANK": str(process), "WORLD_SIZE": str(processes)}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    before = threads()
    backend = runtime.use(name)
    figures = in_jax(backend) if name == "jax" else in_torch(backend, folder, process, processes)
    hows: tuple[runtime.Reduction, ...] = ("mean", "sum", "max")
    reduced = {how: backend.reduce_metrics({"own": process + 1}, how)["own"] for how in hows}
    output = {
        "world": asdict(backend.world()),
        "devices": [device.process_index for device in backend.devices()],
        "memory": [memory.device for memory in backend.memory()],
        "describe": backend.describe(),
        "reduced": reduced,
    }
    if processes > 1 and name != "jax":
        torch.distributed.destroy_process_group()
        # The system goes on listing a thread for a moment after it was joined.
        ends = time.monotonic() + 30
        while threads() > before and time.monotonic() < ends:
            time.sleep(0.01)
        output["threads_left"] = threads() - before
    (folder / f"{process}-of-{processes}.json").write_text(
        json.dumps({**output, **figures}, default=np.ndarray.tolist)
    )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:6]))
