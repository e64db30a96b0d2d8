"""Code that runs inside a TPULab kernel: a launcher, a step clock, a compile watch and the steering of runs.

Names are resolved when they are first used. Importing the package must import nothing that a Python process
does not have already: the launcher is started with the notebook's folder on `sys.path`, where any file may
shadow a standard module.
"""

import _thread
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tpulab.check.cell import preflight
    from tpulab.check.saved import load_compiled
    from tpulab.control.adapters import into_optax
    from tpulab.control.hyperparameters import Hyper, HyperparameterError, hyper
    from tpulab.loops import Step, Steps, alert, metric, step, steps, watch
    from tpulab.measure.media import MediaError, audio, image
    from tpulab.status import status
    from tpulab.telemetry.version import __version__
    from tpulab.training.run import TrainingRun, run
    from tpulab.widgets import DeviceMonitor, StepTimeline, TrainingControls
    from tpulab.widgets.live_widget import live

__all__ = [
    "DeviceMonitor",
    "Hyper",
    "HyperparameterError",
    "MediaError",
    "Step",
    "StepTimeline",
    "Steps",
    "TrainingControls",
    "TrainingRun",
    "__version__",
    "alert",
    "audio",
    "hyper",
    "image",
    "into_optax",
    "live",
    "load_compiled",
    "metric",
    "preflight",
    "run",
    "status",
    "step",
    "steps",
    "watch",
]

_MODULES = {
    "tpulab.check.cell": ("preflight",),
    "tpulab.check.saved": ("load_compiled",),
    "tpulab.control.adapters": ("into_optax",),
    "tpulab.control.hyperparameters": ("Hyper", "HyperparameterError", "hyper"),
    "tpulab.loops": ("Step", "Steps", "alert", "metric", "step", "steps", "watch"),
    "tpulab.measure.media": ("MediaError", "audio", "image"),
    "tpulab.status": ("status",),
    "tpulab.telemetry.version": ("__version__",),
    "tpulab.training.run": ("TrainingRun", "run"),
    "tpulab.widgets": ("DeviceMonitor", "StepTimeline", "TrainingControls"),
    "tpulab.widgets.live_widget": ("live",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

#: Held during each import and each fork: a child forked during another thread's import would wait for ever,
#: because that thread does not exist in the child.
_importing = _thread.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_importing.acquire,
        after_in_parent=_importing.release,
        after_in_child=_importing.release,
    )


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tpulab' has no attribute {name!r}")
    import importlib

    with _importing:
        value: object = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
