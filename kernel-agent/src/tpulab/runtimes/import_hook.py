"""Calls back when jax has been imported, and costs an import of anything else one comparison.

A finder at the head of `sys.meta_path` queries the other finders for jax and lets the loader that they return
call back after the module has run. The loader is unchanged, so tools that inspect it see no difference.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls `callback` once, after `name` has been imported (immediately if it already has been)."""

    def __init__(self, name: str, callback: Callable[[], None]) -> None:
        self._name = name
        self._callback = callback

    def install(self) -> None:
        if sys.modules.get(self._name) is not None:
            self._callback()
        else:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        for finder in list(sys.meta_path):
            if finder is self:
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                self._call_back_after(spec)
                return spec
        return None

    def _call_back_after(self, spec: importlib.machinery.ModuleSpec) -> None:
        loader = spec.loader
        run = getattr(loader, "exec_module", None)
        if loader is None or run is None:
            return

        def exec_module(module: ModuleType) -> None:
            with contextlib.suppress(AttributeError):
                del loader.exec_module
            run(module)
            # Only after success: a failed import may be tried again, and is then found here again.
            self.remove()
            self._callback()

        try:
            loader.exec_module = exec_module  # type: ignore[method-assign]
        except AttributeError:
            self.remove()
