"""Chooses the backend of this process, once, and explains clearly why it is not available."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
from typing import Any

from tpulab_recipes.runtime.backend import Backend
from tpulab_recipes.runtime.errors import DeviceRuntimeError
from tpulab_recipes.runtime.figures import PLATFORMS, Platform

#: Name, the module that must be there, and the class. In the order in which one is chosen when none is named.
_BACKENDS: dict[str, tuple[str, str]] = {
    "torch_tpu": ("torch_tpu", "TorchTpuBackend"),
    "torch_xla": ("torch_xla", "TorchXlaBackend"),
    "jax": ("jax", "JaxBackend"),
    "cpu": ("torch", "CpuBackend"),
}
#: Names the backend when the program does not; set by the kernelspecs of this project.
VARIABLE = "TPULAB_BACKEND"

_current: Backend | None = None


def installed_backends() -> list[str]:
    """Names of the backends whose framework is installed here, with or without a chip."""
    return [name for name, (module, _) in _BACKENDS.items() if _is_installed(module)]


def _is_installed(module: str) -> bool:
    spec = importlib.util.find_spec(module)
    # No origin: a folder of that name beside the notebook, which Python takes for a namespace package.
    return spec is not None and spec.origin is not None


def use(name: str | None = None, *, platform: Platform | None = None, **options: Any) -> Backend:
    """Chooses the backend for this process and starts it.

    Args:
        name: `torch_tpu`, `torch_xla`, `jax` or `cpu`. Default: what TPULAB_BACKEND names, else the first of
            these that is installed.
        platform: `tpu` or `cpu`, to require it. Default: the chip where there is one, else the host CPU.
        options: `spmd=True`: one program over all devices, which `torch_xla` must know before the first
            tensor.

    Returns:
        the backend; `describe()` puts the choice in words. The same request returns the same backend.

    Raises:
        DeviceRuntimeError: there is no such backend, its framework or its chip is missing, or another one
            runs in this process already. Never falls back to the host CPU where a chip was requested.
    """
    global _current
    chosen = name or os.environ.get(VARIABLE) or _first_installed()
    if platform is not None and platform not in PLATFORMS:
        raise DeviceRuntimeError("unknown_backend", f'There is no platform "{platform}"; choose cpu or tpu.')
    if chosen not in _BACKENDS:
        near = difflib.get_close_matches(chosen, _BACKENDS, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"choose one of {', '.join(_BACKENDS)}."
        source = "" if name else f" (from {VARIABLE})"
        raise DeviceRuntimeError("unknown_backend", f'There is no backend "{chosen}"{source}; {hint}')
    if _current is not None:
        _check_same(_current, chosen, platform, options)
        return _current
    _current = make(chosen, platform, **options)
    return _current


def current() -> Backend:
    """The backend of this process; chosen now, by default, when nothing has been chosen yet."""
    return _current if _current is not None else use()


def make(name: str, platform: Platform | None, **options: Any) -> Backend:
    module = importlib.import_module(f"tpulab_recipes.runtime.{name}")
    backend: Backend = getattr(module, _BACKENDS[name][1])(platform, **options)
    return backend


def _first_installed() -> str:
    found = installed_backends()
    if found:
        return found[0]
    raise DeviceRuntimeError(
        "framework_missing",
        "Neither PyTorch nor JAX is installed in this environment; run with the kernel of one of TPULab's "
        "environments (`tpulab env list` shows them).",
    )


def _check_same(running: Backend, name: str, platform: str | None, options: dict[str, Any]) -> None:
    wanted = {"name": name, "platform": platform or running.platform, **options}
    is_now = {key: getattr(running, key, None) for key in wanted}
    if wanted != is_now:
        changed = ", ".join(f"{key}={wanted[key]!r}" for key in wanted if wanted[key] != is_now[key])
        raise DeviceRuntimeError(
            "too_late",
            f"This process already runs on {running.describe()}, and {changed} was requested; restart the "
            "kernel and choose it before the first tensor is made.",
        )
