"""Pytest plugin: jupyter_server's own tests talk to a bridge instead of the server that their fixtures start.

Given with `-p`. The fixtures have the names and meanings of pytest_jupyter's. A test's changes to
the inside of jupyter_server have no effect here: such tests are in `excluded.toml`, each with its reason.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from . import redirected_fixtures
from .selection import Selection

# Ten seconds for a test are meant for a machine that does nothing else.
TIMEOUT_FACTOR = 12
# Seconds for which the tests of culling check whether a kernel has ended; as configured it is culled after 5,
# and its end takes its time on a slow machine.
CULL_WINDOW_S = 30

selection = Selection.read(Path(__file__).with_name("excluded.toml"))


def pytest_configure(config: pytest.Config) -> None:
    # After the conftest, whose fixtures have the same names: the later ones count.
    config.pluginmanager.register(redirected_fixtures, "redirected_fixtures")


# First, so that `-k` chooses among the remaining tests and reports none as removed.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    chosen, left_out = selection.divide(items)
    for item in chosen:
        for marker in item.iter_markers("timeout"):
            seconds = marker.args[0]
            item.add_marker(pytest.mark.timeout(seconds * TIMEOUT_FACTOR), append=False)
            break
        if hasattr(item.module, "CULL_TIMEOUT"):
            item.module.CULL_TIMEOUT = CULL_WINDOW_S
    items[:] = chosen
    config.hook.pytest_deselected(items=left_out)


def pytest_collection_finish() -> None:
    missing = selection.missing()
    if missing:
        raise pytest.UsageError(
            f"excluded.toml names tests that do not exist: {', '.join(missing)}; remove or rename them."
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that skips itself proves nothing: it is excluded with a reason, or it fails."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} skipped itself and is not in excluded.toml: {report.longrepr}"
    return report


def pytest_report_header() -> str:
    return f"redirected to a bridge for each test; {selection.count} tests are excluded, with reasons"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """The runner of the suites reads from the report how much was left out."""
    xml = session.config.option.xmlpath
    if xml:
        Path(xml).with_suffix(".excluded").write_text(f"{selection.left_out}\n")
