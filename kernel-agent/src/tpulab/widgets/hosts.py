"""The front end of the widgets: TPULab's own module, or anywidget's, which carries our code along.

A JupyterLab with TPULab has the module. VS Code and Colab do not, but load anywidget's from their usual
source of widgets. `TPULAB_WIDGETS=tpulab` or `=anywidget` overrides a wrong choice.
"""

from __future__ import annotations

import contextlib
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any, Literal

Host = Literal["tpulab", "anywidget"]

VARIABLE = "TPULAB_WIDGETS"
MODULE = "@tpulab/widgets"
#: Version of the traits that Python and the views share.
MODULE_VERSION = "1.0.0"
ANYWIDGET_VERSION = "~0.11.0"
_STATIC = Path(__file__).parent / "static"


class WidgetFilesError(RuntimeError):
    """The front end of the widgets is missing in this installation: it is built from TypeScript."""

    code = "WIDGET_FILES"


def chosen_host(user_names: dict[str, Any] | None = None) -> Host:
    wanted = os.environ.get(VARIABLE)
    if wanted in ("tpulab", "anywidget"):
        return wanted  # type: ignore[return-value]
    in_colab = "google.colab" in sys.modules
    in_vscode = "VSCODE_PID" in os.environ or "__vsc_ipynb_file__" in (user_names or {})
    return "anywidget" if in_colab or in_vscode else "tpulab"


def module_source(name: str) -> str:
    """The ES module of a widget. Raises WidgetFilesError."""
    return _static(f"{name}.js")


@cache
def _static(name: str) -> str:
    path = _STATIC / name
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise WidgetFilesError(
            f"{path.name} is not part of this installation of tpulab; run `npm run build` in the checkout, "
            f"or set {VARIABLE}=tpulab to use JupyterLab's copy."
        ) from error


def host_traits(host: Host, name: str, file: str) -> dict[str, Any]:
    """Values of the traits by which a front end finds model and view."""
    if host == "anywidget":
        _enable_in_colab()
        return {
            "_model_module": "anywidget",
            "_model_module_version": ANYWIDGET_VERSION,
            "_model_name": "AnyModel",
            "_view_module": "anywidget",
            "_view_module_version": ANYWIDGET_VERSION,
            "_view_name": "AnyView",
            "_esm": module_source(file),
            "_css": _static("widgets.css"),
            "_anywidget_id": f"tpulab.{name}",
        }
    return {
        "_model_module": MODULE,
        "_model_module_version": MODULE_VERSION,
        "_model_name": f"{name}Model",
        "_view_module": MODULE,
        "_view_module_version": MODULE_VERSION,
        "_view_name": f"{name}View",
    }


def _enable_in_colab() -> None:
    """Colab shows third-party widgets only after a request."""
    output = getattr(sys.modules.get("google.colab"), "output", None)
    if output is not None:
        with contextlib.suppress(Exception):
            output.enable_custom_widget_manager()
