"""TPULab in JupyterLab: ships the built extension and starts the kernel bridge beside the Jupyter server."""

from __future__ import annotations

__version__ = "0.1.0"


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "@tpulab/labextension"}]


def _jupyter_server_extension_points() -> list[dict[str, object]]:
    # Imported here, not above: the command `tpulab` is in this package too and must not load jupyter_server.
    from .app import TPULab

    return [{"module": "jupyterlab_tpulab", "app": TPULab}]
