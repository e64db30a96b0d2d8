"""The headline figures of third-party loops in PyTorch, compared with independent measurements."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "figures"))

from foreign_loops import TORCH_LOOPS, measure
from test_foreign_loops import is_true


@pytest.mark.parametrize("name", TORCH_LOOPS)
def test_reported_figures_match_independent_measurements(name: str) -> None:
    """N2, case T11: in a Trainer, input is what the loop waits for, and all its compilations are counted."""
    # The loaders have their own threads.
    is_true(measure(name), lost_ms=3)
