"""Packages that a cell installs go into the kernel's own environment, and can be imported immediately.

`!pip` and `!python` run the first match in PATH, `%uv` and `!uv` act on VIRTUAL_ENV: all are set to the
environment of the kernel. An environment without pip gets it when a cell first uses it. `tpulab env create`
reads added packages from the environment itself, so nothing is recorded here.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_PIP = re.compile(r"(?<!uv )\bpip[0-9.]*\b")
_INSTALLER = re.compile(r"\b(pip[0-9.]*|uv|conda|mamba)\b")


def use_own_environment(shell: Any) -> None:
    """For the cells of this shell and the programs that they start."""
    _first_in_path()
    # `!` becomes one of these.
    shell.system = _with_installers(shell.system)
    shell.getoutput = _with_installers(shell.getoutput)
    for name, magic in (("pip", _pip), ("uv", _uv)):
        shell.register_magic_function(_magic_for(shell, magic), magic_name=name)
    if not _is_conda():
        for name in ("conda", "mamba", "micromamba"):
            shell.register_magic_function(_conda, magic_name=name)


def _first_in_path() -> None:
    own = str(Path(sys.prefix) / "bin")
    path = [own, *(each for each in os.environ.get("PATH", os.defpath).split(os.pathsep) if each != own)]
    uv = _uv_program()
    if uv is not None and str(Path(uv).parent) not in path:
        path.append(str(Path(uv).parent))
    os.environ["PATH"] = os.pathsep.join(path)
    os.environ.pop("PYTHONHOME", None)
    # The environment that was active at the bridge's start is another one.
    os.environ.pop("VIRTUAL_ENV", None)
    if _is_conda():
        os.environ["CONDA_PREFIX"] = sys.prefix
    elif sys.prefix != sys.base_prefix:
        os.environ["VIRTUAL_ENV"] = sys.prefix


def _with_installers(run: Callable[..., Any]) -> Callable[..., Any]:
    def with_installers(command: str, *args: Any, **options: Any) -> Any:
        if _INSTALLER.search(command) is None:
            return run(command, *args, **options)
        if _PIP.search(command):
            ensure_pip()
        try:
            return run(command, *args, **options)
        finally:
            # Python caches the contents of its folders.
            importlib.invalidate_caches()

    return with_installers


def _magic_for(shell: Any, command: Callable[[str], str]) -> Callable[[str], None]:
    def magic(line: str) -> None:
        shell.system(command(line))

    magic.__doc__ = command.__doc__
    return magic


def _pip(line: str) -> str:
    """Runs pip in the environment of this kernel: `%pip install NAME`."""
    return f"{shlex.quote(sys.executable)} -m pip {line}"


def _uv(line: str) -> str:
    """Runs uv on the environment of this kernel: `%uv pip install NAME`."""
    return f"{shlex.quote(_uv_program() or 'uv')} {line}"


def _conda(line: str) -> None:
    """Prints which line installs a package here."""
    words = [word for word in line.split() if not word.startswith("-") and word != "install"]
    _report(f"This kernel's environment is not conda's. Use: %pip install {' '.join(words) or 'NAME'}")


def ensure_pip() -> None:
    """Puts pip into an environment without it. It prints the cause of a failure."""
    if find_spec("pip") is not None:
        return
    _report("Installing pip into the environment of this kernel.")
    commands = [[sys.executable, "-m", "ensurepip", "--default-pip"]]
    uv = _uv_program()
    if uv is not None:
        commands.append([uv, "pip", "install", "--python", sys.executable, "pip"])
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        importlib.invalidate_caches()
        if done.returncode == 0:
            return
    _report(f"pip cannot be installed into {sys.prefix}: {done.stderr.strip() or done.stdout.strip()}")


def _report(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _uv_program() -> str | None:
    """The tool that created the environment, else the user's."""
    try:
        recorded = json.loads((Path(sys.prefix) / "tpulab.json").read_text())["uv"]
    except (OSError, ValueError, KeyError, TypeError):
        recorded = None
    if isinstance(recorded, str) and os.access(recorded, os.X_OK):
        return recorded
    return shutil.which("uv")


def _is_conda() -> bool:
    return (Path(sys.prefix) / "conda-meta").is_dir()
