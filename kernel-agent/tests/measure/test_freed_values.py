"""Arrays that the loop removes: deleted, donated, freed by another thread, under each hook (N1, T1, C02).

Each in a separate process, as jaxlib ends a process that queries whether a deleted array is ready.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from keeper_double import KeeperDouble

#: `free(array)` is one of the three ways; the body of each loop is one hook.
SCRIPT = """
import sys, threading, time
import jax, jax.numpy as jnp
import tpulab
way, *hooks = sys.argv[1:]
f = jax.jit(lambda a: (jnp.tanh(a @ a), a.sum()))
g = jax.jit(lambda a: a * 0.5 + 1, donate_argnums=0)
x = jnp.eye(200) * 1e-3
doomed = []

def in_another_thread():
    while True:
        while doomed:
            doomed[-1].delete()
            doomed.pop()
        time.sleep(0)

def settle():
    # What one thread deletes while another reads it ends jax itself: the user's own reads come later.
    while doomed:
        time.sleep(0)

if way == 'thread':
    sys.setswitchinterval(1e-5)
    threading.Thread(target=in_another_thread, daemon=True).start()
free = {'deleted': lambda a: a.delete(), 'donated': lambda a: g(a), 'thread': doomed.append}[way]
for hook in hooks:
    out = {}
    watch = (lambda: out.get('y')) if hook == 'watch_at_end' else None
    caught = 0
    run = tpulab.run(hook)
    for i in run.steps(range(300), watch=watch):
        y, total = f(x)
        out['y'] = y
        if hook == 'metric':
            run.log(total=total, index=i)
            free(total)
        elif hook == 'value':
            free(total)
            settle()
            try:
                float(total)
            except RuntimeError:
                caught += 1
        elif hook == 'wait':
            free(total)
            settle()
            try:
                total.block_until_ready()
            except (RuntimeError, ValueError):
                caught += 1
        elif hook == 'watch':
            tpulab.watch(y)
            free(y)
        elif hook in ('output', 'watch_at_end'):
            free(y)
        elif hook == 'memory' and i % 30 == 0:
            from tpulab.memory.owners import arrays_by_owner
            free(y)
            arrays_by_owner()
    if hook in ('value', 'wait'):
        assert caught == 300, caught
    run.finish()
    settle()
for a in jax.live_arrays():
    a.delete()
time.sleep(0.3)
print('alive', int(jnp.ones(3).sum()))
"""
HOOKS = ["metric", "value", "wait", "watch", "output", "watch_at_end", "memory"]


def run_hooks(folder: Path, way: str, hooks: list[str], **env: str) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    base = {name: value for name, value in os.environ.items() if not name.startswith("TPULAB_")}
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", str(script), way, *hooks],
        capture_output=True,
        text=True,
        timeout=240,
        env={**base, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1", **env},
        cwd=folder,
        check=False,
    )


@pytest.mark.parametrize("way", ["deleted", "donated", "thread"])
def test_a_freed_array_never_ends_the_process(keeper: KeeperDouble, tmp_path: Path, way: str) -> None:
    done = run_hooks(tmp_path, way, HOOKS, TPULAB_AGENT_SOCKET=str(keeper.path))
    assert (done.returncode, done.stdout) == (0, "alive 3\n"), done.stderr
    runs = {message["run"]: message for message in keeper.of_type("run")}
    assert [(run["name"], run["state"]) for run in runs.values()] == [(hook, "finished") for hook in HOOKS]
    for run in runs:
        batches = [message for message in keeper.of_type("steps") if message["run"] == run]
        assert sum(len(batch["steps"]) + batch["dropped"] for batch in batches) == 300
    read = keeper.steps(next(iter(runs)))
    # No value of another step, and the others are complete.
    assert all(step["metrics"]["index"] == step["index"] for step in read)
    assert all(abs(step["metrics"].get("total", 0.2) - 0.2) < 1e-6 for step in read)
    lost = sum("total" not in step["metrics"] for step in read)
    sent = [advice["message"] for advice in keeper.of_type("advice") if advice["kind"] == "freed-metric"]
    assert len(sent) == (lost > 0)
    assert all(f"was donated or deleted before it could be read in {lost} of" in text for text in sent)


def test_without_a_bridge_too(tmp_path: Path) -> None:
    done = run_hooks(tmp_path, "deleted", ["metric"])
    assert (done.returncode, done.stdout) == (0, "alive 3\n"), done.stderr
    assert "`total` was donated or deleted before it could be read" in done.stderr
