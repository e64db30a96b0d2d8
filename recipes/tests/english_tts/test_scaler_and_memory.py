"""The scaler against torch's; the memory manager through every level of a made-up memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tpulab_recipes.english_tts.adaptive_memory_manager import (
    THRESHOLDS,
    AdaptiveMemoryManager,
    MemoryPressureLevel,
    MemoryUse,
)
from tpulab_recipes.english_tts.device_type import DeviceType, GraphicsBackend
from tpulab_recipes.english_tts.mps_grad_scaler import MPSGradScaler
from tpulab_recipes.runtime import DeviceRuntimeError


def test_the_scaler_is_torchs_over_a_sequence_with_overflows() -> None:
    settings: dict[str, Any] = {"init_scale": 1024.0, "growth_interval": 3}
    weights, scalers, optimizers = [], [], []
    for scaler in (MPSGradScaler(**settings), torch.amp.GradScaler("cpu", **settings)):
        weight = torch.nn.Parameter(torch.linspace(-1, 1, 5))
        weights.append(weight)
        scalers.append(scaler)
        optimizers.append(torch.optim.AdamW([weight], lr=0.1))
    seen = []
    for step in range(24):
        slope = float("inf") if step in (2, 3, 11) else float("nan") if step == 17 else 0.3 * step
        norms = []
        for weight, scaler, optimizer in zip(weights, scalers, optimizers, strict=True):
            scaler.scale((weight * slope).sum()).backward()
            scaler.unscale_(optimizer)
            norms.append(float(torch.nn.utils.clip_grad_norm_([weight], 1.0)))
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            if step == 12:
                scaler.load_state_dict(scaler.state_dict())
        assert torch.equal(*weights)
        assert scalers[0].get_scale() == scalers[1].get_scale()
        assert scalers[0].state_dict() == scalers[1].state_dict()
        seen.append(scalers[0].get_scale())
        if slope == slope and slope < 1e9:
            # Clipping sees gradients that are unscaled.
            assert norms[0] == norms[1] == pytest.approx(slope * 5**0.5, rel=1e-5)
    assert max(seen) > 1024 > min(seen)


def test_the_scaler_is_for_mps_and_does_nothing_when_off() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer, scaler = torch.optim.SGD([weight], lr=1.0), MPSGradScaler()
    assert (scaler._device, scaler.get_scale()) == ("mps", 65_536.0)
    scaler.scale(weight.sum()).backward()
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.step(optimizer)
    off = MPSGradScaler(enabled=False)
    assert (off.get_scale(), off.state_dict(), float(off.scale(torch.tensor(3.0)))) == (1.0, {}, 3.0)


@pytest.mark.parametrize("device", list(DeviceType))
def test_every_level_of_pressure_is_reached_at_its_threshold(device: DeviceType) -> None:
    share = [0.0]
    manager = AdaptiveMemoryManager(device, probe=lambda: MemoryUse(int(share[0] * 10_000), 10_000))
    manager.should_cleanup = lambda _: False  # type: ignore[method-assign]
    levels = []
    for limit in (0.0, *THRESHOLDS[device]):
        share[0] = limit + 0.01
        levels.append(manager.adaptive_cleanup(0)["pressure_level"])
        if limit:
            share[0] = limit - 0.01
            assert manager.adaptive_cleanup(0)["pressure_level"] == levels[-2]
    assert levels == list(MemoryPressureLevel)
    assert manager.get_memory_report()["highest_pressure"] == "CRITICAL"
    assert THRESHOLDS[DeviceType.CUDA] == (0.60, 0.75, 0.85)


def test_clean_ups_come_as_often_as_the_level_requires_and_are_counted_with_their_time() -> None:
    now, share = [0.0], [0.5]

    def probe() -> MemoryUse:
        now[0] += 0.001
        return MemoryUse(int(share[0] * 1000), 1000, peak=900, reserved=800)

    manager = AdaptiveMemoryManager(DeviceType.CUDA, probe=probe, clock=lambda: now[0])
    cleaned = []
    for batch in range(364):
        now[0] += 0.099
        share[0] = 0.5 if batch < 100 else 0.7 if batch < 320 else 0.8 if batch < 360 else 0.95
        result = manager.adaptive_cleanup(batch)
        if result["cleaned"]:
            cleaned.append(batch)
            assert result["cleanup_time_ms"] == pytest.approx(2)
    # Moderate: every 100; high: every 20; critical: every batch.
    assert cleaned == [100, 200, 300, 320, 340, *range(360, 364)]
    assert manager.metrics()["memory/cleanup_count"] == len(cleaned)
    assert manager.overhead_percent == pytest.approx(100 * (364 + 9) / (364 * 100 + 9), rel=1e-3)
    stats = manager.get_current_memory_stats()
    assert stats["usage_percent"] == pytest.approx(95)
    assert manager.emergency_cleanup()["cleaned"]
    assert manager.get_memory_report()["emergencies"] == 1


def test_the_trend_compares_the_last_five_readings_with_the_five_before() -> None:
    shares = iter([0.1] * 5 + [0.3] * 5)
    manager = AdaptiveMemoryManager(DeviceType.MPS, probe=lambda: MemoryUse(int(next(shares) * 1000), 1000))
    trends = [manager.adaptive_cleanup(batch)["memory_trend"] for batch in range(10)]
    assert trends[:9] == [0.0] * 9
    assert trends[9] == pytest.approx(20)


def test_a_tpu_is_only_monitored_and_unknown_pressure_is_low() -> None:
    manager = AdaptiveMemoryManager(DeviceType.TPU, probe=lambda: MemoryUse(99, 100))
    assert not any(manager.adaptive_cleanup(batch)["cleaned"] for batch in range(200))
    assert manager.get_memory_report()["pressure"] == "CRITICAL"
    unknown = AdaptiveMemoryManager(DeviceType.TPU, probe=lambda: MemoryUse(None, None))
    unknown.adaptive_cleanup(0)
    assert unknown.get_memory_report()["pressure"] == "LOW"
    assert unknown.get_current_memory_stats()["usage_percent"] is None


def test_each_device_computes_in_a_precision_that_it_supports() -> None:
    amps = {device.name: device.amp for device in DeviceType}
    assert amps == {"CUDA": "float16", "MPS": "float16", "CPU": "float32", "TPU": "bfloat16"}
    for device in (DeviceType.CUDA, DeviceType.MPS, DeviceType.CPU):
        if not (device is DeviceType.CUDA and torch.cuda.is_available()):
            with pytest.raises(DeviceRuntimeError, match=f"no {device.name} device"):
                GraphicsBackend(device)


def test_a_graphics_device_is_refused_to_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """All shared the first device, and with the scaler none saw the others' gradients."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(DeviceRuntimeError, match=r"one process; unset WORLD_SIZE"):
        GraphicsBackend(DeviceType.CUDA)
