"""A trace of two seconds, read at once: against jax's own profiler on XLA:CPU."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from tpulab.measure.xla_profile import Operation, ProfileError, capture, summary


def test_operations_are_summed_by_name_and_program() -> None:
    found = summary([Operation("dot", "a", 2e6), Operation("add", "a", 5e6), Operation("dot", "a", 4e6)])
    assert [(one["name"], one["count"], one["totalMs"]) for one in found] == [
        ("dot", 2, 6.0),
        ("add", 1, 5.0),
    ]


def test_without_jax_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ProfileError, match="Nothing has used a device"):
        capture(0)


def test_the_operations_of_a_running_loop_are_found_with_their_program() -> None:
    import jax
    import jax.numpy as jnp

    @jax.jit
    def train_step(x: jax.Array) -> jax.Array:
        return jnp.tanh(x @ x).sum()

    x = jnp.ones((256, 256))
    train_step(x).block_until_ready()
    stop = threading.Event()

    def loop() -> None:
        while not stop.is_set():
            train_step(x).block_until_ready()

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        profile = capture(0.3)
    finally:
        stop.set()
        thread.join()
    assert profile["durationMs"] >= 300
    assert {one["module"] for one in profile["operations"]} == {"jit_train_step"}
    assert 0 < sum(one["totalMs"] for one in profile["operations"]) <= profile["busyMs"] + 1e-6
    assert list(Path(profile["folder"]).rglob("*.xplane.pb"))
