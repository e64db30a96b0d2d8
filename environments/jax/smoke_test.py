"""Tries this environment out; prints one JSON line for each thing tried. `tpulab env check jax` runs it."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import sys
from collections.abc import Callable


def main() -> int:
    checks: list[tuple[str, Callable[[], str], str | None]] = [
        ("the packages import", packages, None),
        ("a compiled matmul on XLA equals NumPy's", matmul, None),
        ("XLA shows its devices", devices, "Unset JAX_PLATFORMS and XLA_FLAGS, or correct them."),
        ("a kernel can start here", kernel, None),
        ("widgets work", widgets, None),
        ("the launcher and the agent are there", agent, None),
    ]
    results = [report(name, tried, remedy) for name, tried, remedy in checks]
    return 0 if all(results) else 1


def report(name: str, tried: Callable[[], str], remedy: str | None) -> bool:
    try:
        detail, ok = tried(), True
    except Exception as error:  # whatever is wrong is the result
        detail, ok = f"{type(error).__name__}: {error}", False
    line = {"check": name, "ok": ok, "detail": detail, "remedy": None if ok else remedy}
    print(json.dumps(line), flush=True)
    return ok


def packages() -> str:
    names = ("jax", "jaxlib", "flax", "optax", "numpy", "matplotlib")
    for name in names:
        importlib.import_module(name)
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)


def matmul() -> str:
    import jax
    import numpy as np

    random = np.random.default_rng(0)
    left = random.standard_normal((64, 48), dtype=np.float32)
    right = random.standard_normal((48, 32), dtype=np.float32)
    product = jax.jit(lambda a, b: a @ b)(left, right)
    # Each of the 48 products is rounded once in float32; XLA may also add them in another order.
    error = float(np.abs(np.asarray(product) - left @ right).max())
    if not error < 1e-4:
        raise AssertionError(f"the results differ by {error}")
    return f"largest difference {error:.1e}"


def devices() -> str:
    import jax

    found = jax.devices()
    return f"{len(found)} devices, {found[0].platform}"


def kernel() -> str:
    from ipykernel.kernelapp import IPKernelApp

    return f"ipykernel {importlib.metadata.version('ipykernel')}, {IPKernelApp.__name__}"


def widgets() -> str:
    import ipywidgets

    value: int = ipywidgets.IntSlider(value=3).value
    if value != 3:
        raise AssertionError(f"a slider set to 3 says {value}")
    return f"ipywidgets {importlib.metadata.version('ipywidgets')}"


def agent() -> str:
    if importlib.util.find_spec("tpulab.launcher") is None:
        raise ModuleNotFoundError("tpulab.launcher")
    return f"tpulab {importlib.metadata.version('tpulab')}"


if __name__ == "__main__":
    sys.exit(main())
