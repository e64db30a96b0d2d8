"""One bridge for all operations; it runs before tests are collected, because its description names them.

Its default kernel starts quickly, for generated requests start many.
"""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from ..bridge import Bridge, stock_kernels

LIGHT = "light"

_owned = ExitStack()


@cache
def bridge() -> Bridge:
    folder = Path(_owned.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
    environment = stock_kernels(folder / "data")
    spec = folder / "data" / "kernels" / LIGHT / "kernel.json"
    spec.parent.mkdir(parents=True)
    argv = [sys.executable, "-m", "pytest_jupyter.echo_kernel", "-f", "{connection_file}"]
    spec.write_text(json.dumps({"argv": argv, "display_name": "Light", "language": "echo"}))
    options = ["--default-kernel", LIGHT, "--env-dir", str(folder / "environments")]
    return _owned.enter_context(Bridge(folder, folder, env=environment, options=options))


def end_kernels() -> None:
    bridge().end_kernels()


def close() -> None:
    _owned.close()
