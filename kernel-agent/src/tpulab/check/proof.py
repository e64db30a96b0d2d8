"""Runs a step in several layouts on CPU devices, with the same random values, and compares the results.

    python -m tpulab.check.proof FOLDER

FOLDER has `proofs.json`, a list of programs of `layouts.Step.write_proof`; the others are compared with the
first. One JSON object per line, for each of the others: `{"difference": 3e-7}`, the largest difference in an
array as a share of its largest value, or `{"note": …}` where it is not known.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tpulab.check.chips import first_line
from tpulab.check.exported import as_called
from tpulab.check.layouts import AXES

#: Values below this are zero but for rounding.
ZERO = 1e-4


def main(argv: Sequence[str]) -> int:
    folder = Path(argv[0])
    listed = json.loads((folder / "proofs.json").read_text(encoding="utf-8"))
    devices = max(math.prod(each["mesh"]) for each in listed)
    os.environ |= {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(devices)}
    expected: list[Any] = []
    # A second moment is positive: where random values give no number, positive ones may.
    for positive in (False, True):
        expected = _results(listed[0], folder, positive)
        if _are_numbers(expected):
            break
    for each in listed[1:]:
        answer: dict[str, Any]
        try:
            answer = {"difference": _difference(expected, _results(each, folder, positive))}
        except Exception as error:
            answer = {"note": first_line(error)[:300]}
        if not _are_numbers(expected):
            answer = {"note": "the step gives no numbers for random values"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    return 0


def _results(program: Mapping[str, Any], folder: Path, positive: bool) -> list[Any]:
    import jax
    import numpy as np
    from jax.sharding import AxisType, NamedSharding, PartitionSpec

    kinds, count = (AxisType.Auto,) * 2, math.prod(program["mesh"])
    mesh = jax.make_mesh(program["mesh"], AXES, axis_types=kinds, devices=jax.devices()[:count])
    shardings = [NamedSharding(mesh, PartitionSpec(*place)) for *_, place in program["inputs"]]
    shapes = [
        jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)
        for (shape, dtype, _), sharding in zip(program["inputs"], shardings, strict=True)
    ]
    outputs = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in program["outputs"]]
    arrays = [
        jax.device_put(_values(number, shape, positive), shape.sharding)
        for number, shape in enumerate(shapes)
    ]
    with jax.enable_x64(True):
        function = as_called(shapes, outputs, (folder / program["file"]).read_bytes(), "cpu")
        return [np.asarray(each, np.float64) for each in jax.jit(function)(*arrays)]


def _values(number: int, shape: Any, positive: bool) -> Any:
    import jax.numpy as jnp
    import numpy as np

    rng = np.random.default_rng(number)
    if not jnp.issubdtype(shape.dtype, jnp.floating):
        # An index into any table, a class, a mask.
        return rng.integers(0, 2, shape.shape).astype(shape.dtype)
    values = 0.02 * rng.standard_normal(shape.shape, np.float32)
    return (abs(values) if positive else values).astype(shape.dtype)


def _are_numbers(results: Sequence[Any]) -> bool:
    import numpy as np

    return all(bool(np.isfinite(each).all()) for each in results)


def _difference(expected: Sequence[Any], found: Sequence[Any]) -> float:
    return max(
        (
            float(abs(one - other).max()) / max(float(abs(one).max()), ZERO)
            for one, other in zip(expected, found, strict=True)
            if one.size
        ),
        default=0.0,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
