"""Recipes: models and training code for XLA devices, one folder per system, and the seam `runtime`.

Importing the package imports no framework.
"""

from __future__ import annotations

import sys
from typing import Any

__version__ = "0.1.0"


def _end_without_traceback(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("\nInterrupted; run the same command again to resume.\n")
    else:
        sys.__excepthook__(kind, error, trace)


#: As `python -m` imports it, for one of its commands: frameworks take seconds to import.
IS_COMMAND = sys.argv[:1] == ["-m"]
if IS_COMMAND:
    sys.excepthook = _end_without_traceback
