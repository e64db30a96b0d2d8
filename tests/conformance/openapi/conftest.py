"""Ends the processes that the operations started."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import running


@pytest.fixture(autouse=True)
def few_kernels() -> Iterator[None]:
    yield
    running.end_kernels()


def pytest_unconfigure() -> None:
    running.close()
