"""The framework of a slice: the kernel's own, whatever else its environment has."""

from __future__ import annotations

import pytest

from tpulab.slice import frameworks
from tpulab.slice.errors import SliceError


@pytest.mark.parametrize(
    ("installed", "backend", "found"),
    [
        ("jax", "", "jax"),
        ("torch torch_xla", "", "torch"),
        ("torch torch_xla jax", "torch_xla", "torch"),
        ("jax torch torch_tpu", "", "jax"),
        ("jax torch torch_tpu", "jax", "jax"),
        ("jax torch torch_tpu", "torch_tpu", None),
        ("torch torch_tpu", "", None),
    ],
)
def test_a_slice_uses_the_kernels_framework_and_not_any_installed_one(
    monkeypatch: pytest.MonkeyPatch, installed: str, backend: str, found: str | None
) -> None:
    monkeypatch.setattr(frameworks, "find_spec", lambda name: name in [*installed.split(), "ipyparallel"])
    monkeypatch.setenv("TPULAB_BACKEND", backend)
    if found is not None:
        assert frameworks.check() == found
    else:
        with pytest.raises(SliceError, match="a process for each chip"):
            frameworks.check()
