"""What runs inside a TPULab kernel: a launcher, a step clock, a compile watch and the steering of runs.

Names are resolved when they are first used. Importing the package must import nothing else: the launcher is
started with the notebook's folder on `sys.path`, where any file may shadow a standard module.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tpulab.check.cell import preflight
    from tpulab.control.adapters import into_optax
    from tpulab.control.hyperparameters import Hyper, HyperparameterError, hyper
    from tpulab.control.run_log import Replay, ReplayError, replay
    from tpulab.loops import Step, Steps, metric, step, steps, watch
    from tpulab.status import status
    from tpulab.telemetry.version import __version__
    from tpulab.training.run import TrainingRun, run
    from tpulab.widgets import DeviceMonitor, StepTimeline, TrainingControls
    from tpulab.widgets.live_widget import live

__all__ = [
    "DeviceMonitor",
    "Hyper",
    "HyperparameterError",
    "Replay",
    "ReplayError",
    "Step",
    "StepTimeline",
    "Steps",
    "TrainingControls",
    "TrainingRun",
    "__version__",
    "hyper",
    "into_optax",
    "live",
    "metric",
    "preflight",
    "replay",
    "run",
    "status",
    "step",
    "steps",
    "watch",
]

_HOMES = {
    "DeviceMonitor": "tpulab.widgets",
    "__version__": "tpulab.telemetry.version",
    "Hyper": "tpulab.control.hyperparameters",
    "HyperparameterError": "tpulab.control.hyperparameters",
    "Replay": "tpulab.control.run_log",
    "ReplayError": "tpulab.control.run_log",
    "Step": "tpulab.loops",
    "StepTimeline": "tpulab.widgets",
    "Steps": "tpulab.loops",
    "TrainingControls": "tpulab.widgets",
    "TrainingRun": "tpulab.training.run",
    "hyper": "tpulab.control.hyperparameters",
    "into_optax": "tpulab.control.adapters",
    "live": "tpulab.widgets.live_widget",
    "metric": "tpulab.loops",
    "preflight": "tpulab.check.cell",
    "replay": "tpulab.control.run_log",
    "run": "tpulab.training.run",
    "status": "tpulab.status",
    "step": "tpulab.loops",
    "steps": "tpulab.loops",
    "watch": "tpulab.loops",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tpulab' has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
