"""Throughput of the encoders of `ddpm encode`, in pictures and captions per second: on the host CPU in
float32, and on the path for accelerators (`--encode-on`, bfloat16 batches in one program), in turns. Also per
second of CPU time, which other work on the machine disturbs less.

Run in the environment `torch-xla`: `python bench/ddpm_encoders.py [--device xla|cuda] [--json FILE]`. The
models have the structure of the published ones, a smaller width and random weights: a VAE whose latents have
an eighth of the side length, as in Stable Diffusion, CLIP's text model and T5's encoder. Without a chip `xla`
is XLA:CPU, which has no bfloat16 units: its figures show the cost of the path and not the speed of a TPU.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
import transformers
from diffusers import AutoencoderKL

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "recipes" / "src"), str(ROOT / "recipes" / "tests" / "ddpm_diffusers")]

import published  # noqa: E402
from tpulab_recipes.ddpm.data import torch_models  # noqa: E402

SIDE, TOKENS, WIDTH = 128, 77, 256
#: Two batches of the accelerator's program.
PICTURES, CAPTIONS = 16, 128


def write_models(folder: Path) -> None:
    """The tokenizers of the tests, and wider models."""
    published.write_all(folder)
    torch.manual_seed(0)
    sizes = {"num_hidden_layers": 6, "num_attention_heads": 4}
    clip = transformers.CLIPConfig.from_pretrained(folder / "clip").to_dict()
    clip["text_config"] |= sizes | {
        "hidden_size": WIDTH,
        "intermediate_size": 4 * WIDTH,
        "max_position_embeddings": TOKENS,
    }
    transformers.CLIPModel(transformers.CLIPConfig.from_dict(clip)).save_pretrained(folder / "clip")
    t5 = transformers.T5Config(
        vocab_size=200, d_model=WIDTH, d_kv=64, d_ff=4 * WIDTH, num_layers=6, num_heads=4
    )
    transformers.T5EncoderModel(t5).save_pretrained(folder / "t5")
    vae = AutoencoderKL(
        block_out_channels=(32, 64, 128, 128),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=2,
        latent_channels=4,
    )
    vae.save_pretrained(folder / "sd" / "vae")


def encoders(folder: Path) -> dict[str, tuple[int, Callable[[], list[np.ndarray]]]]:
    """The rows of a call, and the call."""
    random = np.random.default_rng(0)
    pictures = random.integers(0, 256, (PICTURES, SIDE, SIDE, 3), np.uint8)
    words = ["red", "large", "blue", "small", "circle", "cross", "green"]
    captions = [" ".join(random.choice(words, 12)) for _ in range(CAPTIONS)]

    def states(which: str) -> Callable[[], list[np.ndarray]]:
        name = str(folder / which)
        return lambda: torch_models.text_states(captions, which, name, TOKENS, WIDTH)

    latents = lambda: list(torch_models.encode_latents(pictures, str(folder / "sd")))  # noqa: E731
    return {
        "VAE, pictures": (PICTURES, latents),
        "CLIP, captions": (CAPTIONS, states("clip")),
        "T5, captions": (CAPTIONS, states("t5")),
    }


def measured(seconds: float, call: Callable[[], Any]) -> Iterator[tuple[float, float]]:
    """Yields the wall and CPU seconds of each call, for `seconds`; the first call, which loads and compiles,
    does not count."""
    call()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        started, ran = time.perf_counter(), time.process_time()
        call()
        yield time.perf_counter() - started, time.process_time() - ran


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("xla", "cuda"), default="xla")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each encoder, side and round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    rates: dict[str, dict[str, tuple[float, ...]]] = {}
    farthest: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place:
        write_models(Path(place))
        calls = encoders(Path(place))
        for _ in range(options.rounds):
            found: dict[str, list[list[np.ndarray]]] = {name: [] for name in calls}
            for requested in ("cpu", options.device):
                where, _ = torch_models.choose_device(requested)
                for name, (rows, call) in calls.items():
                    times = zip(*measured(options.seconds, call), strict=True)
                    before = rates.setdefault(name, {}).get(where, (0.0, 0.0))
                    best = (rows / min(some) for some in times)
                    rates[name][where] = tuple(map(max, best, before))
                    found[name].append(call())
            for name, (ours, theirs) in found.items():
                pairs = list(zip(ours, theirs, strict=True))
                largest = max(float(np.abs(one).max()) for one in ours)
                farthest[name] = max(float(np.abs(a - b).max()) for a, b in pairs) / largest
    for name, sides in rates.items():
        row = ", ".join(
            f"{rate:,.1f} ({of_cpu:,.1f} a CPU second) on {where}" for where, (rate, of_cpu) in sides.items()
        )
        sys.stdout.write(f"{name} a second: {row}; they differ by {farthest[name]:.2%} of the largest\n")
    if options.json is not None:
        options.json.write_text(json.dumps({"perSecond": rates, "difference": farthest}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
