"""Tools that prove a training step fits XLA: few shapes, one graph, no operator that waits for the device.

They work on any machine and need neither torch_xla nor a TPU; `compile_budget` counts real compilations where
there are some.
"""

from tpulab_recipes.discipline.compile_budget import TooManyCompilations, compile_budget
from tpulab_recipes.discipline.forbidden_operators import (
    DYNAMIC_OPERATORS,
    ForbiddenOperator,
    forbid_operators,
)
from tpulab_recipes.discipline.full_graph import trace_full_graph
from tpulab_recipes.discipline.shape_ledger import ShapeLedger, TooManyShapes

__all__ = [
    "DYNAMIC_OPERATORS",
    "ForbiddenOperator",
    "ShapeLedger",
    "TooManyCompilations",
    "TooManyShapes",
    "compile_budget",
    "forbid_operators",
    "trace_full_graph",
]
