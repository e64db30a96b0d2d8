"""Which messages are printed once, with their remedy, and which are not."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import tpulab
from keeper_double import KeeperDouble
from tpulab.agent.backend_advice import advise_on_backend, advise_on_platform
from tpulab.compile.reason import bucket_advice, buckets
from tpulab.measure.sync_watch import STEPS_IN_A_ROW
from tpulab.telemetry.adviser import Adviser
from tpulab.telemetry.messages import DevicesMessage

CPU: DevicesMessage = {
    "type": "devices",
    "time": 1,
    "runtime": "jax",
    "runtimeVersion": "0",
    "platform": "cpu",
    "devices": [],
}


def adviser() -> tuple[Adviser, deque[Any]]:
    events: deque[Any] = deque()
    return Adviser(events, lambda: None), events


def machine(root: Path, chips: int) -> Path:
    for number in range(chips):
        folder = root / "sys/bus/pci/devices" / f"0000:00:0{number}.0"
        folder.mkdir(parents=True)
        (folder / "vendor").write_text("0x1ae0\n")
        (folder / "device").write_text("0x0063\n")
    other = root / "sys/bus/pci/devices/0000:00:1f.0"
    other.mkdir(parents=True)
    (other / "vendor").write_text("0x1ae0\n")
    (other / "device").write_text("0x0042\n")
    return root


def test_a_cpu_backend_beside_chips_is_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAX_PLATFORMS")
    speaker, events = adviser()
    root = machine(tmp_path, 4)
    advise_on_backend(CPU, speaker, root)
    advise_on_backend(CPU, speaker, root)
    [advice] = events
    assert (advice["kind"], "4 TPU chips" in advice["message"]) == ("cpu-backend", True)
    assert "JAX_PLATFORMS=tpu" in advice["remedy"]


def test_an_intended_or_only_cpu_backend_is_not_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speaker, events = adviser()
    advise_on_backend(CPU, speaker, machine(tmp_path / "a", 4))  # JAX_PLATFORMS=cpu, by conftest
    monkeypatch.delenv("JAX_PLATFORMS")
    advise_on_backend(CPU, speaker, machine(tmp_path / "b", 0))
    advise_on_backend({**CPU, "platform": "tpu"}, speaker, tmp_path / "a")
    assert not events


@jax.jit
def slow(x: jax.Array) -> jax.Array:
    """Some milliseconds of work that XLA:CPU does not run inline."""
    for _ in range(4):
        x = x @ x / 500.0
    return x.sum()


def matrix() -> jax.Array:
    return jnp.ones((500, 500))


def test_a_requested_platform_that_is_missing_is_explained_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C16: jax's own error stays in the cell."""
    speaker, events = adviser()
    error = RuntimeError("Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so")
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    advise_on_platform(error, speaker, tmp_path)
    monkeypatch.setenv("JAX_PLATFORMS", "tpu")
    for other in (error, error, ValueError(str(error)), RuntimeError("another")):
        advise_on_platform(other, speaker, tmp_path)
    [advice] = events
    assert advice["message"] == "JAX_PLATFORMS is 'tpu', and this machine has 0 TPU chips."
    assert "connect to a TPU VM" in advice["remedy"]


@pytest.mark.usefixtures("agent")
def test_a_loss_that_is_read_in_each_step_is_reported_once_with_its_line(keeper: KeeperDouble) -> None:
    x = matrix()
    # Twice as many: on a busy machine the device is sometimes done before the host reads.
    for _ in tpulab.steps(range(2 * STEPS_IN_A_ROW), name="reads"):
        float(slow(x))
    [advice] = keeper.wait(lambda: keeper.of_type("advice"), "the advice")
    assert advice["kind"] == "sync-each-step"
    line = Path(__file__).read_text().splitlines()[advice["location"]["line"] - 1]
    assert "float(slow(x))" in line


@pytest.mark.usefixtures("agent")
def test_a_loss_read_occasionally_or_by_the_log_gets_no_advice(keeper: KeeperDouble) -> None:
    x = matrix()
    steps = tpulab.steps(range(STEPS_IN_A_ROW * 3), name="rarely")
    for index in steps:
        loss = slow(x)
        steps.metric(loss=loss)
        if index % 10 == 0:
            float(loss)
    keeper.wait(keeper.ended_runs, "the end")
    assert not keeper.of_type("advice")


@pytest.mark.usefixtures("agent")
def test_a_smaller_last_batch_is_reported_with_what_to_do(keeper: KeeperDouble) -> None:
    @jax.jit
    def ragged(batch: jax.Array) -> jax.Array:
        return batch.sum()

    for size in tpulab.steps([16, 16, 16, 7]):
        ragged(jnp.ones((size, 4)))
    [advice] = keeper.wait(lambda: keeper.of_type("advice"), "the advice")
    assert (advice["kind"], "batch of 7 came after batches of 16" in advice["message"]) == (
        "ragged-batch",
        True,
    )
    assert "drop_last" in advice["remedy"]


def test_buckets_cover_all_sizes_with_few_programs() -> None:
    assert buckets([5, 9, 17, 30]) == [8, 16, 30]
    assert buckets([1]) == [1]
    assert len(buckets(list(range(1, 5000)))) == 4
    for sizes in ([3, 100], [7, 8, 9], [512]):
        assert max(buckets(sizes)) == max(sizes)


def test_advice_on_buckets_needs_several_sizes_of_one_axis() -> None:
    assert bucket_advice("x", "f", [(8, 3), (8, 5)]) is None
    assert bucket_advice("x", "f", [(8, 3), (9, 5), (10, 7)]) is None
    message = bucket_advice("x", "f", [(8, 3), (8, 5), (8, 12)])
    assert (
        message == "Axis 1 of `x` has had 3 sizes, each a program of `f`: pad it up to the next of 4, 8, 12."
    )
