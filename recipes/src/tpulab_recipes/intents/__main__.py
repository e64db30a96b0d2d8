"""Fine-tunes BERT to classify sentences: `python -m tpulab_recipes.intents --help`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import tyro

from tpulab_recipes.common.command_line import (
    Command,
    exit_status,
    print_training_result,
    read_command,
)
from tpulab_recipes.common.errors import DataError, RecipeError
from tpulab_recipes.common.preparation import digest
from tpulab_recipes.intents.config import FULL_SIZE, LESSON, Config
from tpulab_recipes.intents.data import choose_length, encode, load_utterances, train_batches
from tpulab_recipes.intents.tokenizer import choose_tokenizer, describe_vocabulary, to_text
from tpulab_recipes.runtime import DeviceRuntimeError
from tpulab_recipes.torch_training import load_checkpoint
from tpulab_recipes.torch_training.export import export
from tpulab_recipes.torch_training.fit import Loop, OmittedLoop, Training, fit, require_rows


@dataclass(frozen=True, kw_only=True)
class Train(Command):
    """Fine-tunes BERT on sentences and their categories."""

    config: tyro.conf.OmitArgPrefixes[Config]
    data: str = ""
    """Folder with train.csv and test.csv, or a name on the hub. Empty: the sentences of the recipe."""
    checkpoints: str = ""
    """Folder or gs://bucket/path for checkpoints, from which training resumes, and figures (`logs/`). Empty:
    none."""
    loop: OmittedLoop = field(default_factory=Loop)
    export: str = ""
    """Write the training step to this file as StableHLO instead of training. `tpulab check
    FILE --chips v5e-8,v6e-8` shows what the step needs on each kind of TPU."""


def main(argv: list[str]) -> int:
    try:
        options = read_command(
            Train, "intents", {"small": Config(), "lesson": LESSON, "full-size": FULL_SIZE}, argv
        )
        config = options.config
        if options.checkpoints:
            options.loop.check(options.checkpoints)
        backend = options.use_backend()
        require_rows(config.batch_size, backend)
        utterances = load_utterances(options.data)
        texts = list(utterances.train["text"])
        found = load_checkpoint(options.checkpoints) if options.checkpoints else None
        tokenizer = choose_tokenizer(config.model, texts, config.vocabulary, found and found[1])
        length = choose_length([len(ids) for ids in tokenizer(texts)["input_ids"]])
        from tpulab_recipes.intents.trainer import Trainer, make_model

        if len(texts) < config.batch_size:
            raise DataError(
                f"{len(texts)} sentences are less than one batch of {config.batch_size}; add some, or make "
                "batch_size smaller."
            )
        backend.seed(config.seed)
        model = make_model(config, utterances.names, len(tokenizer), length)
    except (DeviceRuntimeError, RecipeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2

    print(f"{len(tokenizer)} entries in the vocabulary, {describe_vocabulary(config.model, tokenizer)}")
    train, test = encode(utterances.train, tokenizer, length), encode(utterances.test, tokenizer, length)
    in_epoch = len(train) // config.batch_size
    trainer = Trainer(config, model, backend, config.epochs * in_epoch)
    if options.export:
        example = next(train_batches(train, config.batch_size, 0, 0))
        return export(options.export, backend, trainer, example, "intents")

    def batches(first: int) -> Iterator[Any]:
        for epoch in range(first // in_epoch, config.epochs):
            seen = first % in_epoch if epoch == first // in_epoch else 0
            yield from train_batches(train, config.batch_size, config.seed, epoch, seen)

    training = Training(
        name=f"BERT, {config.model or 'a small one from random weights'}",
        trainer=trainer,
        batches=batches,
        in_epoch=in_epoch,
        epochs=config.epochs,
        output=options.checkpoints,
        data=f"{options.data or 'the sentences of the recipe'}, {len(train)} sentences; ",
        fingerprint=digest(train.ids, train.labels),
        warmup_steps=config.warmup_steps,
        evaluate=lambda: {"weighted_f1": trainer.evaluate(test).weighted_f1},
        extra=lambda: {"tokenizer": to_text(tokenizer)},
    )
    try:
        result = fit(training, options.loop)
    except RecipeError as error:
        print(error, file=sys.stderr)
        return 2
    print_training_result(backend, steps=trainer.steps_done, **result)
    return 0


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
