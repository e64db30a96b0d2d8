"""The agent of this process: started once, by the launcher or the first measured loop; a fork has none."""

from __future__ import annotations

import os
from typing import Any

from tpulab.agent.agent import Agent
from tpulab.measure.tracked_run import on_cell_end
from tpulab.telemetry.cells import notebook_shell

SOCKET_VARIABLE = "TPULAB_AGENT_SOCKET"
#: Set to the pid of the process that reports, so that programs started from a cell print text instead.
OWNER_VARIABLE = "TPULAB_AGENT_PID"
#: `0` silences the lines of text.
TEXT_VARIABLE = "TPULAB_TEXT"

_agent: Agent | None = None
_forked = False


def _socket_path() -> str | None:
    path = os.environ.get(SOCKET_VARIABLE)
    owner = os.environ.get(OWNER_VARIABLE)
    if not path or (owner and owner != str(os.getpid())):
        return None
    os.environ[OWNER_VARIABLE] = str(os.getpid())
    return path


def start_in_kernel(shell: Any) -> Agent:
    """Starts the agent of a kernel, with the shell whose cells it reports."""
    agent = current_agent()
    _attach(agent, shell)
    return agent


def current_agent() -> Agent:
    """The agent of this process, started if there is none."""
    global _agent
    if _agent is None:
        _agent = Agent(
            None if _forked else _socket_path(), silent=_forked or os.environ.get(TEXT_VARIABLE) == "0"
        )
        _agent.start()
        if not _forked:
            _attach(_agent, notebook_shell())
    return _agent


def _attach(agent: Agent, shell: Any) -> None:
    if shell is None or agent.cells.attached:
        return
    agent.cells.attach(shell, after_cell=on_cell_end)


def _after_fork_in_child() -> None:
    global _agent, _forked
    if _agent is not None:
        _agent.abandon()
    _agent, _forked = None, True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
