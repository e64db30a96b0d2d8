"""Profiles: captured by the real profiler while steps run, read by us and by JAX's own reader."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("PJRT_DEVICE", "CPU")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from tpulab_recipes.resnet_profiling.capture import STEP_NAME, Capture
from tpulab_recipes.resnet_profiling.summary import summarize
from tpulab_recipes.resnet_profiling.xplane import Event, Line, Plane, TraceError, newest_trace, read_trace
from tpulab_recipes.runtime import INPUT_NAME, Backend, installed_backends
from tpulab_recipes.runtime.selection import make

PROFILED = [name for name in ("torch_xla", "jax") if name in installed_backends()]


def square(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((128, 128)).astype(np.float32)


def product_on(backend: Backend) -> Any:
    if backend.framework == "torch":
        return lambda a: (a @ a) * 0.01
    return backend.compile(lambda a: (a @ a) * 0.01)


@pytest.fixture(scope="module", params=PROFILED)
def captured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Backend, Path]:
    """A capture of four of nine steps, asked for after the second."""
    backend = make(request.param, "cpu")
    folder = tmp_path_factory.mktemp("trace")
    x = backend.to_device(square(0))
    product = product_on(backend)
    capture = Capture(backend, folder, steps=4)
    for number in range(9):
        if number == 2:
            capture.request()
        with capture.step(), backend.step():
            x = product(x)
    assert not capture.running
    assert len(capture.done) == 1
    return backend, capture.done[0]


def test_the_trace_has_the_steps_that_were_requested(captured: tuple[Backend, Path]) -> None:
    summary = summarize(read_trace(captured[1]))
    assert len(summary.step_ms) == 4
    assert len(summary.between_ms) == 3
    assert 0 < summary.execute_ms <= summary.window_ms
    assert summary.compile_ms == 0
    assert summary.execute_ms + summary.gap_ms == pytest.approx(summary.window_ms)
    assert sum(operation.share for operation in summary.operations) == pytest.approx(1)
    assert any("dot" in operation.name or "fusion" in operation.name for operation in summary.operations)
    assert summary.as_text().startswith("4 steps of")


@pytest.mark.parametrize("name", PROFILED)
def test_the_row_for_input_equals_the_loops_wait_for_the_loader(name: str, tmp_path: Path) -> None:
    backend, slept, waited = make(name, "cpu"), [], []
    product, capture = product_on(backend), Capture(backend, tmp_path, steps=4)

    def slow_loader() -> Iterator[np.ndarray]:
        for number in range(6):
            began = time.perf_counter()
            time.sleep(0.05)
            slept.append(1e3 * (time.perf_counter() - began))
            yield square(number)

    batches = backend.batches(slow_loader(), ahead=0)
    for number in range(6):
        began = time.perf_counter()
        batch = next(batches)
        waited.append(1e3 * (time.perf_counter() - began))
        if number == 1:
            capture.request()
        with capture.step(), backend.step():
            product(batch)
    summary = summarize(read_trace(capture.done[0]))
    # Steps 1 to 4 were captured, so the waits are those for the batches of 2, 3 and 4. Each sleep lies within
    # the wait that the profile has, and that within the wait as the loop sees it. 1 %: two clocks.
    assert 0.99 * sum(slept[2:5]) <= summary.input_ms <= 1.01 * sum(waited[2:5])
    assert summary.input_ms <= sum(summary.between_ms)
    # A picosecond more than nothing: the figures are rounded one by one.
    assert summary.input_ms + summary.gap_ms <= summary.window_ms + 1e-9
    assert re.search(rf"^  input +{summary.input_ms:.1f} ms", summary.as_text(), re.MULTILINE)


def test_jax_reads_the_same_events_from_the_file(captured: tuple[Backend, Path]) -> None:
    profiler = pytest.importorskip("jax.profiler")
    theirs = Counter(
        (plane.name, event.name, round(event.duration_ns))
        for plane in profiler.ProfileData.from_file(str(captured[1])).planes
        for line in plane.lines
        for event in line.events
    )
    ours = Counter(
        (plane.name, event.name, round(event.duration_ns))
        for plane in read_trace(captured[1])
        for line in plane.lines
        for event in line.events
    )
    assert ours == theirs
    assert ours[next(key for key in ours if key[1] == STEP_NAME)] >= 1


def test_a_capture_that_the_loop_leaves_early_is_written_when_closed(tmp_path: Path) -> None:
    backend = make(next(name for name in ("torch_xla", "jax") if name in installed_backends()), "cpu")
    capture = Capture(backend, tmp_path, steps=5)
    capture.request()
    with capture.step():
        pass
    assert capture.running
    capture.close()
    capture.close()
    assert len(summarize(read_trace(newest_trace(tmp_path))).step_ms) == 1


def test_a_missing_and_a_damaged_trace_have_different_errors(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="There is no trace below"):
        newest_trace(tmp_path)
    with pytest.raises(TraceError, match="There is no trace"):
        read_trace(tmp_path / "x.xplane.pb")
    (tmp_path / "x.xplane.pb").write_bytes(b"\x0a\xff\xff\xff")
    with pytest.raises(TraceError, match="damaged"):
        read_trace(tmp_path / "x.xplane.pb")


def test_every_cut_of_a_trace_is_read_or_refused_never_anything_else(
    captured: tuple[Backend, Path], tmp_path: Path
) -> None:
    content = captured[1].read_bytes()
    for cut in range(0, len(content), max(1, len(content) // 60)):
        (tmp_path / "cut.xplane.pb").write_bytes(content[:cut])
        try:
            read_trace(tmp_path / "cut.xplane.pb")
        except TraceError:
            continue


def test_sums_of_a_made_up_device_trace() -> None:
    ms = 1e6
    host = Plane("/host:CPU", [Line("python", [Event(STEP_NAME, n * 10 * ms, 6 * ms) for n in range(3)])])
    device = Plane(
        "/device:TPU:0",
        [
            Line("XLA Modules", [Event("jit_step", 0, 30 * ms)]),
            Line(
                "XLA Ops",
                [Event(f"fusion.{n}", (1 + 10 * n) * ms, 3 * ms) for n in range(3)]
                + [Event("copy.1", 2 * ms, 1 * ms)],
            ),
        ],
    )
    summary = summarize([host, device])
    assert summary.step_ms == (6.0, 6.0, 6.0)
    assert summary.between_ms == (4.0, 4.0)
    assert (summary.window_ms, summary.execute_ms, summary.gap_ms) == (26.0, 9.0, 17.0)
    assert [(o.name, o.count, o.total_ms) for o in summary.operations] == [
        ("fusion", 3, 9.0),
        ("copy", 1, 1.0),
    ]


def test_only_the_part_of_a_compilation_within_the_steps_counts() -> None:
    ms = 1e6
    steps = [Event(STEP_NAME, (100 + 10 * n) * ms, 10 * ms) for n in range(2)]
    compilations = [
        Event("PjRtClient::Compile", 20 * ms, 30 * ms),  # before the first step
        Event("PjRtClient::Compile", 95 * ms, 8 * ms),  # 3 ms of it in the first step
        Event("PjRtClient::Compile", 112 * ms, 2 * ms),
        Event("PjRtClient::Compile", 118 * ms, 50 * ms),  # goes on after the last step
    ]
    summary = summarize([Plane("/host:CPU", [Line("python", steps), Line("compiler", compilations)])])
    assert (summary.window_ms, summary.compile_ms, summary.gap_ms) == (20.0, 7.0, 13.0)


def test_waits_for_input_are_not_a_gap_and_count_whole_where_the_device_still_works() -> None:
    ms = 1e6
    steps = [Event(STEP_NAME, 20 * n * ms, 5 * ms) for n in range(3)]
    waits = [
        Event(INPUT_NAME, -4 * ms, 4 * ms),  # before the first step
        Event(INPUT_NAME, 6 * ms, 12 * ms),
        Event(INPUT_NAME, 26 * ms, 12 * ms),
        Event(INPUT_NAME, 44 * ms, 9 * ms),  # the last 8 ms of it after the last step
    ]
    host = Plane("/host:CPU", [Line("python", [*steps, *waits])])
    device = Plane(
        "/device:TPU:0", [Line("XLA Ops", [Event(f"dot.{n}", (1 + 20 * n) * ms, 7 * ms) for n in range(2)])]
    )
    summary = summarize([host, device])
    assert summary.between_ms == (15.0, 15.0)
    assert (summary.window_ms, summary.input_ms, summary.execute_ms) == (45.0, 25.0, 14.0)
    assert summary.gap_ms == 10.0  # but for 1 to 18, 21 to 38 and 44 to 45
    assert [line.split()[0] for line in summary.as_text().splitlines()[1:6]] == [
        "input",
        "compile",
        "execute",
        "gap",
        "between",
    ]


def test_a_trace_without_steps_is_reported() -> None:
    with pytest.raises(TraceError, match="no step in this trace"):
        summarize([Plane("/host:CPU", [Line("python", [Event("something", 0, 1)])])])
