"""One step of Dia and English TTS with clips of very unequal length: `python unequal_shares.py OUT PROCESS
PROCESSES PORT`. Writes the losses, reduced over the processes, and the weights after the step."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch


def dia(backend: Any) -> tuple[Any, dict[str, float]]:
    from tpulab_recipes.dia.config import Config
    from tpulab_recipes.dia.data import Clip, train_batches
    from tpulab_recipes.dia.model import tiny_model
    from tpulab_recipes.dia.trainer import Trainer

    config = Config(
        audio_length=128, epochs=1, unconditional_frac=0.0, first_channel_weight=4.0, warmup_steps=0
    )
    clips = [Clip(str(n), np.array([1, 65], np.int32), np.full((n, 9), n, np.int16)) for n in (3, 90)]
    trainer = Trainer(config, tiny_model(), backend, 4)
    batch = next(train_batches(clips, config, trainer.layout))
    loss = trainer.train_step(backend.shard_batch(backend.own_rows(batch)))
    return trainer.model, backend.reduce_metrics({"loss": loss})


def english(backend: Any) -> tuple[Any, dict[str, float]]:
    from english_tts.tiny_voice import STATISTICS, TINY, made_up
    from tpulab_recipes.english_tts.data import batch_of
    from tpulab_recipes.english_tts.trainer import KokoroTrainer

    config = TINY.but(batch_size=2, frame_dropout=0.0)
    rows = [made_up(0, 34), made_up(1, 48)]
    trainer = KokoroTrainer(config, backend, rows, [], STATISTICS)
    batch = batch_of([rows[0], rows[1]], 48, config)
    batch["mel"][0, 12:], batch["mel_lengths"][0] = 0, 12
    found = trainer.train_step(backend.shard_batch(backend.own_rows(batch)))
    return trainer.model, backend.reduce_metrics(found._asdict())


def main() -> None:
    out, process, processes, port = sys.argv[1:]
    if int(processes) > 1:
        os.environ |= {
            "RANK": process,
            "WORLD_SIZE": processes,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }
    from tpulab_recipes import runtime

    torch.set_num_threads(1)
    backend = runtime.use("cpu")
    found = {}
    for name, run in (("dia", dia), ("english", english)):
        model, losses = run(backend)
        found[name] = {"losses": losses, "weights": dict(model.state_dict())}
    if process == "0":
        torch.save(found, Path(out) / f"{processes}.pt")


if __name__ == "__main__":
    main()
