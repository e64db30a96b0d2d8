"""The recipe's benchmark table: training speed on the attached device or, without one, the estimate of the
TPU compiler.

Rows that were compiled ahead of time are marked so: memory and operations of a step are the compiler's
figures, and nothing has run.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.common.progress import Progress
from tpulab_recipes.compile_ahead.tpu_compiler import MACHINES, compiler_for, measure
from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.model.unet import Network, count_parameters
from tpulab_recipes.ddpm.training.step_cost import batch_shapes, lower_ahead, refuse_too_large, speed
from tpulab_recipes.ddpm.training.train_step import compile_step, default_hyperparameters, make_initial_state
from tpulab_recipes.runtime.jax_mesh import make_mesh, put_batch

Pair = tuple[str, Config, int | None]


def measured_rows(pairs: Iterable[Pair], steps: int, progress: Progress) -> Iterator[Mapping[str, Any]]:
    """Runs each configuration for some steps on random data."""
    for name, config, batch in pairs:
        mesh = make_mesh()
        batch = batch or config.train.batch_size
        config = config.but({"train.batch_size": batch})
        network = Network(config)
        step = compile_step(network, mesh)
        refuse_too_large(network, mesh, step)
        state = make_initial_state(network, mesh, 0)
        rng = np.random.default_rng(0)
        data = put_batch(
            {
                key: rng.standard_normal(shape.shape).astype(shape.dtype)
                for key, shape in batch_shapes(config, batch).items()
            },
            mesh,
        )
        hyper = default_hyperparameters(config)
        progress.start(name, steps + 1, "compiling")
        times = []
        for _ in range(steps + 1):
            started = time.perf_counter()
            state, figures = step(state, data, hyper)
            jax.block_until_ready(figures)
            times.append(time.perf_counter() - started)
            progress.advance(1, "running")
        progress.finish()
        device = jax.devices()[0]
        rate = batch / float(np.median(times[1:]))
        yield (
            _row(name, config, network, batch)
            | speed(config, mesh.devices.flat, rate)
            | {
                "device": f"{len(mesh.devices.flat)} x {device.device_kind}",
                "kind": "measured",
                "iterations_per_s": rate / batch,
                "images_per_s": rate,
                "first_step_s": times[0],
            }
        )


def compiled_rows(
    pairs: Iterable[Pair], chips: Sequence[str] | None, progress: Progress
) -> Iterator[Mapping[str, Any]]:
    """Compiles each configuration's training step for each chip. Runs nothing."""
    chips = list(chips or MACHINES)
    for chip in chips:
        if chip not in MACHINES:
            raise ConfigError("--compile-for", f"{chip!r} is none of {', '.join(MACHINES)}.")
    pairs = list(pairs)
    progress.start("compile", len(pairs) * len(chips))
    for name, config, batch in pairs:
        for chip in chips:
            compiler = compiler_for(chip)
            count = len(compiler.devices)
            size = batch or config.train.batch_size
            size -= size % count
            sized = config.but({"train.batch_size": size})
            network = Network(sized)
            found = measure(compiler, lower_ahead(network, make_mesh(compiler.devices, hosts=1)))
            row = _row(name, sized, network, size) | {
                "device": f"{count} x {chip}",
                "kind": "compiled, not run",
                "compile_s": found["seconds"],
            }
            if found["compiles"]:
                row["memory_gib_per_device"] = found["need"] / 2**30
                row["tflop_per_step_and_device"] = found["flops"] / 1e12
            else:
                row["note"] = f"does not fit: {found['note'].split('RESOURCE_EXHAUSTED: ')[-1]}"
            progress.advance(1, f"{name} on {chip}")
            yield row
    progress.finish()


def _row(name: str, config: Config, network: Network, batch: int) -> dict[str, Any]:
    return {
        "model": name,
        "parameters_m": count_parameters(network.shapes) / 1e6,
        "resolution": config.dataset.args.image_size,
        "batch_size": batch,
    }


#: Keys of a row, and their column headings.
COLUMNS = {
    "model": "Model",
    "parameters_m": "Parameters (M)",
    "resolution": "Resolution",
    "device": "Device",
    "batch_size": "Batch size",
    "iterations_per_s": "Iterations/s",
    "images_per_s": "Images/s",
    "tflop_per_second": "TFLOP/s",
    "mfu_percent": "MFU (%)",
    "memory_gib_per_device": "Memory per device (GiB)",
    "tflop_per_step_and_device": "TFLOP per step and device",
    "kind": "How",
    "note": "Note",
}


def format_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a Markdown table; columns that no row fills are left out."""

    def text(value: Any) -> str:
        if isinstance(value, float):
            return f"{value:.1f}" if value >= 100 else f"{value:.3g}"
        return "" if value is None else str(value)

    columns = [key for key in COLUMNS if any(key in row for row in rows)]
    cells = [[COLUMNS[key] for key in columns], ["---"] * len(columns)]
    cells += [[text(row.get(key)) for key in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)
