"""The same fine-tune by Hugging Face's Trainer, watched and steered through TPULab's callback."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tpulab_recipes.intents.config import Config
from tpulab_recipes.intents.data import Encoded, Utterances, encode
from tpulab_recipes.intents.trainer import Evaluation, make_model, prepared_mask


class Sentences(torch.utils.data.Dataset):
    """One dict for each sentence, with the mask in the form that attention takes."""

    def __init__(self, data: Encoded) -> None:
        self._ids = torch.from_numpy(data.ids).long()
        self._mask = prepared_mask(torch.from_numpy(data.mask))
        self._labels = torch.from_numpy(data.labels).long()

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {
            "input_ids": self._ids[index],
            "attention_mask": self._mask[index],
            "labels": self._labels[index],
        }


def train_with_trainer(
    config: Config, utterances: Utterances, tokenizer: Any, length: int, folder: str, *, steps: int
) -> tuple[list[float], Evaluation]:
    """Trains `steps` steps and reads the test; answers the logged losses and the evaluation.

    The rate stays at its peak. `folder` takes what the Trainer and the run's log write.
    """
    from transformers import Trainer, TrainingArguments

    from tpulab.hf import Callback

    train, test = encode(utterances.train, tokenizer, length), encode(utterances.test, tokenizer, length)
    arguments = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=config.batch_size,
        per_device_eval_batch_size=config.batch_size,
        max_steps=steps,
        learning_rate=config.learning_rate / 3,
        weight_decay=config.weight_decay,
        lr_scheduler_type="constant",
        logging_steps=max(1, steps // 5),
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        seed=config.seed,
    )
    trainer = Trainer(
        model=make_model(config, utterances.names, len(tokenizer), length),
        args=arguments,
        train_dataset=Sentences(train),
        callbacks=[Callback("BERT by the Trainer")],
    )
    trainer.train()
    logits = trainer.predict(Sentences(test)).predictions
    losses = [float(entry["loss"]) for entry in trainer.state.log_history if "loss" in entry]
    return losses, Evaluation(np.asarray(logits).argmax(axis=-1).astype(np.int64), test.labels)
