"""The report about jax's compilation cache matches the files on the disk (N11, case C01)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tpulab.compile import cache
from tpulab.compile.cache import REQUEST_EVENT, WRITE_EVENT, outcome


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings: dict[str, object] = {"jax_compilation_cache_dir": str(tmp_path)}
    monkeypatch.setattr(cache, "_setting", lambda name, default: settings.get(name, default))
    return tmp_path


def words(name: str = "train_step") -> str:
    return outcome({REQUEST_EVENT, WRITE_EVENT}, 1500.0, name)["reason"] or ""


def test_a_written_entry_is_reported_as_stored(folder: Path) -> None:
    (folder / "jit_train_step-0a1b-cache").write_bytes(b"program")
    assert words().endswith("it is now.")


def test_a_damaged_entry_stays_and_is_not_called_stored(folder: Path) -> None:
    torn = folder / "jit_train_step-0a1b-cache"
    torn.write_bytes(b"pro")
    os.utime(torn, (time.time() - 3600,) * 2)
    (folder / "jit_another-0a1b-cache").write_bytes(b"program")
    assert "could not be stored" in words()
    assert str(folder) in words()


def test_a_full_disk_is_reported_as_not_stored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "jit_train_step-0a1b-cache").write_bytes(b"pro")
    full = os.statvfs(folder)

    class Full:
        f_bavail, f_blocks, f_frsize = 0, full.f_blocks, full.f_frsize

    monkeypatch.setattr(cache.os, "statvfs", lambda _: Full)
    assert words().endswith(f"could not be stored: the disk of {folder} is full.")


def test_a_file_and_a_read_only_folder_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache.os, "access", lambda *_: False)
    assert words().endswith(f"could not be stored: {folder} is read-only.")
    folder.rmdir()
    folder.write_text("not a folder")
    assert words().endswith(f"could not be stored: {folder} is not a folder.")


def test_one_line_replaces_the_warnings_of_jax(tmp_path: Path) -> None:
    program = (
        "from tpulab.compile.cache_folder import keep_compiled_programs\n"
        "keep_compiled_programs()\n"
        "import jax, jax.numpy as jnp, tpulab\n"
        "from tpulab.agent.process_agent import current_agent\n"
        "agent = current_agent()\n"
        "for n in range(2, 5):\n"
        "    jax.jit(lambda x: jnp.sin(x) @ x)(jnp.ones((n, n))).block_until_ready()\n"
        "agent.settle()\n"
    )
    (tmp_path / "jax").write_text("not a folder")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "TPULAB_"))}
    env |= {
        "TPULAB_COMPILATION_CACHE": str(tmp_path),
        "JAX_PLATFORMS": "cpu",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    }
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120, check=True
    )
    lines = [line for line in done.stderr.splitlines() if "cache" in line or "stored" in line]
    assert len(lines) == 1, done.stderr
    assert f"{tmp_path / 'jax'} is not a folder." in lines[0]


def test_a_removed_or_remote_folder_causes_no_error(folder: Path) -> None:
    folder.rmdir()
    assert "could not be stored" in words()
    assert cache.is_stored("gs://bucket/cache", "train_step", time.time())


def test_entries_of_other_shapes_are_not_called_damaged(folder: Path) -> None:
    """On a full disk: two entries of this function were read just before."""
    for key in ("0a1b", "2c3d"):
        entry = folder / f"jit_train_step-{key}-cache"
        entry.write_bytes(b"program")
        os.utime(entry, (time.time() - 3600,) * 2)
        entry.with_name(f"jit_train_step-{key}-atime").write_bytes(b"")
    assert "could not be stored" in words()


@pytest.mark.parametrize("bound", ["", "100000000"])
def test_it_is_reported_for_jax_itself(tmp_path: Path, bound: str) -> None:
    """Compiled twice: the second time jax finds the entry corrupted, and keeps it."""
    program = (
        "import json, jax, jax.numpy as jnp, tpulab, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "from tpulab.agent.process_agent import current_agent\n"
        "seen = []\n"
        "agent = current_agent()\n"
        "agent.recorder.taps.append(seen.extend)\n"
        "def cached(x): return jnp.sin(x) @ x\n"
        "jax.jit(cached)(jnp.ones((8, 8))).block_until_ready()\n"
        "agent.settle()\n"
        "print(json.dumps([m['cache']['reason'] or m['cache']['result'] for m in seen"
        " if m['type'] == 'compile' and m['function'] == 'cached' and m['phase'] == 'finished']))\n"
    )
    env = os.environ | {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
        **({"JAX_COMPILATION_CACHE_MAX_SIZE": bound} if bound else {}),
    }

    def start() -> str:
        done = subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120, check=True
        )
        [message] = json.loads(done.stdout.splitlines()[-1])
        return str(message)

    assert start().endswith("it is now.")
    assert start() == "hit"
    [entry] = tmp_path.glob("jit_cached-*-cache")
    entry.write_bytes(entry.read_bytes()[:100])
    os.utime(entry, (time.time() - 3600,) * 2)
    if not bound:
        assert "could not be stored" in start()
        return
    # With a bound, which kernels have, jax stores what it has read.
    assert start().endswith(f"is damaged, and jax does not replace it: delete {entry}.")
    entry.unlink()
    assert start().endswith("it is now.")
