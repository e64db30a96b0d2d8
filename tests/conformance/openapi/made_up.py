"""How requests are generated: always the same ones, and not too many."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from schemathesis import Case, CheckContext, Response

from .running import bridge

BOUNDED = settings(
    max_examples=20,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def no_server_error(ctx: CheckContext, response: Response, case: Case) -> None:  # noqa: ARG001
    """Jupyter answers 501 for an unknown kernelspec, and its clients show the two messages."""
    if response.status_code == 501:
        assert {"message", "short_message"} <= set(response.json()), response.text
        return
    assert response.status_code < 500, f"{response.status_code}: {response.text}"


def ask(case: Case, *checks: object) -> None:
    running = bridge()
    case.call_and_validate(
        base_url=running.url, headers=running.headers, checks=[no_server_error, *checks], timeout=120
    )
