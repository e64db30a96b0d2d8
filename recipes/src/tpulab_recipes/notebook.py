"""What notebooks show: the source of a function, and the widgets of a run, or words in their place where the
kernel or its installation has none."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any


def show_source(*parts: Callable[..., Any]) -> Any:
    """The source of functions, methods or classes, highlighted, as it runs here; to be the last expression of
    a cell."""
    from IPython.display import Code

    shown = [textwrap.dedent(inspect.getsource(part)).rstrip() for part in parts]
    return Code("\n\n".join(shown) + "\n", language="python")


def show_devices() -> Any:
    """The devices of this kernel, drawn while the notebook runs; to be the last expression of a cell."""
    return _widget("DeviceMonitor") or _note("The devices are in the *Devices* section of the TPULab panel.")


def show_controls(run: Any) -> Any:
    """Buttons and sliders of a run made by `tpulab.run`, to be the last expression of a cell."""
    return _widget("TrainingControls", run) or _note(
        "The buttons and sliders of this run are in the TPULab panel."
    )


def show_steps(run: Any) -> Any:
    """The split of the run's steps, drawn while the run continues."""
    return _widget("StepTimeline", run) or _note("The split of each step is drawn in the TPULab panel.")


def _widget(name: str, run: Any = None) -> Any | None:
    try:
        from tpulab import widgets

        # Loads ipywidgets, which this environment need not have.
        kind = getattr(widgets, name)
    except ImportError:
        return None
    try:
        # A recipe's wrapper around a run has the run under this name.
        return kind(getattr(run, "run", run))
    except widgets.WidgetFilesError:
        return None


def _note(text: str) -> Any:
    from IPython.display import Markdown

    return Markdown(text)
