"""The effect of the kernelspecs' allocator settings on training on XLA:CPU: steps with and without them.

glibc returns memory of large arrays to the system immediately, and every step then pays for getting the same
pages again. `environments/jax/environment.json` raises both of its thresholds (`MALLOC_…`). Processes
with and without them train the small diffusion model in turns. Prints the median step time, the share of
system time in it, and the peak memory of the process. `npm run bench -- allocator [--steps N] [--turns N]`.
Writes `bench/results/allocator.json`. Meaningless on macOS, which has another allocator.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "bench" / "results" / "allocator.json"
#: First steps that do not count: they compile, and touch all memory for the first time.
WARM_UP = 5


def settings() -> dict[str, str]:
    spec = json.loads((ROOT / "environments" / "jax" / "environment.json").read_text())
    return {
        name: value for name, value in spec["kernelspec"]["envDefaults"].items() if name.startswith("MALLOC_")
    }


def train(steps: int) -> dict[str, float]:
    """In a separate process, because glibc reads its settings once."""
    import jax
    from tpulab_recipes.ddpm.data.pipeline import open_source
    from tpulab_recipes.ddpm.presets import load_config
    from tpulab_recipes.ddpm.training.trainer import Trainer
    from tpulab_recipes.runtime.jax_mesh import make_mesh

    config = load_config("small").but({"train.iterations": WARM_UP + steps})
    trainer = Trainer(config, open_source(config, None), mesh=make_mesh(jax.devices()[:1]))
    trainer.train(WARM_UP)
    system_s, took_s = resource.getrusage(resource.RUSAGE_SELF).ru_stime, []
    for number in range(WARM_UP + 1, WARM_UP + steps + 1):
        begin = time.perf_counter()
        jax.block_until_ready(trainer.train(number))
        took_s.append(time.perf_counter() - begin)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "stepMs": 1e3 * statistics.median(took_s),
        "systemPercent": 100 * (usage.ru_stime - system_s) / sum(took_s),
        "memoryMiB": usage.ru_maxrss / 1024,
    }


def in_process(steps: int, extra: dict[str, str]) -> dict[str, float]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    plain["PYTHONPATH"] = str(ROOT / "recipes" / "src")
    done = subprocess.run(
        [sys.executable, __file__, "--train", "--steps", str(steps)],
        env=plain | {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "8"} | extra,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=60, help="steps of one process")
    parser.add_argument("--turns", type=int, default=3, help="processes with, and as many without")
    parser.add_argument("--no-save", action="store_true")
    parser.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        print(json.dumps(train(options.steps)))
        return
    found: dict[str, list[dict[str, float]]] = {"without": [], "with": []}
    for _ in range(options.turns):
        found["without"].append(in_process(options.steps, {}))
        found["with"].append(in_process(options.steps, settings()))
    results: dict[str, Any] = {
        side: {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        for side, runs in found.items()
    }
    print(f"{'':10}{'ms a step':>12}{'in the system, %':>20}{'memory, MiB':>14}")
    for side, figures in results.items():
        cells = [figures[name] for name in ("stepMs", "systemPercent", "memoryMiB")]
        print(f"{side:10}{cells[0]:12.1f}{cells[1]:20.1f}{cells[2]:14.0f}")
    if not options.no_save:
        about = {"cores": os.cpu_count(), "steps": options.steps, "turns": options.turns}
        RESULT.write_text(json.dumps(about | {"settings": settings(), "results": results}, indent=2) + "\n")
        print(f"Written to {RESULT.relative_to(ROOT)}.")


if __name__ == "__main__":
    main()
