"""Fine-tunes BERT to tell intents apart: `python -m tpulab_recipes.intents --help`."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import tyro

from tpulab_recipes.common.command_line import Command, print_training_result, read_command
from tpulab_recipes.common.errors import RecipeError
from tpulab_recipes.intents.config import FULL_SIZE, Config
from tpulab_recipes.intents.data import choose_length, encode, load_utterances, train_batches
from tpulab_recipes.intents.tokenizer import choose_tokenizer, describe_vocabulary, to_text
from tpulab_recipes.runtime import DeviceRuntimeError
from tpulab_recipes.torch_training.export import export


@dataclass(frozen=True, kw_only=True)
class Train(Command):
    """Fine-tunes BERT on sentences and their intents."""

    config: tyro.conf.OmitArgPrefixes[Config]
    data: str = ""
    """Folder with train.csv and test.csv, or a name on the hub. Empty: the sentences of the recipe."""
    checkpoints: str = ""
    """Folder for a checkpoint after each epoch, from which training resumes."""
    save_every: int = 0
    """Steps between further checkpoints; 0: none."""
    export: str = ""
    """Write the training step to this file as StableHLO instead of training. `python -m
    tpulab_recipes.runtime.tpu_compiler FILE` shows what the step needs on each kind of TPU."""


def main(argv: list[str]) -> int:
    options = read_command(Train, "intents", {"small": Config(), "full-size": FULL_SIZE}, argv)
    config = options.config
    try:
        backend = options.use_backend()
        utterances = load_utterances(options.data)
        texts = list(utterances.train["text"])
        from tpulab_recipes.torch_training import CheckpointError, load_checkpoint, save_checkpoint

        found = load_checkpoint(options.checkpoints) if options.checkpoints else None
        tokenizer = choose_tokenizer(config.model, texts, config.vocabulary, found and found[1])
        length = choose_length([len(ids) for ids in tokenizer(texts)["input_ids"]])
        from tpulab_recipes.intents.trainer import Trainer, make_model

        backend.seed(config.seed)
        model = make_model(config, utterances.names, len(tokenizer), length)
    except (DeviceRuntimeError, RecipeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2

    print(f"{len(tokenizer)} entries in the vocabulary, {describe_vocabulary(config.model, tokenizer)}")
    train, test = encode(utterances.train, tokenizer, length), encode(utterances.test, tokenizer, length)
    in_epoch = max(1, len(train) // config.batch_size)
    trainer = Trainer(config, model, backend, config.epochs * in_epoch)
    if options.export:
        example = next(train_batches(train, config.batch_size, 0, 0))
        return export(options.export, backend, trainer, example, "intents")
    if found is not None:
        try:
            trainer.load_state(found[1])
        except CheckpointError as error:
            print(error, file=sys.stderr)
            return 2
        print(f"going on after step {found[0]}", flush=True)

    def save() -> None:
        state = {**trainer.state(), "tokenizer": to_text(tokenizer)}
        save_checkpoint(backend, options.checkpoints, trainer.steps_done, state)

    result: dict[str, object] = {}
    for epoch in range(trainer.steps_done // in_epoch, config.epochs):
        began, loss = time.perf_counter(), None
        seen = trainer.steps_done % in_epoch
        rest = train_batches(train, config.batch_size, config.seed, epoch, seen)
        for batch in backend.batches(map(backend.own_rows, rest)):
            loss = trainer.train_step(batch)
            if options.save_every and trainer.steps_done % options.save_every == 0 and options.checkpoints:
                save()
        backend.sync()
        step_ms = 1e3 * (time.perf_counter() - began) / in_epoch
        value = backend.reduce_metrics({"loss": loss})["loss"]
        score = trainer.evaluate(test).weighted_f1
        print(
            f"epoch {epoch + 1}: loss {value:.3f}, weighted F1 {score:.3f}, {step_ms:.0f} ms a step",
            flush=True,
        )
        result = {"epochs": epoch + 1, "loss": value, "weighted_f1": score, "step_ms": step_ms}
        if options.checkpoints:
            save()
    print_training_result(backend, steps=trainer.steps_done, **result)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
