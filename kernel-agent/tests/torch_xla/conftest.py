"""torch_xla on XLA:CPU: the part `torch` of the tests. Without torch_xla nothing is collected."""

from __future__ import annotations

import importlib.metadata
import os

import pytest

# Not by a search for the module: this folder has its name.
if not list(importlib.metadata.distributions(name="torch_xla")):
    collect_ignore_glob = ["test_*.py"]
else:
    os.environ["PJRT_DEVICE"] = "CPU"
    # Compiles in a third of the time; nothing here depends on the speed of a program.
    os.environ.setdefault(
        "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    )


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))
