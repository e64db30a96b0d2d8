"""Times the first stage of GPT-SoVITS: tokens per second with a static and with a growing cache;
prints a JSON line. Run by `main.mjs` in the environment `torch-xla`.

A random model of 4 layers and width 256 that never ends, one text of 40 phonemes, greedy.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")
os.environ["CPU_NUM_DEVICES"] = "1"

import torch
from tpulab_recipes.gpt_sovits.s1 import Sampling, Text2SemanticDecoder, generate
from tpulab_recipes.runtime.selection import make

SIZES = {"hidden_dim": 256, "head": 8, "n_layer": 4}
TEXT = list(range(1, 41))


def endless() -> Any:
    torch.manual_seed(0)
    model = Text2SemanticDecoder(**SIZES)
    with torch.no_grad():
        model.ar_predict_layer.weight[model.eos] = 0
    return model.eval()


def static(name: str, count: int) -> dict[str, float]:
    backend = make(name, "cpu")
    model = backend.prepare(endless())
    before = backend.compilations()
    settings = Sampling(top_k=1, max_ids=count)
    generate(model, backend, [TEXT], settings)
    made = backend.compilations() - before
    began = time.perf_counter()
    generate(model, backend, [TEXT], settings)
    per_s = count / (time.perf_counter() - began)
    return {"tokens_per_s": per_s, "programs": made.count, "compile_s": made.seconds}


@torch.no_grad()
def growing(name: str, count: int) -> dict[str, float]:
    """Like the original: keys and values are appended, so each token has its own shapes."""
    backend = make(name, "cpu")
    model = backend.prepare(endless())
    device, before = backend.device(), backend.compilations()
    text = torch.tensor([TEXT], device=device)
    states = model.text_states(
        text, torch.zeros(1, 1024, len(TEXT), device=device), torch.arange(len(TEXT), device=device)
    )
    caches: list[Any] = [None] * len(model.layers)
    hidden = torch.zeros(1, len(TEXT), len(TEXT), dtype=torch.bool, device=device)
    began = time.perf_counter()
    for number in range(count):
        for place, layer in enumerate(model.layers):
            q, k, v = layer.project(states)
            if caches[place] is not None:
                k, v = (torch.cat([old, new], 1) for old, new in zip(caches[place], (k, v), strict=True))
            caches[place] = (k, v)
            states = layer(
                states,
                (q, k, v),
                hidden if number == 0 else torch.zeros(1, 1, k.shape[1], dtype=torch.bool, device=device),
            )
        output = model.ar_predict_layer(states[:, -1])[:, : model.eos].argmax(-1)
        states = model.id_states(output[:, None], torch.tensor([number], device=device))
        backend.sync()
    seconds = time.perf_counter() - began
    made = backend.compilations() - before
    return {"tokens_per_s": count / seconds, "programs": made.count, "compile_s": made.seconds}


def main() -> None:
    torch.set_num_threads(1)
    found = {
        "static cache, XLA:CPU": static("torch_xla", 200),
        "growing cache, XLA:CPU, 10 tokens": growing("torch_xla", 10),
        "static cache, plain PyTorch": static("cpu", 200),
        "growing cache, plain PyTorch": growing("cpu", 200),
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
