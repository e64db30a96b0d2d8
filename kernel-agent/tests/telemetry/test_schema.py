"""The messages are checked against the current protocol, not against an old one."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest

from keeper_double import SCHEMA, check_message

HERE = Path(__file__).parents[1]
PROTOCOL = HERE.parents[1] / "protocol" / "lib" / "index.js"


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node to read the protocol package")
@pytest.mark.skipif(not PROTOCOL.exists(), reason="needs the protocol package, built by `npm run build`")
def test_the_committed_schema_equals_the_export_of_the_protocol() -> None:
    exported = subprocess.run(
        ["node", str(HERE / "export_schema.mjs")], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    assert json.loads(exported) == SCHEMA, "run: node export_schema.mjs > telemetry.schema.json"


def test_the_schema_refuses_a_message_with_a_missing_field() -> None:
    with pytest.raises(jsonschema.ValidationError):
        check_message({"type": "hello", "v": 1, "pid": 1})
