"""What every backend promises. The same tests run on each backend that the environment has."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from fits_xla import TooManyCompilations, compile_budget
from tpulab_recipes.runtime import Backend, Compilations, DeviceRuntimeError


def rows(count: int, width: int = 3) -> np.ndarray:
    return np.arange(count * width, dtype=np.float32).reshape(count, width)


def uniform(backend: Backend, key: Any) -> np.ndarray:
    """Eight numbers drawn on the device."""
    if backend.framework == "jax":
        import jax

        return np.asarray(jax.random.uniform(key, (8,)))
    import torch

    return torch.rand(8, device=backend.device()).cpu().numpy()


def test_it_describes_its_device(backend: Backend) -> None:
    text = backend.describe()
    assert "\n" not in text
    assert {"jax": "JAX", "torch": "orch"}[backend.framework] in text
    assert backend.platform == ("tpu" if backend.name == "torch_tpu" else "cpu")


def test_devices_and_world_agree(backend: Backend) -> None:
    world, devices = backend.world(), backend.devices()
    assert (world.process_index, world.process_count, world.is_main) == (0, 1, True)
    assert 1 <= world.local_devices == world.global_devices <= len(devices)
    assert [device.id for device in devices] == list(range(len(devices)))
    assert {device.platform for device in devices} == {backend.platform}


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "uint8"])
def test_values_return_from_the_device_bit_for_bit(backend: Backend, dtype: str) -> None:
    values = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 200, (4, 5)).astype(dtype)
    tree = {"a": values, "b": [values[:1], (values.T.copy(), 7, "text", None)]}
    back = backend.to_host(backend.to_device(tree))
    assert list(back) == ["a", "b"]
    assert isinstance(back["b"][1], tuple)
    assert back["b"][1][2:] == ("text", None)
    for got, sent in ((back["a"], values), (back["b"][0], values[:1]), (back["b"][1][0], values.T)):
        assert np.asarray(got).dtype == sent.dtype
        assert np.array_equal(np.asarray(got), sent)


def test_doubles_become_single_precision(backend: Backend) -> None:
    assert np.asarray(backend.to_host(backend.to_device(np.ones(3)))).dtype == np.float32


def test_a_host_copy_does_not_change_with_the_original(backend: Backend) -> None:
    tensor = backend.to_device(rows(4))
    copy = backend.to_host(tensor)
    if backend.framework == "torch":
        with backend.step():
            tensor.add_(1)
        backend.sync()
    else:
        assert np.asarray(copy).flags.owndata
    assert np.array_equal(np.asarray(copy), rows(4))


def test_a_step_computes_the_requested_result(backend: Backend) -> None:
    x = backend.to_device(rows(4))
    with backend.step():
        y = x @ x.T
    backend.sync(y)
    assert np.allclose(np.asarray(backend.to_host(y)), rows(4) @ rows(4).T)


def test_an_error_in_a_step_is_the_users_own(backend: Backend) -> None:
    with pytest.raises(ZeroDivisionError), backend.step():
        _ = 1 / 0
    test_a_step_computes_the_requested_result(backend)


def test_a_compiled_step_equals_the_plain_one_and_compiles_once_for_each_shape(backend: Backend) -> None:
    step = backend.compile(lambda a, b: (a @ b).sum() + a.mean(), name="product")

    def run(count: int) -> float:
        a, b = backend.to_device(rows(count)), backend.to_device(rows(count).T.copy())
        return float(np.asarray(backend.to_host(step(a, b))))

    expected = lambda count: float((rows(count) @ rows(count).T).sum() + rows(count).mean())  # noqa: E731
    assert run(4) == pytest.approx(expected(4), rel=1e-5)
    run(4)
    with compile_budget(0, backend):
        for _ in range(3):
            assert run(4) == pytest.approx(expected(4), rel=1e-5)
    before = backend.compilations()
    assert run(6) == pytest.approx(expected(6), rel=1e-5)
    made = backend.compilations() - before
    assert (made.count > 0) == backend.compiles_steps
    assert (made.seconds > 0) == (backend.compiles_steps and backend.times_compilations)


def test_a_compiled_step_that_reads_a_value_back_is_refused_and_the_next_one_works(backend: Backend) -> None:
    if backend.name != "torch_xla":
        return  # elsewhere the value is read, between two programs, or JAX has its own error for it
    x = backend.to_device(rows(4))
    with pytest.raises(DeviceRuntimeError, match="keep values on the device") as refused:
        backend.compile(lambda a: a * a.sum().item())(x)
    assert refused.value.code == "bad_program"
    test_a_step_computes_the_requested_result(backend)


def test_a_budget_that_is_exceeded_is_reported(backend: Backend) -> None:
    if not backend.compiles_steps:
        assert backend.compilations() == Compilations(0, 0.0)
        return
    x = backend.to_device(rows(3, width=11))
    budget = compile_budget(0, backend)
    kept = []  # what nobody holds at the end of a step is not computed, so not compiled either
    with pytest.raises(TooManyCompilations, match="where 0 were planned"), budget, backend.step():
        kept.append(x @ x.T - 3)


def test_equal_seeds_draw_equal_numbers_everywhere(backend: Backend) -> None:
    def draw(seed: int) -> list[np.ndarray]:
        key = backend.seed(seed)
        return [uniform(backend, key), np.random.random(4), np.array([random.random()])]

    first, again, other = draw(3), draw(3), draw(4)
    for one, same, different in zip(first, again, other, strict=True):
        assert np.array_equal(one, same)
        assert not np.array_equal(one, different)


def test_recomputed_layers_draw_the_same_random_numbers(backend: Backend) -> None:
    if backend.framework == "jax":  # draws by keys: nothing to put back
        return
    import torch
    from tpulab_recipes.runtime.torch_base import TorchBackend

    assert isinstance(backend, TorchBackend)
    backend.seed(3)
    x = backend.to_device(np.ones(64, np.float32)).requires_grad_()
    drop = torch.nn.Dropout(0.5)
    once = backend.recompute(lambda value: 3 * drop(value), x)
    torch.rand(8, device=backend.device())
    twice = backend.recompute(drop, once)
    twice.sum().backward()
    # What was dropped has no gradient, and what was kept has that of its factors.
    kept, slopes = backend.to_host([twice, x.grad])
    assert torch.equal(kept, slopes)
    assert 0 < int((kept == 0).sum()) < 64


def test_a_batch_is_divided_by_rows_and_is_still_whole(backend: Backend) -> None:
    count = backend.world().global_devices
    batch = backend.shard_batch({"x": rows(2 * count), "y": np.arange(2 * count, dtype=np.int32)})
    assert np.array_equal(np.asarray(backend.to_host(batch["x"])), rows(2 * count))
    pieces = backend.shards(batch["x"])
    assert [piece.shape for piece in pieces] == [(2, 3)] * count
    assert np.array_equal(np.concatenate(pieces), rows(2 * count))


def test_devices_that_share_a_part_hold_the_same_rows(backend: Backend) -> None:
    count = backend.world().global_devices
    pieces = backend.shards(backend.shard_batch(rows(2 * count), parts=1))
    assert len(pieces) == count
    assert all(np.array_equal(piece, rows(2 * count)) for piece in pieces)


def test_computing_with_a_divided_batch_gives_the_whole_result(backend: Backend) -> None:
    count = backend.world().global_devices
    x, w = backend.shard_batch(rows(4 * count)), backend.replicate(rows(3))
    with backend.step():
        total = (x @ w).sum()
    assert float(np.asarray(backend.to_host(total))) == pytest.approx(
        float((rows(4 * count) @ rows(3)).sum()), rel=1e-5
    )


def test_replicas_are_equal(backend: Backend) -> None:
    pieces = backend.shards(backend.replicate(rows(5)))
    assert len(pieces) == backend.world().local_devices
    assert all(np.array_equal(piece, rows(5)) for piece in pieces)


def test_a_batch_that_cannot_be_divided_is_refused_with_a_remedy(backend: Backend) -> None:
    count = backend.world().global_devices
    with pytest.raises(DeviceRuntimeError, match="cannot share") as refused:
        backend.shard_batch(rows(count), parts=count + 1)
    assert refused.value.code == "bad_batch"
    if count > 1:
        with pytest.raises(DeviceRuntimeError, match="drop the last ragged batch, or pad"):
            backend.shard_batch(rows(count + 1))


def test_batches_arrive_in_order_and_the_thread_ends_with_the_loop(backend: Backend) -> None:
    import threading

    count = backend.world().global_devices
    source = [rows(count) + number for number in range(5)]
    arrived = [np.asarray(backend.to_host(batch)) for batch in backend.batches(source)]
    assert all(np.array_equal(got, sent) for got, sent in zip(arrived, source, strict=True))

    left = backend.batches(iter(source))
    next(left)
    left.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "tpulab-prefetch"]


def test_batches_are_read_and_transferred_on_a_thread_while_steps_compile_nothing_more(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    count, seen = backend.world().global_devices, []
    shard_batch = backend.shard_batch

    def noted(*args: Any, **kwargs: Any) -> Any:
        seen.append(threading.current_thread().name)
        return shard_batch(*args, **kwargs)

    monkeypatch.setattr(backend, "shard_batch", noted)
    step = backend.compile(lambda a: (a * 3).sum())
    totals = [float(np.asarray(backend.to_host(step(batch)))) for batch in backend.batches([rows(count)] * 2)]
    with compile_budget(0, backend):
        for batch in backend.batches([rows(count)] * 30):
            totals.append(float(np.asarray(backend.to_host(step(batch)))))
    assert totals == [pytest.approx(float(rows(count).sum() * 3), rel=1e-5)] * 32
    assert set(seen) == {"tpulab-prefetch"}
    seen.clear()
    list(backend.batches([rows(count)], ahead=0))
    assert seen == [threading.current_thread().name]


def test_a_batch_that_cannot_be_divided_fails_in_the_loop_after_those_before_it(backend: Backend) -> None:
    count = backend.world().global_devices
    if count == 1:
        return
    batches = backend.batches([rows(count), rows(count + 1)])
    next(batches)
    with pytest.raises(DeviceRuntimeError, match="drop the last ragged batch"):
        next(batches)


def test_a_loader_that_fails_fails_in_the_loop_after_its_batches(backend: Backend) -> None:
    count = backend.world().global_devices

    def loader() -> Any:
        yield rows(count)
        raise OSError("the disk is gone")

    batches = backend.batches(loader())
    next(batches)
    with pytest.raises(OSError, match="the disk is gone"):
        next(batches)


def test_metrics_are_read_as_numbers(backend: Backend) -> None:
    loss = (
        backend.to_device(np.float32(1.5))
        if backend.framework == "torch"
        else backend.to_device(np.array(1.5))
    )
    assert backend.reduce_metrics({"loss": loss, "epoch": 2}) == {"epoch": 2.0, "loss": 1.5}
    with pytest.raises(ValueError, match="mean"):
        backend.reduce_metrics({"loss": loss}, how="median")  # type: ignore[arg-type]


def test_memory_is_a_number_or_unknown_for_each_device(backend: Backend) -> None:
    memory = backend.memory()
    assert len(memory) == backend.world().local_devices
    for each in memory:
        assert each.used_bytes is None or each.used_bytes >= 0
    peaks = [each.peak_bytes for each in memory if each.peak_bytes is not None]
    assert backend.peak_memory_bytes() == (max(peaks) if peaks else None)


@pytest.mark.parametrize(("name", "tolerance"), [("float32", 1e-5), ("bfloat16", 3e-2)])
def test_a_precision_has_its_effect(backend: Backend, name: Any, tolerance: float) -> None:
    draw = np.random.default_rng(1).standard_normal((32, 32)).astype(np.float32)
    with backend.precision(name) as precision:
        x = precision.cast(backend.to_device({"x": draw}))["x"]
        product = x @ x
    assert str(product.dtype).removeprefix("torch.") == name
    single = product.float() if backend.framework == "torch" else product.astype(np.float32)
    error = np.abs(np.asarray(backend.to_host(single)) - draw @ draw).max() / np.abs(draw @ draw).max()
    assert error < tolerance
    assert (error > 1e-4) == (name == "bfloat16")


def test_an_unknown_precision_is_refused(backend: Backend) -> None:
    with pytest.raises(ValueError, match="float32 or bfloat16"), backend.precision("float8"):  # type: ignore[arg-type]
        pass
