"""The device seam: one interface for device, step, world and transfer, whatever framework and chip there are.

    from tpulab_recipes import runtime

    backend = runtime.use()          # or runtime.use("torch_xla", platform="tpu")
    print(backend.describe())

Recipes take a `Backend` and know nothing below it. `runtime.current()` returns this process's backend.
"""

from tpulab_recipes.runtime.backend import INPUT_NAME, Backend, Reduction
from tpulab_recipes.runtime.errors import DeviceRuntimeError, RuntimeErrorCode
from tpulab_recipes.runtime.figures import Compilations, DeviceInfo, DeviceMemory, Platform, World
from tpulab_recipes.runtime.precision import Precision, PrecisionName
from tpulab_recipes.runtime.selection import VARIABLE, current, installed_backends, use

__all__ = [
    "INPUT_NAME",
    "VARIABLE",
    "Backend",
    "Compilations",
    "DeviceInfo",
    "DeviceMemory",
    "DeviceRuntimeError",
    "Platform",
    "Precision",
    "PrecisionName",
    "Reduction",
    "RuntimeErrorCode",
    "World",
    "current",
    "installed_backends",
    "use",
]
