"""Requests from Jupyter's own description, as far as a bridge serves it: none causes a server error."""

from __future__ import annotations

from pathlib import Path

import jupyter_server
import schemathesis
from schemathesis import Case

from .made_up import BOUNDED, ask

DESCRIPTION = Path(jupyter_server.__file__).parent / "services" / "api" / "api.yaml"
# Contents, their checkpoints, settings and terminals are outside a kernel server.
SERVED = r"^/api/($|kernels|sessions|kernelspecs|status|me|spec\.yaml|resolvePath)"

schema = schemathesis.openapi.from_path(DESCRIPTION).include(path_regex=SERVED)


@schema.parametrize()
@BOUNDED
def test_no_request_is_a_server_error(case: Case) -> None:
    ask(case)
