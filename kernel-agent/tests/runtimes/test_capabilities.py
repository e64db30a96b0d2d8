"""The report of found hooks in the agent's greeting."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import pytest

from keeper_double import KeeperDouble
from tpulab.agent.agent import Agent
from tpulab.runtimes.capabilities import capabilities
from tpulab.runtimes.jax_internals import DispatchHookSlot

JAX = ("compilations", "device-time", "waiting-lines", "profiler")


def by_name(**known: object) -> dict[str, tuple[bool, str | None]]:
    given = {"kernel": None, "torch_xla_found": None, **known}
    return {each["name"]: (each["available"], each["reason"]) for each in capabilities(**given)}  # type: ignore[arg-type]


def test_with_the_jax_of_the_environment_every_feature_is_available() -> None:
    assert by_name() == dict.fromkeys(JAX, (True, None))


def test_a_missing_hook_is_named_with_the_version_that_lacks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DispatchHookSlot, "find", lambda: None)
    monkeypatch.setattr("jax._src.dispatch.BACKEND_COMPILE_EVENT", "/jax/other")
    found = by_name()
    assert found["compilations"] == (False, f"jax {jax.__version__} has no hook known to TPULab.")
    assert found["device-time"][0] is False
    assert found["waiting-lines"] == (True, None)


def test_a_package_that_is_not_loaded_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpulab.runtimes.capabilities.loaded_jax", lambda: None)
    assert by_name() == {}
    assert set(by_name(torch_xla_found=True)) == {"torch-xla"}


def test_an_ipykernel_without_subshells_is_reported() -> None:
    old = by_name(kernel=SimpleNamespace(_supports_kernel_subshells=False))
    assert [old[name][0] for name in ("subshells", "live-widgets")] == [False, False]
    assert "comms wait for the cell" in (old["subshells"][1] or "")


def test_the_greeting_is_sent_again_when_the_hooks_of_a_package_are_known(
    monkeypatch: pytest.MonkeyPatch, keeper: KeeperDouble
) -> None:
    loaded: list[object] = []
    monkeypatch.setattr("tpulab.runtimes.capabilities.loaded_jax", lambda: jax if loaded else None)
    agent = Agent(str(keeper.path))
    agent._hooks = []  # the import comes later
    agent.start()
    [first] = keeper.wait(lambda: keeper.of_type("hello"), "the greeting")
    assert first["capabilities"] == []
    loaded.append(jax)
    agent._on_jax()
    _, second = keeper.wait(lambda: len(keeper.of_type("hello")) == 2 and keeper.of_type("hello"), "another")
    assert {each["name"] for each in second["capabilities"]} == set(JAX)
    assert second["pid"] == first["pid"]
    agent.close()
