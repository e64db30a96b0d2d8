"""A trace of two seconds, read immediately: compared with jax's own profiler on XLA:CPU."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from keeper_double import wait_until
from tpulab.measure import xla_profile
from tpulab.measure.read_trace import Event, self_times, summary
from tpulab.measure.xla_profile import ProfileError, capture


def test_an_operation_is_counted_without_the_operations_inside_it() -> None:
    """F21: a `while` was listed first, and the operations of a device added up to more than its time."""
    events = [
        Event(0, 10e6, "while", "a"),
        Event(1e6, 4e6, "dot", "a"),
        Event(2e6, 1e6, "add", "a"),
        Event(5e6, 4e6, "dot", "a"),
        Event(20e6, 5e6, "add", "b"),
    ]
    found, busy_ms = summary(self_times(reversed(events)))
    assert [(one["name"], one["module"], one["count"], one["totalMs"]) for one in found] == [
        ("dot", "a", 2, 7.0),
        ("add", "b", 1, 5.0),
        ("while", "a", 1, 2.0),
        ("add", "a", 1, 1.0),
    ]
    assert busy_ms == 15


def test_without_jax_it_states_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ProfileError, match="JAX has not used a device"):
        capture(0)


def test_the_operations_of_a_running_loop_are_found_with_their_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import jax
    import jax.numpy as jnp

    @jax.jit
    def train_step(x: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda x, _: (jnp.tanh(x @ x), None), x, None, length=20)[0].sum()

    x = jnp.ones((256, 256))
    train_step(x).block_until_ready()
    stop = threading.Event()
    turns: list[int] = []

    def loop() -> None:
        while not stop.is_set():
            train_step(x).block_until_ready()
            turns.append(1)

    def sleep(seconds: float) -> None:
        """Until a whole step has run, too, on a machine where none may finish during the trace."""
        before = len(turns)
        time.sleep(seconds)
        wait_until(lambda: len(turns) > before + 1, "a step of the loop")

    clock = SimpleNamespace(sleep=sleep, monotonic=time.monotonic)
    monkeypatch.setattr(xla_profile, "time", clock)
    # The training's own process reads no trace (F21).
    monkeypatch.setattr(jax.profiler.ProfileData, "from_file", None, raising=False)
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
    assert not profile["operations"][0]["name"].startswith("while")
    assert list(Path(profile["folder"]).rglob("*.xplane.pb"))


def test_the_newest_trace_stays_until_the_process_ends_and_none_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program = (
        "import tempfile; tempfile.tempdir = {folder!r}\n"
        "from tpulab.measure.xla_profile import new_folder\n"
        "new_folder(); (new_folder() / 'trace').touch()\n"
        "print(len(list(__import__('pathlib').Path({folder!r}).iterdir())))\n{end}"
    )

    def run(end: str) -> str:
        code = program.format(folder=str(tmp_path), end=end)
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        ).stdout

    assert run("") == "1\n"
    assert not list(tmp_path.iterdir()), "left after the process had ended"
    run("import os, sys; sys.stdout.flush(); os.kill(os.getpid(), 9)")
    assert len(list(tmp_path.iterdir())) == 1
    assert xla_profile.new_folder().name.startswith(f"tpulab-profile-{os.getpid()}-")
    assert len(list(tmp_path.iterdir())) == 1, "what a killed process left is still there"
    xla_profile.remove_all()
    assert not list(tmp_path.iterdir())


def test_the_newest_traces_of_a_run_stay_beside_its_log(tmp_path: Path) -> None:
    made = [xla_profile.new_folder(tmp_path / "run" / "traces") for _ in range(xla_profile.KEPT_TRACES + 2)]
    assert sorted((tmp_path / "run" / "traces").iterdir()) == made[2:]
    xla_profile.remove_all()
    assert all(folder.is_dir() for folder in made[2:])
    # Where the folder of the log is not writable, it is deleted with the kernel.
    (tmp_path / "file").touch()
    assert xla_profile.new_folder(tmp_path / "file").name.startswith(f"tpulab-profile-{os.getpid()}-")
    xla_profile.remove_all()


@pytest.mark.parametrize("of_the_user", [True, False])
def test_a_trace_that_fails_leaves_no_folder_and_says_whether_the_program_is_tracing(
    of_the_user: bool,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Case C13: with jax's own error."""
    import jax

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    jax.devices()

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no profiler here")

    if of_the_user:
        jax.profiler.start_trace(str(tmp_path_factory.mktemp("mine")))
    else:
        monkeypatch.setattr(jax.profiler, "start_trace", broken)
    try:
        words = "Your program is tracing itself" if of_the_user else "could not start: no profiler here"
        with pytest.raises(ProfileError, match=words):
            capture(0)
    finally:
        if of_the_user:
            jax.profiler.stop_trace()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", ["start_trace", "trace"])
def test_a_trace_that_the_user_begins_comes_first(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cases C13, N14: our trace yields, and the user's is complete."""
    import jax
    import jax.numpy as jnp

    jnp.ones(3).block_until_ready()
    traced = threading.Event()
    monkeypatch.setattr(
        xla_profile, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: traced.wait(60))
    )
    failures: list[ProfileError] = []

    def ours() -> None:
        try:
            capture(2)
        except ProfileError as error:
            failures.append(error)

    thread = threading.Thread(target=ours)
    plain = jax.profiler.start_trace
    thread.start()
    wait_until(lambda: jax.profiler.start_trace is not plain, "our trace")
    if form == "trace":
        with jax.profiler.trace(str(tmp_path)):
            jnp.ones(5).block_until_ready()
    else:
        jax.profiler.start_trace(str(tmp_path))
        jnp.ones(5).block_until_ready()
        jax.profiler.stop_trace()
    traced.set()
    thread.join()
    assert list(tmp_path.rglob("*.xplane.pb"))
    assert "gave way" in str(failures[0])
    assert jax.profiler.start_trace is plain
