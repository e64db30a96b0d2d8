"""Tries this environment out; prints one JSON line for each thing tried. `tpulab env check torch-tpu` runs
it."""

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
        ("PyTorch has the device tpu", device_of_pytorch, "Unset TORCH_DEVICE_BACKEND_AUTOLOAD."),
        ("a matmul on the host equals NumPy's", on_the_host, None),
        ("a kernel can start here", kernel, None),
        ("widgets work", widgets, None),
        ("the launcher, the agent and the recipes are there", own_packages, None),
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
    names = ("torch", "torchvision", "transformers", "datasets", "accelerate", "sklearn", "peft", "librosa")
    for name in names:
        importlib.import_module(name)
    shown = ("torch", "torch_tpu", "torchvision", "transformers")
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in shown)


def device_of_pytorch() -> str:
    """Loading the package registers the device `tpu` with PyTorch; initialising it needs a chip and is not
    tried."""
    import torch

    present = [
        name
        for name in ("is_available", "device_count", "manual_seed", "synchronize")
        if hasattr(torch.tpu, name)
    ]
    if len(present) != 4:
        raise AssertionError(f"torch.tpu has only {present}")
    return "torch.tpu is registered"


def on_the_host() -> str:
    import numpy as np
    import torch

    random = np.random.default_rng(0)
    left = random.standard_normal((64, 48), dtype=np.float32)
    right = random.standard_normal((48, 32), dtype=np.float32)
    error = float(np.abs((torch.from_numpy(left) @ torch.from_numpy(right)).numpy() - left @ right).max())
    if not error < 1e-4:
        raise AssertionError(f"the results differ by {error}")
    return f"largest difference {error:.1e}"


def kernel() -> str:
    from ipykernel.kernelapp import IPKernelApp

    return f"ipykernel {importlib.metadata.version('ipykernel')}, {IPKernelApp.__name__}"


def widgets() -> str:
    import ipywidgets

    value: int = ipywidgets.IntSlider(value=3).value
    if value != 3:
        raise AssertionError(f"a slider set to 3 says {value}")
    return f"ipywidgets {importlib.metadata.version('ipywidgets')}"


def own_packages() -> str:
    for name in ("tpulab.launcher", "tpulab_recipes.runtime"):
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(name)
    versions = (f"{name} {importlib.metadata.version(name)}" for name in ("tpulab", "tpulab-recipes"))
    return ", ".join(versions)


if __name__ == "__main__":
    sys.exit(main())
