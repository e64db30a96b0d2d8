"""torch_xla on XLA:CPU: the part `torch` of the tests. Where torch_xla is absent nothing is collected."""

from __future__ import annotations

import importlib.util
import os

import pytest

os.environ["PJRT_DEVICE"] = "CPU"
if importlib.util.find_spec("torch_xla") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))
