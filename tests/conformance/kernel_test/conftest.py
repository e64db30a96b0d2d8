"""A test that skips itself counts as failed, unless it is listed here with its reason."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

EXCLUDED = {
    "test_history": (
        "its part about a range: ipykernel calls its own session 0 there, and the test wants the number; "
        "tail and search are tested"
    )
}

_skipped: set[str] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped:
        if item.name in EXCLUDED:
            _skipped.add(item.nodeid)
        else:
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid} skipped itself: {report.longrepr}"
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    xml = session.config.option.xmlpath
    if xml:
        Path(xml).with_suffix(".excluded").write_text(f"{len(_skipped)}\n")
