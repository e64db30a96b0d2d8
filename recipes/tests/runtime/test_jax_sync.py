"""JAX submits programs and continues; the end of a clock or a profile must wait until they are done."""

from __future__ import annotations

import numpy as np
import pytest
from tpulab_recipes.runtime import installed_backends
from tpulab_recipes.runtime.selection import make


@pytest.mark.skipif("jax" not in installed_backends(), reason="JAX is not installed here")
def test_sync_waits_for_results_that_it_is_not_given() -> None:
    backend = make("jax", "cpu")

    def long(a: np.ndarray) -> np.ndarray:
        for _ in range(6):
            a = (a @ a) * 1e-3
        return a

    step = backend.compile(long)
    x = backend.to_device(np.random.default_rng(0).standard_normal((1024, 1024)).astype(np.float32))
    backend.sync(step(x))
    results = [step(x) for _ in range(3)]
    backend.sync()
    assert [result.is_ready() for result in results] == [True] * 3
