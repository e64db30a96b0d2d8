"""Requests from the bridge's own description: no server error, and no undocumented response."""

from __future__ import annotations

import schemathesis
from schemathesis import Case
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from .made_up import BOUNDED, ask
from .running import bridge

schema = schemathesis.openapi.from_dict(bridge().rest("GET", "/bridge/v1/openapi.json"))


@schema.parametrize()
@BOUNDED
def test_every_response_is_as_described(case: Case) -> None:
    ask(case, status_code_conformance, content_type_conformance, response_schema_conformance)
