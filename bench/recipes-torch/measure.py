"""Measures the training steps of one recipe; prints a JSON line. Run by `main.mjs` in the environment
`torch-xla`.

Groups of steps in turn, in one process: torch_xla with `tpulab.run`, torch_xla without it, and plain PyTorch
on the CPU. Each group waits for the device at its end, so that all of its work is in its time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")
os.environ["HF_HUB_OFFLINE"] = "1"

Batches = Callable[[], Iterable[Any]]


def keeper() -> str:
    """Replaces the keeper by a socket that a thread reads, so that the agent's measurements are really
    sent."""
    path = os.path.join(tempfile.mkdtemp(prefix="tl-"), "k.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()

    def read(connection: socket.socket) -> None:
        while connection.recv(1 << 16):
            pass

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=read, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return path


def alexnet(backend: Any) -> tuple[Any, Batches]:
    from tpulab_recipes.fashion_mnist.config import Config
    from tpulab_recipes.fashion_mnist.data import Images, train_batches
    from tpulab_recipes.fashion_mnist.trainer import Trainer
    from tpulab_recipes.images.garments import draw_dataset

    config, images = Config(), Images(*draw_dataset(256, seed=0))
    return Trainer(config, backend), lambda: train_batches(images, config.batch_size, 0, 0)


def resnet(backend: Any) -> tuple[Any, Batches]:
    from tpulab_recipes.resnet_profiling.config import Config
    from tpulab_recipes.resnet_profiling.trainer import Trainer, made_up_batches

    config = Config(width=0.125)
    return Trainer(config, backend), lambda: made_up_batches(config, 4)


def bert(backend: Any) -> tuple[Any, Batches]:
    from tpulab_recipes.intents.config import Config
    from tpulab_recipes.intents.data import encode, load_utterances, train_batches
    from tpulab_recipes.intents.tokenizer import train_tokenizer
    from tpulab_recipes.intents.trainer import Trainer, make_model

    config, utterances = Config(), load_utterances()
    tokenizer = train_tokenizer(utterances.train["text"], config.vocabulary)
    data = encode(utterances.train, tokenizer, 24)
    backend.seed(0)
    model = make_model(config, utterances.names, len(tokenizer), 24)
    return Trainer(config, model, backend, 10_000), lambda: train_batches(data, config.batch_size, 0, 0)


RECIPES = {"01-single-core": alexnet, "03-profiling": resnet, "04-bert-fine-tune": bert}


def group(trainer: Any, batches: Batches, steps: int, run: Any) -> float:
    """Milliseconds of one step, over a group of them."""
    source = itertools.islice(itertools.cycle(list(batches())), steps)
    placed = (trainer.backend.shard_batch(batch) for batch in source)
    trainer.backend.sync()
    began = time.perf_counter()
    for batch in placed if run is None else run.steps(placed):
        loss = trainer.train_step(batch)
        if run is not None:
            run.log(loss=loss)
    trainer.backend.sync()
    return 1e3 * (time.perf_counter() - began) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", choices=RECIPES)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=8, help="in a group")
    options = parser.parse_args()
    os.environ["TPULAB_AGENT_SOCKET"] = keeper()

    from tpulab_recipes.runtime.selection import make

    import tpulab

    # XLA first: autograd knows only the devices that exist at its first backward pass.
    xla, plain = make("torch_xla", "cpu"), make("cpu", "cpu")
    on_xla, on_plain = RECIPES[options.recipe](xla), RECIPES[options.recipe](plain)
    run = tpulab.run(options.recipe, log=False)
    kinds = {
        "xla": lambda: group(*on_xla, options.steps, None),
        "xla_agent": lambda: group(*on_xla, options.steps, run),
        "xla_again": lambda: group(*on_xla, options.steps, None),
        "eager": lambda: group(*on_plain, options.steps, None),
    }
    for measure in kinds.values():
        measure()  # compiles, and fills the caches
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for turn in range(options.rounds):
        # In another order each time, so that no kind always follows the same other one.
        for name in random.Random(turn).sample(sorted(kinds), len(kinds)):
            times[name].append(kinds[name]())
    quartile = {name: statistics.quantiles(values, n=4)[0] for name, values in times.items()}
    print(json.dumps({"recipe": options.recipe, "rounds": options.rounds, "step_ms": quartile}))


if __name__ == "__main__":
    main()
