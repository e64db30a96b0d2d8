"""Trains the tiny model on the synthetic corpus with the recipe's defaults, and prints a JSON line: the
cross-entropy of held-out clips, overall and per channel, before and after each epoch, and the seconds.

`python learning.py FOLDER` stores sound and codes in FOLDER: encoding takes longer than training. Run by
`main.mjs` in the environment `torch-xla`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")
os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from tpulab_recipes.audio.codec import tiny_codec
from tpulab_recipes.audio.corpus import CorpusSettings, write_corpus
from tpulab_recipes.dia.config import Config
from tpulab_recipes.dia.data import (
    IGNORED,
    Layout,
    encode,
    eval_batches,
    read_clips,
    steps_per_epoch,
    train_batches,
)
from tpulab_recipes.dia.model import tiny_model, tiny_processor
from tpulab_recipes.dia.trainer import Trainer
from tpulab_recipes.runtime.selection import make

CLIPS, HELD_OUT = 200, 10


@torch.no_grad()
def of_each_channel(trainer: Trainer, clips: Any) -> list[float]:
    """Mean cross-entropy of held-out codes, by channel."""
    model = trainer.model.eval()
    sums = torch.zeros(2, 9)
    for batch in eval_batches(clips, trainer.config, trainer.layout):
        given = {name: torch.from_numpy(value) for name, value in batch.items()}
        labels = given.pop("labels").long()
        logits = model(**given).logits.unflatten(0, (-1, 9)).transpose(1, 2)
        losses = torch.nn.functional.cross_entropy(
            logits.flatten(0, 2), labels.flatten(), ignore_index=IGNORED, reduction="none"
        )
        sums += torch.stack([losses.view(labels.shape), (labels != IGNORED).float()]).sum((1, 2))
    return [float(each) for each in sums[0] / sums[1]]


def main() -> None:
    torch.set_num_threads(1)
    place, config, backend = sys.argv[1], Config(), make("cpu", "cpu")
    model, processor = tiny_model(), tiny_processor()
    layout = Layout.of(model.config)
    if not Path(place, "corpus.json").exists():
        write_corpus(place, CorpusSettings(count=CLIPS, sample_rate=44_100, hop=512))
    encode(place, place, tiny_codec(), backend, frames=config.audio_length - layout.overhead)
    clips, _ = read_clips(place, config, layout, lambda text: processor.tokenizer(text)["input_ids"])
    test, train = clips[:HELD_OUT], clips[HELD_OUT:]
    in_epoch = steps_per_epoch(train, config)
    backend.seed(config.seed)
    trainer = Trainer(config, model, backend, config.epochs * in_epoch)
    epochs = [{"seconds": 0.0, "held_out": trainer.evaluate(test)}]
    before, began = of_each_channel(trainer, test), time.perf_counter()
    for batch in backend.batches(train_batches(train, config, layout)):
        trainer.train_step(batch)
        if trainer.steps_done % in_epoch == 0:
            held_out = trainer.evaluate(test)
            epochs.append({"seconds": time.perf_counter() - began, "held_out": held_out})
    channels = {"before": before, "after": of_each_channel(trainer, test)}
    # The same sound with the text of another clip: the difference is the contribution of the texts.
    channels["after, with others' texts"] = of_each_channel(
        trainer,
        [replace(clip, text=other.text) for clip, other in zip(test, test[1:] + test[:1], strict=True)],
    )
    sys.stdout.write(json.dumps({"epochs": epochs, "channels": channels, "steps": trainer.steps_done}) + "\n")


if __name__ == "__main__":
    main()
