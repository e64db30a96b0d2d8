"""Tries this environment out; prints one JSON line for each thing tried. `tpulab env check torch-xla` runs
it."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import os
import sys
from collections.abc import Callable


def main() -> int:
    # Whether a chip answers is for `tpulab doctor`; here the processor is asked, which every machine has.
    os.environ["PJRT_DEVICE"] = "CPU"
    checks: list[tuple[str, Callable[[], str], str | None]] = [
        ("the packages import", packages, None),
        ("torch and torch_xla fit each other", versions, None),
        (
            "a matmul compiled by XLA equals NumPy's",
            matmul,
            "Unset PJRT_DEVICE and XLA_FLAGS, or correct them.",
        ),
        ("a second step compiles nothing", compilations, None),
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
    names = (
        "torch",
        "torch_xla",
        "torchvision",
        "transformers",
        "datasets",
        "accelerate",
        "sklearn",
        "peft",
        "librosa",
    )
    for name in names:
        importlib.import_module(name)
    shown = ("torch", "torch_xla", "torchvision", "transformers")
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in shown)


def versions() -> str:
    found = {name: importlib.metadata.version(name).split("+")[0] for name in ("torch", "torch_xla")}
    if found["torch"] != found["torch_xla"]:
        raise AssertionError(
            f"torch_xla {found['torch_xla']} needs torch {found['torch_xla']}, not {found['torch']}"
        )
    return f"both are {found['torch']}"


def matmul() -> str:
    import numpy as np
    import torch
    import torch_xla

    random = np.random.default_rng(0)
    left = random.standard_normal((64, 48), dtype=np.float32)
    right = random.standard_normal((48, 32), dtype=np.float32)
    device = torch_xla.device()
    product = torch.from_numpy(left).to(device) @ torch.from_numpy(right).to(device)
    # Each of the 48 products is rounded once in float32; XLA may also add them in another order.
    error = float(np.abs(product.cpu().numpy() - left @ right).max())
    if not error < 1e-4:
        raise AssertionError(f"the results differ by {error}")
    return f"largest difference {error:.1e} on {device}"


def compilations() -> str:
    import torch
    import torch_xla
    from torch_xla.debug import metrics

    x = torch.ones(8, 8, device=torch_xla.device())
    counts = []
    for _ in range(3):
        with torch_xla.step():
            x = x * 0.5 + 1
        counts.append((metrics.metric_data("CompileTime") or (0,))[0])
    if counts[1] != counts[2]:
        raise AssertionError(f"programs compiled after each step: {counts}")
    return f"programs compiled after each step: {counts}"


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
