"""TPULab in JupyterLab: ships the built extension and starts the kernel bridge beside the Jupyter server."""

from __future__ import annotations

from .app import TPULab

__version__ = "0.1.0"


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "@tpulab/labextension"}]


def _jupyter_server_extension_points() -> list[dict[str, object]]:
    return [{"module": "jupyterlab_tpulab", "app": TPULab}]
