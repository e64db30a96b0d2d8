"""Finds the `tpulab` command that starts the bridge."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from .errors import BridgeError
from .node_command import IN_CHECKOUT, IN_WHEEL, find_node

COMMAND_VARIABLE = "TPULAB_BRIDGE_COMMAND"

BUNDLED = (IN_WHEEL, IN_CHECKOUT)

REMEDY = (
    f"Set c.TPULab.bridge_command in jupyter_server_config.py or {COMMAND_VARIABLE} "
    "(a JSON list) to the command, or put `tpulab` on PATH; then restart the Jupyter server."
)


def find_bridge_command(
    configured: Sequence[str],
    environ: Mapping[str, str],
    bundled: Sequence[Path] = BUNDLED,
) -> list[str]:
    """The command line: configured, from the environment, bundled, or on PATH, in this order."""
    if configured:
        return _checked(list(configured), environ, "c.TPULab.bridge_command")
    if environ.get(COMMAND_VARIABLE):
        return _checked(_from_variable(environ[COMMAND_VARIABLE]), environ, COMMAND_VARIABLE)
    script = next((path for path in bundled if path.is_file()), None)
    if script is not None:
        return [find_node(environ), str(script)]
    found = shutil.which("tpulab", path=environ.get("PATH"))
    if found is None:
        raise BridgeError(
            "bridge.noCommand", f"The command of the kernel bridge, tpulab, was not found. {REMEDY}"
        )
    return [found]


def _from_variable(text: str) -> list[str]:
    try:
        words: object = json.loads(text)
    except ValueError:
        words = None
    if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
        return [str(word) for word in words]
    raise BridgeError(
        "bridge.badCommand",
        f'{COMMAND_VARIABLE} is not a JSON list of words, for example ["node", "bin/tpulab.js"]. {REMEDY}',
    )


def _checked(words: list[str], environ: Mapping[str, str], source: str) -> list[str]:
    program = shutil.which(words[0], path=environ.get("PATH"))
    if program is None:
        raise BridgeError(
            "bridge.noCommand", f"{source} names the program {words[0]!r}, which was not found. {REMEDY}"
        )
    return [program, *words[1:]]
