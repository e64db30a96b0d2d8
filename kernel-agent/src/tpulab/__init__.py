"""What runs inside a TPULab kernel: a launcher, a step clock and a compile watch.

Names are resolved when they are first used. Importing the package must import nothing else: the launcher is
started with the notebook's folder on `sys.path`, where any file may shadow a standard module.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tpulab.loops import Step, Steps, metric, step, steps, watch
    from tpulab.status import status

__version__ = "0.1.0"
__all__ = ["Step", "Steps", "__version__", "metric", "status", "step", "steps", "watch"]

_HOMES = {
    "Step": "tpulab.loops",
    "Steps": "tpulab.loops",
    "metric": "tpulab.loops",
    "step": "tpulab.loops",
    "steps": "tpulab.loops",
    "watch": "tpulab.loops",
    "status": "tpulab.status",
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
