"""`tpulab check` of a notebook with five programs for one chip: the first time, and again.

The second check reuses the first one's cached compiler results. Needs the environment `aot`, or a Python with
libtpu in TPULAB_AOT_PYTHON.

Run in the environment `jax`: `python bench/check.py [--json FILE] [--chips v5e-8]`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Seconds, on two cores.
LIMITS = {"first": 60, "again": 10}

CELLS = [
    """import functools
import jax, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
rows, whole = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())""",
    """@functools.partial(jax.jit, out_shardings=whole)
def create(key):
    keys = jax.random.split(key, 4)
    return [{"up": jax.random.normal(k, (512, 2048)) * 0.02, "down": jnp.zeros((2048, 512))} for k in keys]
@functools.partial(jax.jit, out_shardings=rows)
def batch(key):
    return jax.random.normal(key, (256, 512))
params = create(jax.random.key(0))""",
    """def loss(params, x):
    h = x
    for layer in params:
        h = h + jax.nn.gelu(h @ layer["up"]) @ layer["down"]
    return ((h - x) ** 2).mean() + h.mean()
@functools.partial(jax.jit, donate_argnames=("params", "moments"))
def train(params, moments, x):
    value, grads = jax.value_and_grad(loss)(params, x)
    moments = jax.tree.map(lambda m, g: 0.9 * m + g, moments, grads)
    return jax.tree.map(lambda p, m: p - 0.1 * m, params, moments), moments, value
moments = jax.tree.map(jnp.zeros_like, params)
for n in range(3):
    params, moments, value = train(params, moments, batch(jax.random.key(n)))""",
    """evaluate = jax.jit(loss)
@jax.jit
def attend(x):
    q = x.reshape(256, 8, 64)
    return jax.nn.dot_product_attention(q[None], q[None], q[None], is_causal=True)
evaluate(params, batch(jax.random.key(9)))
attend(batch(jax.random.key(9)))""",
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--chips", default="v5e-8")
    options = parser.parse_args()
    cells = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": source}
        for source in CELLS
    ]
    results = {}
    with tempfile.TemporaryDirectory(prefix="tpulab-bench-") as place:
        folder = Path(place)
        notebook, report = folder / "five.ipynb", folder / "report.json"
        notebook.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}))
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "kernel-agent" / "src"),
            "TPULAB_COMPILATION_CACHE": str(folder / "compiled"),
        }
        command = [sys.executable, "-m", "tpulab.check", str(notebook), f"--chips={options.chips}"]
        for name, limit in LIMITS.items():
            began, used = time.perf_counter(), os.times()
            subprocess.run([*command, f"--json={report}"], env=environment, check=True, capture_output=True)
            seconds, after = time.perf_counter() - began, os.times()
            found = json.loads(report.read_text())
            results[name] = {
                "seconds": round(seconds, 1),
                "limitSeconds": limit,
                "processorSeconds": round(
                    after.children_user + after.children_system - used.children_user - used.children_system, 1
                ),
                "runSeconds": found["runSeconds"],
                "programs": len(found["programs"]),
                "compileSeconds": sum(each["compileSeconds"] for each in found["totals"].values()),
            }
            sys.stdout.write(f"{name}: {json.dumps(results[name])}\n")
    results["load"] = round(os.getloadavg()[0], 1)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    return int(any(results[name]["seconds"] > limit for name, limit in LIMITS.items()))


if __name__ == "__main__":
    sys.exit(main())
