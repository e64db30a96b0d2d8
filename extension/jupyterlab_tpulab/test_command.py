"""Where the bridge's command is searched for."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from .command import COMMAND_VARIABLE, find_bridge_command
from .errors import BridgeError


def program(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_configured_command_comes_first(tmp_path: Path) -> None:
    environ = {COMMAND_VARIABLE: json.dumps(["other"]), "PATH": str(tmp_path)}
    assert find_bridge_command([sys.executable, "x.js"], environ) == [sys.executable, "x.js"]


def test_then_the_variable_then_the_bundled_bridge_then_the_path(tmp_path: Path) -> None:
    node, tpulab = program(tmp_path, "node"), program(tmp_path, "tpulab")
    script = tmp_path / "bin.js"
    environ = {"PATH": str(tmp_path)}
    assert find_bridge_command([], {**environ, COMMAND_VARIABLE: '["node", "a.js"]'}, [script]) == [
        str(node),
        "a.js",
    ]
    assert find_bridge_command([], environ, [script]) == [str(tpulab)]
    script.touch()
    assert find_bridge_command([], environ, [script]) == [str(node), str(script)]


@pytest.mark.parametrize("text", ["tpulab serve", "[]", "[1]", '{"a": 1}'])
def test_a_variable_that_is_not_a_list_of_words_is_refused(text: str) -> None:
    with pytest.raises(BridgeError, match="JSON list") as raised:
        find_bridge_command([], {COMMAND_VARIABLE: text})
    assert raised.value.code == "bridge.badCommand"


@pytest.mark.parametrize("configured", [[], ["no-such-program"]])
def test_a_missing_command_is_reported_with_a_remedy(configured: list[str], tmp_path: Path) -> None:
    with pytest.raises(BridgeError, match=r"c\.TPULab\.bridge_command") as raised:
        find_bridge_command(configured, {"PATH": str(tmp_path)}, [])
    assert raised.value.code == "bridge.noCommand"


def test_a_bundled_bridge_without_node_states_what_to_install(tmp_path: Path) -> None:
    script = tmp_path / "bin.js"
    script.touch()
    with pytest.raises(BridgeError, match=r"Node 20\.19") as raised:
        find_bridge_command([], {"PATH": str(tmp_path)}, [script])
    assert raised.value.code == "bridge.noNode"
