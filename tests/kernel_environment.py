"""Where the kernel environment `jax` is, and kernelspecs for its Python."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from .lesson import CHECKOUT

#: Metadata that Jupyter writes into an executed notebook, without the machine's version of Python.
LANGUAGE_INFO = {
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
}


def environment_python() -> Path:
    """Python of the environment `jax`; a test that needs it fails with a remedy where it is missing."""
    folder = Path(os.environ.get("TPULAB_ENV_DIR") or CHECKOUT / ".tpulab" / "envs")
    python = folder / "jax" / "bin" / "python"
    if not python.exists():
        pytest.fail('The environment "jax" is missing; run `npm start -- --setup-only` first.', pytrace=False)
    return python


def write_kernelspec(data_dir: Path, *, module: str) -> None:
    """A kernelspec `tpulab-jax` that starts `python -m MODULE`, in a Jupyter data folder."""
    folder = data_dir / "kernels" / "tpulab-jax"
    folder.mkdir(parents=True)
    spec = {
        "argv": [str(environment_python()), "-m", module, "-f", "{connection_file}"],
        "display_name": "JAX (XLA) on this machine",
        "language": "python",
        "env": {"JAX_NUM_CPU_DEVICES": "8", "JAX_PLATFORMS": "cpu"},
    }
    (folder / "kernel.json").write_text(json.dumps(spec))
