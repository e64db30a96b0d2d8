"""Tries JupyterLab's environment out; prints one JSON line for each thing tried. The setup runs it."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Callable


def main() -> int:
    checks = [
        ("JupyterLab imports", jupyterlab),
        ("the widget manager is there", widget_manager),
        ("the server can be made", server),
    ]
    results = [report(name, tried) for name, tried in checks]
    return 0 if all(results) else 1


def report(name: str, tried: Callable[[], str]) -> bool:
    try:
        detail, ok = tried(), True
    except Exception as error:  # whatever is wrong is the result
        detail, ok = f"{type(error).__name__}: {error}", False
    print(json.dumps({"check": name, "ok": ok, "detail": detail, "remedy": None}), flush=True)
    return ok


def jupyterlab() -> str:
    from jupyterlab.labapp import LabApp

    return f"{LabApp.name} {importlib.metadata.version('jupyterlab')}"


def widget_manager() -> str:
    import jupyterlab_widgets

    paths = jupyterlab_widgets._jupyter_labextension_paths()
    return f"{paths[0]['dest']} {importlib.metadata.version('jupyterlab_widgets')}"


def server() -> str:
    from jupyter_server.serverapp import ServerApp

    app = ServerApp()
    return f"jupyter_server {importlib.metadata.version('jupyter_server')}, default port {app.port}"


if __name__ == "__main__":
    sys.exit(main())
