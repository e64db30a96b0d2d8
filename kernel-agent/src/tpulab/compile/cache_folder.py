"""Where kernels store compiled programs, so that a restarted kernel loads an earlier kernel's programs.

Set before jax or torch_xla are imported. The user's settings for either of them take precedence.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import pwd
from collections.abc import MutableMapping
from importlib.util import find_spec

from tpulab.compile.cache import warn_once

#: A folder instead of the default one, or `off`.
VARIABLE = "TPULAB_COMPILATION_CACHE"
#: Megabytes that the programs of one framework may take; the least recently used ones are deleted.
SIZE_VARIABLE = "TPULAB_COMPILATION_CACHE_MB"
DEFAULT_MB = 10_000
_JAX_FOLDER, _JAX_BYTES = "JAX_COMPILATION_CACHE_DIR", "JAX_COMPILATION_CACHE_MAX_SIZE"
#: Below the working directory of a kernel: programs that `tpulab check --save-compiled` compiled for it.
COMPILED_AHEAD = ".tpulab-compiled"


def cache_folder(env: MutableMapping[str, str]) -> pathlib.Path | None:
    """The folder for compiled programs; None: they are not stored."""
    requested = env.get(VARIABLE, "")
    if requested == "off":
        return None
    if requested:
        return pathlib.Path(requested).expanduser()
    # Relative values are ignored: they would mean a different folder in each working directory.
    bases = [env.get("XDG_CACHE_HOME", ""), f"{env.get('HOME', '')}/.cache" if env.get("HOME") else ""]
    with contextlib.suppress(KeyError):  # an id without an account, as in some containers
        bases.append(f"{pwd.getpwuid(os.getuid()).pw_dir}/.cache")
    base = next((base for base in map(pathlib.Path, bases) if base.is_absolute()), None)
    return None if base is None else base / "tpulab" / "compiled"


def keep_compiled_programs(env: MutableMapping[str, str] = os.environ) -> None:
    """Names the folder to jax, and to torch_xla where it runs on chips: its XLA:CPU cannot load programs."""
    folder = cache_folder(env)
    if folder is None:
        return
    limit = cache_bytes(env)
    # Without filelock jax cannot bound its cache, and would fill the disk.
    if not {_JAX_FOLDER, "JAX_ENABLE_COMPILATION_CACHE"} & env.keys() and find_spec("filelock"):
        env[_JAX_FOLDER] = str(folder / "jax")
        env.setdefault(_JAX_BYTES, str(limit))
        warn_once()
    if env.get("PJRT_DEVICE") == "TPU":
        from tpulab.runtimes.import_hook import AfterImport

        AfterImport("torch_xla", lambda: _keep_torch_xla_programs(folder / "torch_xla", limit)).install()


def cache_bytes(env: MutableMapping[str, str]) -> int:
    """The bound; a value that is not a whole number counts as the default."""
    text = env.get(SIZE_VARIABLE, "")
    return (int(text) if text.isdigit() else DEFAULT_MB) * 1_000_000


def delete_oldest(folder: pathlib.Path, limit: int) -> None:
    """Deletes the least recently used files until the rest takes at most `limit` bytes."""
    files = sorted(
        ((file, file.stat()) for file in folder.iterdir() if file.is_file()),
        key=lambda one: max(one[1].st_atime, one[1].st_mtime),
    )
    excess = sum(stat.st_size for _, stat in files) - limit
    for file, stat in files:
        if excess <= 0:
            return
        file.unlink(missing_ok=True)
        excess -= stat.st_size


def _keep_torch_xla_programs(folder: pathlib.Path, limit: int) -> None:
    import torch_xla.runtime

    folder.mkdir(parents=True, exist_ok=True)
    # This cache has no size limit itself.
    delete_oldest(folder, limit)
    torch_xla.runtime.initialize_cache(str(folder))
