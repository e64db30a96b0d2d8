"""A second process loads the programs of the first one, without a setting of the user."""

from __future__ import annotations

import os
import pathlib
import pwd
import subprocess
import sys

import pytest

from tpulab.compile.cache_folder import (
    DEFAULT_MB,
    cache_bytes,
    cache_folder,
    delete_oldest,
    keep_compiled_programs,
)

PROGRAM = """
from tpulab.compile.cache_folder import keep_compiled_programs
keep_compiled_programs()
import jax
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.jit(lambda x: x * 2.25 + 1)(jax.numpy.ones(3)).block_until_ready()
print(hits.count("/jax/compilation_cache/cache_hits"), jax.config.jax_compilation_cache_max_size)
"""


def test_a_second_process_loads_what_the_first_has_compiled(tmp_path: pathlib.Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    env |= {"JAX_PLATFORMS": "cpu", "TPULAB_COMPILATION_CACHE": str(tmp_path)}
    message = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True, timeout=300
        )
        for _ in range(2)
    ]
    (none, limit), (hits, _) = (one.stdout.split() for one in message)
    assert (int(none), int(limit)) == (0, DEFAULT_MB * 1_000_000)
    assert int(hits) > 0
    # XLA's output about programs from a cache would appear below the user's cell.
    assert message[1].stderr == message[0].stderr


def test_the_folder_is_the_usual_one_unless_it_is_moved_or_switched_off(tmp_path: pathlib.Path) -> None:
    assert cache_folder({"HOME": "/her"}) == pathlib.Path("/her/.cache/tpulab/compiled")
    assert cache_folder({"XDG_CACHE_HOME": "/c"}) == pathlib.Path("/c/tpulab/compiled")
    assert cache_folder({"XDG_CACHE_HOME": "c", "HOME": "/h"}) == pathlib.Path("/h/.cache/tpulab/compiled")
    own = pathlib.Path(pwd.getpwuid(os.getuid()).pw_dir, ".cache/tpulab/compiled")
    assert cache_folder({"HOME": "h"}) == cache_folder({}) == own
    assert cache_folder({"TPULAB_COMPILATION_CACHE": str(tmp_path)}) == tmp_path
    assert cache_folder({"TPULAB_COMPILATION_CACHE": "off"}) is None
    switched_off = {"TPULAB_COMPILATION_CACHE": "off"}
    keep_compiled_programs(switched_off)
    assert list(switched_off) == ["TPULAB_COMPILATION_CACHE"]


@pytest.mark.parametrize("name", ["JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE"])
def test_the_users_jax_settings_take_precedence(name: str) -> None:
    env = {"HOME": "/her", name: "theirs"}
    keep_compiled_programs(env)
    assert env == {"HOME": "/her", name: "theirs"}


def test_the_bound_can_be_set_in_megabytes() -> None:
    assert cache_bytes({"TPULAB_COMPILATION_CACHE_MB": "5"}) == 5_000_000
    assert cache_bytes({"TPULAB_COMPILATION_CACHE_MB": "much"}) == DEFAULT_MB * 1_000_000


def test_the_programs_used_longest_ago_are_deleted_first(tmp_path: pathlib.Path) -> None:
    for age, name in enumerate(["newest", "middle", "oldest"]):
        (tmp_path / name).write_bytes(bytes(100))
        os.utime(tmp_path / name, (1_000_000 - age, 1_000_000 - age))
    delete_oldest(tmp_path, 250)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["middle", "newest"]
    delete_oldest(tmp_path, 250)
    assert len(list(tmp_path.iterdir())) == 2
