"""A training step of the diffusion recipe beside the same network in torch and in plain flax; its input
pipeline alone; sharding.

All sides in one run, in turns. `--torch PYTHON` names a Python with torch and diffusers (default: the
environment `torch-xla`'s, if it exists). Sections: `step` (ours, plain flax and optax without our additions,
torch), `input` (batches per second of the pipeline alone), `sharding` (one device and eight XLA:CPU devices
on the same cores).

Run in the environment `jax`: `python bench/ddpm.py [--json FILE] [--steps N] [--only SECTION]`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "recipes" / "src"))

TORCH_STEP = Path(__file__).parent / "torch_sides" / "ddpm_step.py"


def median_ms(step: Callable[[], Any], steps: int) -> dict[str, float]:
    """Median wall time and CPU time of single steps, each awaited. On a busy machine only the CPU time is
    meaningful."""
    step()
    times, used = [], []
    for _ in range(steps):
        started, ran = time.perf_counter(), time.process_time()
        step()
        times.append((time.perf_counter() - started) * 1e3)
        used.append((time.process_time() - ran) * 1e3)
    return {"ms": statistics.median(times), "cpuMs": statistics.median(used)}


def our_step(devices: int) -> Callable[[], Any]:
    import jax
    from tpulab_recipes.ddpm.data.pipeline import ShapesSource
    from tpulab_recipes.ddpm.model import Network
    from tpulab_recipes.ddpm.presets import SMALL
    from tpulab_recipes.ddpm.training.train_step import (
        compile_step,
        default_hyperparameters,
        make_initial_state,
    )
    from tpulab_recipes.runtime.jax_mesh import make_mesh, put_batch, replicated

    mesh = make_mesh(jax.devices()[:devices])
    network = Network(SMALL)
    program, state = compile_step(network, mesh), make_initial_state(network, mesh, 0)
    batch = put_batch(next(ShapesSource(SMALL, count=256).batches(0)), mesh)
    hyper = jax.device_put(default_hyperparameters(SMALL), replicated(mesh))
    held = [state]

    def step() -> None:
        held[0], figures = program(held[0], batch, hyper)
        figures["loss"].block_until_ready()

    return step


def plain_step() -> Callable[[], Any]:
    """The same network, loss and Adam in the usual form: no mesh, average, clipping, skipping or
    knobs."""
    import jax
    import optax
    from tpulab_recipes.ddpm.data.pipeline import ShapesSource
    from tpulab_recipes.ddpm.model import Network
    from tpulab_recipes.ddpm.presets import SMALL
    from tpulab_recipes.ddpm.training.train_step import diffusion_loss

    network = Network(SMALL)
    loss = diffusion_loss(network)
    optimizer = optax.adamw(SMALL.train.max_learning_rate, b2=0.99, weight_decay=SMALL.train.weight_decay)
    params = jax.device_put(network.init(0), jax.devices()[0])
    batch = jax.device_put(next(ShapesSource(SMALL, count=256).batches(0)), jax.devices()[0])

    @jax.jit
    def program(params: Any, moments: Any, key: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(params, batch, key)
        updates, moments = optimizer.update(gradient, moments, params)
        return optax.apply_updates(params, updates), moments, value

    held = [(params, optimizer.init(params))]

    def step() -> None:
        params, moments, value = program(*held[0], jax.random.key(0))
        held[0] = (params, moments)
        value.block_until_ready()

    return step


def torch_ms(python: str, steps: int) -> dict[str, float] | None:
    """Median step times (see `median_ms`) of the exported network in torch, in a separate process; None if
    that Python does not exist."""
    if not Path(python).exists():
        return None
    from tpulab_recipes.ddpm.export.exporter import export_to_diffusers
    from tpulab_recipes.ddpm.model import Network
    from tpulab_recipes.ddpm.presets import SMALL

    with tempfile.TemporaryDirectory() as folder:
        export_to_diffusers(Network(SMALL).init(0), SMALL, folder)
        command = [python, str(TORCH_STEP), folder, str(SMALL.train.batch_size), str(steps)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            sys.stderr.write(done.stderr[-2000:])
            return None
        return dict(json.loads(done.stdout.splitlines()[-1]))


def input_rate(seconds: float = 3.0) -> dict[str, float]:
    """Images per second of the pipeline alone: from memory, and from shards on disk."""
    from tpulab_recipes.common.progress import Silent
    from tpulab_recipes.common.storage import Folder
    from tpulab_recipes.ddpm.data.encode import encode
    from tpulab_recipes.ddpm.data.pipeline import EncodingSource, ShapesSource
    from tpulab_recipes.ddpm.data.shapes import write_shape_images
    from tpulab_recipes.ddpm.presets import SMALL
    from tpulab_recipes.runtime.prefetch import prefetched

    config = SMALL.but({"dataset.args.image_format": "png"})
    rates = {}
    with tempfile.TemporaryDirectory() as folder:
        write_shape_images(Folder(f"{folder}/images"), 2048)
        encode(config, f"{folder}/images", f"{folder}/data", Silent())
        for name, source in (
            ("memory", ShapesSource(config)),
            ("shards", EncodingSource(f"{folder}/data", config)),
        ):
            images = 0
            with prefetched(source.batches(0), 2) as batches:
                next(batches)
                started = time.perf_counter()
                while time.perf_counter() - started < seconds:
                    images += len(next(batches)["image"])
            rates[name] = images / seconds
    return rates


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=20, help="steps to measure (default 20)")
    parser.add_argument("--only", choices=("step", "input", "sharding"))
    parser.add_argument("--torch", default=str(ROOT / ".tpulab" / "envs" / "torch-xla" / "bin" / "python"))
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--cores", type=int, help="how many processors all sides may use (default: all)")
    options = parser.parse_args()
    if options.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    out = sys.stdout.write
    figures: dict[str, Any] = {"cores": len(os.sched_getaffinity(0)), "steps": options.steps}
    if options.only in (None, "step"):
        ours, plain = our_step(1), plain_step()
        # In turns: other work on the machine affects all sides alike.
        sides: dict[str, Callable[[int], dict[str, float] | None]] = {
            "ours": lambda steps: median_ms(ours, steps),
            "plain flax": lambda steps: median_ms(plain, steps),
            "torch": lambda steps: torch_ms(options.torch, steps),
        }
        rounds = [{name: side(options.steps // 2) for name, side in sides.items()} for _ in range(2)]
        best = {name: [found[name] for found in rounds] for name in sides}
        for key, what in (("ms", "ms"), ("cpuMs", "CPU ms")):
            row = {
                name: min(one[key] for one in values if one) for name, values in best.items() if all(values)
            }
            figures["stepMs" if key == "ms" else "stepCpuMs"] = row
            out(f"step of the small network, {what}: {', '.join(f'{k} {v:.1f}' for k, v in row.items())}\n")
    if options.only in (None, "input"):
        figures["inputImagesPerSecond"] = input_rate()
        for name, rate in figures["inputImagesPerSecond"].items():
            out(f"input alone from {name}: {rate:,.0f} images/s\n")
    if options.only in (None, "sharding"):
        one, eight = our_step(1), our_step(8)
        figures["shardingMs"] = {
            "1 device": median_ms(one, options.steps)["ms"],
            "8 devices, same cores": median_ms(eight, options.steps)["ms"],
        }
        for name, value in figures["shardingMs"].items():
            out(f"sharding, {name}: {value:.1f} ms\n")
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
