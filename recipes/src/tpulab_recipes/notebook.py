"""What notebooks show of a run: its widgets, words in their place where the kernel or its installation has
none, and in one line what it came to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def in_words(losses: Sequence[float], compiled_since: int | None) -> str:
    """What a training came to, which may have been stopped before any step. `losses` are those of its
    steps; `compiled_since` is as in `compiled_in_words`."""
    if not losses:
        return "no step was made"
    steps = "1 step" if len(losses) == 1 else f"{len(losses)} steps"
    return f"{steps}, loss {losses[0]:.3f} to {losses[-1]:.3f}; {compiled_in_words(compiled_since)}"


def compiled_in_words(compiled_since: int | None) -> str:
    """How many programs were compiled since step 2; None: the training was stopped before it."""
    if compiled_since is None:
        return "stopped before step 2, so compilations were not counted"
    return f"compiled since step 2: {compiled_since}"


def show_devices() -> Any:
    """The devices of this kernel, drawn while the notebook goes on; to be the last expression of a cell."""
    return _widget("DeviceMonitor") or _note("The devices are in the *Devices* section of the TPULab panel.")


def show_controls(run: Any) -> Any:
    """Buttons and sliders of a run made by `tpulab.run`, to be the last expression of a cell."""
    return _widget("TrainingControls", run) or _note(
        "The buttons and sliders of this run are in the *Runs* panel."
    )


def show_steps(run: Any) -> Any:
    """The split of the run's steps, drawn while it goes on."""
    return _widget("StepTimeline", run) or _note("The split of each step is drawn in the *Steps* panel.")


def _widget(name: str, run: Any = None) -> Any | None:
    try:
        from tpulab import widgets
    except ImportError:
        return None
    try:
        # What a recipe wraps around a run holds it under this name.
        return getattr(widgets, name)(getattr(run, "run", run))
    except widgets.WidgetFilesError:
        return None


def _note(text: str) -> Any:
    from IPython.display import Markdown

    return Markdown(text)
