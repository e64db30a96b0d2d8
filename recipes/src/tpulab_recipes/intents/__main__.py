"""Fine-tunes BERT to tell intents apart: `python -m tpulab_recipes.intents --help`."""

from __future__ import annotations

import sys
import time

from tpulab_recipes.command_line import backend_for, chosen, parser_for
from tpulab_recipes.intents.config import FULL_SIZE, Config
from tpulab_recipes.intents.data import DataError, choose_length, encode, load_utterances, train_batches
from tpulab_recipes.intents.tokenizer import choose_tokenizer, to_text
from tpulab_recipes.runtime import DeviceRuntimeError


def main(argv: list[str]) -> int:
    parser = parser_for("intents", "Fine-tunes BERT on sentences and their intents.", Config)
    parser.add_argument("--data", default="", help="folder with train.csv and test.csv, or a name on the hub")
    parser.add_argument(
        "--checkpoints", help="folder to write a checkpoint to after each epoch, and to go on from"
    )
    options = parser.parse_args(argv)
    try:
        config = chosen(options, Config(), FULL_SIZE)
        backend = backend_for(options)
        utterances = load_utterances(options.data)
        texts = list(utterances.train["text"])
        from tpulab_recipes.torch_training import load_checkpoint, save_checkpoint

        found = load_checkpoint(options.checkpoints) if options.checkpoints else None
        tokenizer = choose_tokenizer(config.model, texts, config.vocabulary, found and found[1])
        length = choose_length([len(ids) for ids in tokenizer(texts)["input_ids"]])
        from tpulab_recipes.intents.trainer import Trainer, make_model

        backend.seed(config.seed)
        model = make_model(config, utterances.names, len(tokenizer), length)
    except (DeviceRuntimeError, DataError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2

    print(backend.describe(), flush=True)
    train, test = encode(utterances.train, tokenizer, length), encode(utterances.test, tokenizer, length)
    in_epoch = len(train) // config.batch_size
    trainer = Trainer(config, model, backend, config.epochs * in_epoch)
    if found is not None:
        trainer.load_state(found[1])
        print(f"going on after step {found[0]}", flush=True)
    for epoch in range(trainer.steps_done // max(1, in_epoch), config.epochs):
        began, loss = time.perf_counter(), None
        for batch in backend.batches(train_batches(train, config.batch_size, config.seed, epoch)):
            loss = trainer.train_step(batch)
        backend.sync()
        step_ms = 1e3 * (time.perf_counter() - began) / max(1, in_epoch)
        value = backend.reduce_metrics({"loss": loss})["loss"]
        score = trainer.evaluate(test).weighted_f1
        print(
            f"epoch {epoch + 1}: loss {value:.3f}, weighted F1 {score:.3f}, {step_ms:.0f} ms a step",
            flush=True,
        )
        if options.checkpoints:
            state = {**trainer.state(), "tokenizer": to_text(tokenizer)}
            save_checkpoint(backend, options.checkpoints, trainer.steps_done, state)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
