"""`tpulab.status()`: the current state, as text."""

from __future__ import annotations

from tpulab.agent.agent import Agent
from tpulab.agent.process_agent import current_agent
from tpulab.agent.text_report import summary
from tpulab.telemetry.messages import DevicesMessage


def status() -> str:
    """Connection, devices, runs and compilations of this process, as text. Initialises nothing."""
    agent = current_agent()
    agent.settle()
    lines = [_connection(agent), _devices(agent.devices.read())]
    runs = list(agent.tracker.runs.values())
    last = agent.tracker.last_run
    if last is not None and last not in runs:
        runs.append(last)
    lines += [f"run: {summary(run)}" for run in runs]
    lines += [
        f"compiled: {name} × {count}, {total_ms / 1e3:.2g} s"
        for name, (count, total_ms) in agent.compiles.slowest()
    ]
    return "\n".join(lines)


def _connection(agent: Agent) -> str:
    if agent.keeper is None:
        return "bridge: none; loops print text"
    return "bridge: connected" if agent.keeper.connected else "bridge: unreachable at the moment; retrying"


def _devices(message: DevicesMessage | None) -> str:
    if message is None:
        return "devices: unknown before the first use of jax"
    devices = message["devices"]
    kinds = ", ".join(sorted({device["kind"] for device in devices}))
    runtime = f"{message['runtime']} {message['runtimeVersion']}, {message['platform']}"
    return f"devices: {len(devices)} × {kinds} ({runtime})"
