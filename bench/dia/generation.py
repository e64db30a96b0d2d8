"""Times Dia's generation on XLA:CPU and in plain PyTorch; prints a JSON line. Run by `main.mjs` in the
environment `torch-xla`.

Greedy decoding of one text by a random model of 2 + 2 layers that never ends a text. `row_ms` is the median
time of a row around row 10, 100 and 1,000; each group of rows waits for the device at its end. For
comparison, transformers' own `generate`: CPU time per row of both in one run, and the share of equal tokens.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")
os.environ["CPU_NUM_DEVICES"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from tpulab_recipes.audio import sampling
from tpulab_recipes.dia import generation
from tpulab_recipes.dia.model import make_static, tiny_model, tiny_processor
from tpulab_recipes.runtime.selection import make
from transformers import DynamicCache, EncoderDecoderCache

TEXT = list(b"\x01 The quick brown fox jumps over the lazy dog.")
ROWS = 1_024
PLACES = (10, 100, 1_000)
GROUP = 4
sampling.STEPS_PER_CHECK = GROUP


def around(groups: list[tuple[int, float]]) -> dict[str, float]:
    """The median of the groups of rows near each place: (last row, ms per row)."""
    return {
        str(place): statistics.median(
            ms for row, ms in groups if row > GROUP and abs(row - place) <= max(8, place // 20)
        )
        for place in PLACES
        if groups[-1][0] >= place
    }


def endless(model: Any) -> Any:
    """Zeroes the weights of EOS on channel 0, so that another id is always more probable."""
    with torch.no_grad():
        model.logits_dense.weight[model.config.decoder_config.eos_token_id] = 0
    return model.eval()


def static(name: str) -> dict[str, Any]:
    backend = make(name, "cpu")
    model = backend.prepare(endless(tiny_model()))
    settings = generation.Sampling(max_tokens=ROWS - 1, temperature=0, text_length=128)

    def run() -> list[tuple[int, float]]:
        groups, last = [], [time.perf_counter()]

        def record(row: int) -> None:
            backend.sync()
            now = time.perf_counter()
            groups.append((row, (now - last[0]) * 1e3 / GROUP))
            last[0] = now

        generation.generate(model, backend, [TEXT], settings, on_progress=record)
        return groups

    before = backend.compilations()
    groups = run()
    made = backend.compilations()
    return {
        "row_ms": around(groups),
        "programs": made.count - before.count,
        "compile_s": made.seconds - before.seconds,
    }


@torch.no_grad()
def growing(name: str, rows: int) -> dict[str, Any]:
    """transformers' own cache, which grows: on XLA each row has its own shapes."""
    backend = make(name, "cpu")
    model = backend.prepare(endless(tiny_model()))
    # Otherwise the time would include reading the masks back.
    make_static(model)
    text, mask = generation._padded([TEXT], 128)
    text, mask = backend.to_device([torch.cat([text, torch.zeros_like(text)]), mask.repeat(2, 1)])
    received = model.model.encoder(input_ids=text, attention_mask=mask).last_hidden_state
    config = model.config.decoder_config
    row = backend.to_device(torch.full((2, 1, config.num_channels), config.bos_token_id))
    cache = EncoderDecoderCache(DynamicCache(config=config), DynamicCache(config=config))
    before, groups, last = backend.compilations(), [], time.perf_counter()
    for number in range(1, rows + 1):
        logits = model(
            attention_mask=mask,
            encoder_outputs=(received,),
            decoder_input_ids=row,
            decoder_attention_mask=backend.to_device(torch.ones(2, number, dtype=torch.bool)),
            past_key_values=cache,
            use_cache=True,
        ).logits.view(2, config.num_channels, -1)
        guided = logits[0] + 3 * (logits[0] - logits[1])
        row = guided[:, : config.eos_token_id].argmax(-1)[None, None].repeat(2, 1, 1)
        backend.sync()
        if number % GROUP == 0:
            now = time.perf_counter()
            groups.append((number, (now - last) * 1e3 / GROUP))
            last = now
    made = backend.compilations()
    return {
        "row_ms": around(groups),
        "programs": made.count - before.count,
        "compile_s": made.seconds - before.seconds,
    }


@torch.no_grad()
def beside_transformers(rows: int = 400) -> dict[str, float]:
    """`DiaForConditionalGeneration.generate` and ours, with the same text and the same rule."""
    inputs = tiny_processor()(["[S1] The quick brown fox jumps over the lazy dog."], padding=True)
    text = inputs.input_ids[0][inputs.attention_mask[0].bool()]
    plain, options = endless(tiny_model()), {"do_sample": False, "guidance_scale": 3.0, "top_k": 45}
    delay = plain.config.delay_pattern
    began = time.process_time()
    found = plain.generate(**inputs, **options, max_length=rows - max(delay))[0]
    figures = {"transformers' generate": (time.process_time() - began) * 1e3 / rows}
    settings = generation.Sampling(max_tokens=rows - 1, temperature=0, text_length=128)
    for name, backend_name, dtype in (
        ("plain PyTorch", "cpu", torch.float32),
        ("plain PyTorch, bfloat16", "cpu", torch.bfloat16),
        ("XLA:CPU", "torch_xla", torch.float32),
        ("XLA:CPU, bfloat16", "torch_xla", torch.bfloat16),
    ):
        backend = make(backend_name, "cpu")
        model = backend.prepare(endless(tiny_model()).to(dtype))
        generation.generate(model, backend, [text], settings)  # compiles
        began = time.process_time()
        codes = generation.generate(model, backend, [text], settings)[0]
        figures[name] = (time.process_time() - began) * 1e3 / rows
        length = min(len(codes), len(found) - 1 - max(delay))
        theirs = torch.stack([found[1 + d : 1 + d + length, c] for c, d in enumerate(delay)], 1)
        if dtype == torch.float32:  # Rounded to bfloat16, a random model decides differently.
            figures[f"{name}, equal tokens"] = float((codes[:length] == theirs).float().mean())
    return figures


def main() -> None:
    torch.set_num_threads(1)
    figures = {
        "static, XLA:CPU": static("torch_xla"),
        "growing cache, XLA:CPU, 20 rows": growing("torch_xla", 20),
        "growing cache, plain PyTorch": growing("cpu", ROWS),
        "static, plain PyTorch": static("cpu"),
    }
    sys.stdout.write(json.dumps({"rows": figures, "beside": beside_transformers()}) + "\n")


if __name__ == "__main__":
    main()
