"""Monitors memory while a voice is trained, and frees caches where that helps.

CUDA and MPS keep freed memory in a cache, which can be emptied. A TPU's memory is planned by the
compiler: there is nothing to empty, and the manager only reports.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from tpulab_recipes.english_tts.device_type import DeviceType

MIB = 2**20


class MemoryPressureLevel(IntEnum):
    LOW = 0
    MODERATE = 1
    HIGH = 2
    CRITICAL = 3


#: Shares of the memory above which pressure is moderate, high and critical.
THRESHOLDS: Mapping[DeviceType, tuple[float, float, float]] = {
    DeviceType.CUDA: (0.60, 0.75, 0.85),
    DeviceType.MPS: (0.55, 0.70, 0.82),
    DeviceType.CPU: (0.70, 0.80, 0.90),
    DeviceType.TPU: (0.75, 0.85, 0.95),
}


@dataclass(frozen=True)
class Strategy:
    """The action at a level. `every`: batches between two clean-ups; 0: no clean-up."""

    every: int = 0
    run_gc: bool = False
    clear_cache: bool = False


_FREES = {
    MemoryPressureLevel.LOW: Strategy(),
    MemoryPressureLevel.MODERATE: Strategy(100, clear_cache=True),
    MemoryPressureLevel.HIGH: Strategy(20, run_gc=True, clear_cache=True),
    MemoryPressureLevel.CRITICAL: Strategy(1, run_gc=True, clear_cache=True),
}
_COLLECTS = {
    MemoryPressureLevel.LOW: Strategy(),
    MemoryPressureLevel.MODERATE: Strategy(),
    MemoryPressureLevel.HIGH: Strategy(100, run_gc=True),
    MemoryPressureLevel.CRITICAL: Strategy(10, run_gc=True),
}
STRATEGIES: Mapping[DeviceType, Mapping[MemoryPressureLevel, Strategy]] = {
    DeviceType.CUDA: _FREES,
    DeviceType.MPS: _FREES,
    DeviceType.CPU: _COLLECTS,
    DeviceType.TPU: {level: Strategy() for level in MemoryPressureLevel},
}
#: Batches between two readings. CUDA, MPS and the host answer within microseconds; a TPU's runtime is
#: another process.
CHECK_EVERY: Mapping[DeviceType, int] = {
    DeviceType.CUDA: 1,
    DeviceType.MPS: 1,
    DeviceType.CPU: 1,
    DeviceType.TPU: 50,
}


@dataclass(frozen=True)
class MemoryUse:
    """Bytes; None: unknown."""

    used: int | None
    total: int | None
    peak: int | None = None
    reserved: int | None = None

    @property
    def share(self) -> float | None:
        return self.used / self.total if self.used is not None and self.total else None


class AdaptiveMemoryManager:
    """Not safe for several threads.

    Args:
        backend: whose device is watched (`Backend.memory`); the process's own memory on the host CPU.
        probe: instead of it, for tests.
        enabled: False: `adaptive_cleanup` does nothing.
    """

    def __init__(
        self,
        device: DeviceType,
        backend: Any = None,
        *,
        probe: Callable[[], MemoryUse] | None = None,
        enabled: bool = True,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.device, self.enabled = device, enabled
        self._probe = probe or _probe_of(device, backend)
        self._clock, self._began = clock, clock()
        self._shares: deque[float] = deque(maxlen=10)
        self._level = MemoryPressureLevel.LOW
        self._last_cleanup: int | None = None
        self.cleanups = 0
        self.emergencies = 0
        self.overhead_s = 0.0
        self.highest = MemoryPressureLevel.LOW

    def get_current_memory_stats(self) -> dict[str, float | None]:
        """`current_mb`, `reserved_mb`, `peak_mb`, `total_mb` and `usage_percent`; None: unknown."""
        use = self._probe()
        sizes = {"current": use.used, "reserved": use.reserved, "peak": use.peak, "total": use.total}
        found = {f"{name}_mb": None if size is None else size / MIB for name, size in sizes.items()}
        return found | {"usage_percent": None if use.share is None else 100 * use.share}

    def pressure(self, share: float | None) -> MemoryPressureLevel:
        """The level at a share of the memory; unknown counts as low."""
        if share is None:
            return MemoryPressureLevel.LOW
        return MemoryPressureLevel(sum(share > limit for limit in THRESHOLDS[self.device]))

    def should_cleanup(self, batch_idx: int) -> bool:
        """Whether a clean-up is due at this batch, at the last measured pressure."""
        every = STRATEGIES[self.device][self._level].every
        return every > 0 and (self._last_cleanup is None or batch_idx - self._last_cleanup >= every)

    def adaptive_cleanup(self, batch_idx: int, force: bool = False) -> dict[str, Any]:
        """Reads the memory and cleans up when due; returns the seed's row of readings and actions."""
        result: dict[str, Any] = {"cleaned": False, "cleanup_time_ms": 0.0, "pressure_level": self._level}
        if not (force or (self.enabled and batch_idx % CHECK_EVERY[self.device] == 0)):
            return result
        began = self._clock()
        before = self._check()
        result |= {"memory_before": before, "memory_after": before}
        if force or self.should_cleanup(batch_idx):
            self._clean(STRATEGIES[self.device][self._level], force)
            self._last_cleanup = batch_idx
            self.cleanups += 1
            result |= {"cleaned": True, "memory_after": self._check()}
        spent = self._clock() - began
        self.overhead_s += spent
        return result | {
            "cleanup_time_ms": 1e3 * spent if result["cleaned"] else 0.0,
            "pressure_level": self._level,
            "memory_trend": self.trend,
        }

    def emergency_cleanup(self) -> dict[str, Any]:
        """Frees everything possible after an allocation has failed."""
        self.emergencies += 1
        return self.adaptive_cleanup(self._last_cleanup or 0, force=True)

    @property
    def trend(self) -> float:
        """Percent of the memory: mean of the last five readings minus the mean of the previous five."""
        seen = list(self._shares)
        if len(seen) < 10:
            return 0.0
        return 100 * (sum(seen[5:]) - sum(seen[:5])) / 5

    @property
    def overhead_percent(self) -> float:
        """Share of the time since the manager was created."""
        return 100 * self.overhead_s / max(self._clock() - self._began, 1e-9)

    def metrics(self) -> dict[str, float]:
        """The seed's figures for Weights & Biases."""
        return {
            "memory/pressure": float(self._level),
            "memory/cleanup_count": float(self.cleanups),
            "memory/cleanup_overhead_percent": self.overhead_percent,
        }

    def get_memory_report(self) -> dict[str, Any]:
        return {
            "device": self.device.name,
            "current": self.get_current_memory_stats(),
            "pressure": self._level.name,
            "highest_pressure": self.highest.name,
            "cleanups": self.cleanups,
            "emergencies": self.emergencies,
            "overhead_percent": self.overhead_percent,
            "trend": self.trend,
        }

    def _check(self) -> float | None:
        share = self._probe().share
        if share is not None:
            self._shares.append(share)
        self._level = self.pressure(share)
        self.highest = max(self.highest, self._level)
        return share

    def _clean(self, strategy: Strategy, force: bool) -> None:
        if force or strategy.run_gc:
            gc.collect()
        if (force or strategy.clear_cache) and self.device in (DeviceType.CUDA, DeviceType.MPS):
            import torch

            if self.device is DeviceType.MPS and torch.backends.mps.is_available():
                torch.mps.empty_cache()
            if self.device is DeviceType.CUDA and torch.cuda.is_initialized():
                torch.cuda.empty_cache()


def _probe_of(device: DeviceType, backend: Any) -> Callable[[], MemoryUse]:
    if device is DeviceType.CPU or backend is None:
        import psutil  # type: ignore[import-untyped]

        process, total = psutil.Process(), psutil.virtual_memory().total
        return lambda: MemoryUse(process.memory_info().rss, total)

    def fullest() -> MemoryUse:
        known = [each for each in backend.memory() if each.used_bytes is not None and each.limit_bytes]
        if not known:
            return MemoryUse(None, None)
        one = max(known, key=lambda each: each.used_bytes / each.limit_bytes)
        return MemoryUse(one.used_bytes, one.limit_bytes, one.peak_bytes)

    return fullest
