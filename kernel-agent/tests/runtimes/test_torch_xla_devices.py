"""TPU chips in torch_xla, with a stand-in for its C++ part: the kind decides the peak rate."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import tpulab
from keeper_double import KeeperDouble
from tpulab.agent.agent import Agent
from tpulab.figures.throughput import PEAK_FLOPS
from tpulab.runtimes.torch_xla_runtime import TorchXlaRuntime
from tpulab.telemetry.messages import DevicesMessage

GIB = 2**30


class StandIn:
    """The few functions of `_XLAC` that describe devices, on a machine with two of them; with `process` 1, on
    the second host of two."""

    def __init__(
        self, *, ready: bool = True, kind: str = "TPU v5 lite", spmd: bool = False, process: int = 0
    ) -> None:
        self._ready, self._kind, self._spmd, self._process = ready, kind, spmd, process

    def _xla_runtime_is_initialized(self) -> bool:
        return self._ready

    def _xla_get_all_runtime_devices(self) -> list[str]:
        assert self._ready, "this would initialise the runtime"
        return [f"TPU:{number}" for number in range(2 + 2 * self._process)]

    def _xla_get_runtime_devices(self) -> list[str]:
        return self._xla_get_all_runtime_devices()[-2:]

    def _xla_get_process_index(self) -> int:
        return self._process

    def _xla_device_kind(self, device: str) -> str:
        if self._spmd:
            raise RuntimeError("Check failed: Unknown device SPMD:0")
        assert device == "xla:0"
        return self._kind

    def _xla_memory_info(self, device: str) -> dict[str, int]:
        if self._spmd:
            raise RuntimeError("MemoryInfo not supported for SPMD virtual device.")
        return {"bytes_used": (1 + int(device[-1])) * GIB, "bytes_limit": 16 * GIB}


def machine(root: Path, *chips: tuple[str, str]) -> Path:
    for number, (device, subsystem) in enumerate(chips):
        folder = root / "sys/bus/pci/devices" / f"0000:00:0{number}.0"
        folder.mkdir(parents=True)
        for name, value in (("vendor", "0x1ae0"), ("device", device), ("subsystem_device", subsystem)):
            (folder / name).write_text(f"{value}\n")
    return root


@pytest.fixture(autouse=True)
def _no_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TPU_ACCELERATOR_TYPE", raising=False)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    put(monkeypatch, StandIn())
    return monkeypatch


def put(patch: pytest.MonkeyPatch, xlac: StandIn) -> None:
    patch.setitem(sys.modules, "torch_xla", SimpleNamespace(_XLAC=xlac, __version__="2.9.0"))  # type: ignore[arg-type]


def reported(root: Path) -> DevicesMessage:
    message = TorchXlaRuntime(root).devices()
    assert message is not None
    return message


def kinds(root: Path) -> set[str]:
    return {device["kind"] for device in reported(root)["devices"]}


def test_the_kind_comes_from_the_runtime(stand_in: pytest.MonkeyPatch, tmp_path: Path) -> None:
    del stand_in
    message = reported(tmp_path)
    assert message["platform"] == "tpu"
    assert [device["kind"] for device in message["devices"]] == ["TPU v5 lite"] * 2
    assert PEAK_FLOPS["TPU v5 lite"] == 197e12
    used = [(device["memoryUsedBytes"], device["memoryTotalBytes"]) for device in message["devices"]]
    assert used == [(1 * GIB, 16 * GIB), (2 * GIB, 16 * GIB)]


def test_on_a_slice_each_host_reports_its_own_devices_and_names_the_others(
    stand_in: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put(stand_in, StandIn(process=1))
    devices = reported(tmp_path)["devices"]
    assert [(device["id"], device["processIndex"]) for device in devices] == [(0, 0), (1, 0), (2, 1), (3, 1)]
    assert [device["memoryUsedBytes"] for device in devices] == [None, None, 1 * GIB, 2 * GIB]


@pytest.mark.parametrize(
    ("named", "kind"),
    [("v2-8", "TPU v2"), ("v4-16", "TPU v4"), ("v5litepod-8", "TPU v5 lite"), ("v5p-8", "TPU v5"),
     ("v6e-4", "TPU v6 lite"), ("tpu7x-8", "TPU7x")],
)  # fmt: skip
def test_under_spmd_the_kind_comes_from_the_environment(
    stand_in: pytest.MonkeyPatch, tmp_path: Path, named: str, kind: str
) -> None:
    put(stand_in, StandIn(spmd=True))
    stand_in.setenv("TPU_ACCELERATOR_TYPE", named)
    assert kinds(tmp_path) == {kind}
    assert kind in PEAK_FLOPS


@pytest.mark.parametrize(
    ("device", "subsystem", "kind"),
    [("0x0027", "0x004e", "TPU v2"), ("0x0027", "0x004f", "TPU v3"), ("0x005e", "0x0001", "TPU v4"),
     ("0x0063", "0x0001", "TPU v5 lite"), ("0x0062", "0x0001", "TPU v5"), ("0x006f", "0x0001", "TPU v6 lite"),
     ("0x0076", "0x0001", "TPU7x")],
)  # fmt: skip
def test_else_the_kind_comes_from_the_chips_on_the_bus(
    stand_in: pytest.MonkeyPatch, tmp_path: Path, device: str, subsystem: str, kind: str
) -> None:
    for xlac in (StandIn(spmd=True), StandIn(kind="TPU")):
        put(stand_in, xlac)
        assert kinds(machine(tmp_path / str(id(xlac)), *[(device, subsystem)] * 4)) == {kind}
    assert kind in PEAK_FLOPS


def test_a_kind_that_nothing_reports_stays_unknown(stand_in: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put(stand_in, StandIn(spmd=True))
    stand_in.setenv("TPU_ACCELERATOR_TYPE", "v99-8")
    assert kinds(machine(tmp_path, ("0x0027", "0x0001"))) == {"TPU"}


def test_a_runtime_that_is_not_initialised_is_left_alone(
    stand_in: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put(stand_in, StandIn(ready=False))
    assert TorchXlaRuntime(tmp_path).devices() is None


def test_a_run_that_specifies_its_flops_has_an_mfu(
    stand_in: pytest.MonkeyPatch, tmp_path: Path, agent: Agent, keeper: KeeperDouble
) -> None:
    del stand_in
    agent.devices.runtimes.append(TorchXlaRuntime(tmp_path))
    run = tpulab.run("chips", flops_per_step=1e12, log=False)
    for _ in run.steps(range(3)):
        keeper.wait(lambda: keeper.of_type("devices"), "the devices")
    run.finish()
    [*_, throughput] = keeper.wait(lambda: [m for m in keeper.of_type("pace") if m["mfu"]["value"]], "an MFU")
    assert throughput["mfu"]["peakFlopsPerSecond"] == 2 * 197e12
    assert throughput["mfu"]["value"] == pytest.approx(1e12 * throughput["stepsPerSecond"] / (2 * 197e12))
