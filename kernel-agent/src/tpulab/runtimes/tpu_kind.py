"""The TPU of this machine, where the runtime reports only "TPU". Opens no device.

torch_xla names its devices `TPU:0`, and under SPMD does not report their kind. The result is jax's
`device_kind` of the chip, so that one table of peak rates serves both.
"""

from __future__ import annotations

import os
from pathlib import Path

GOOGLE_VENDOR = "0x1ae0"


def count_chips(root: Path = Path("/")) -> int:
    """Number of TPU chips on the PCI bus; 0 where that cannot be read."""
    return len(chip_ids(root))


def chip_ids(root: Path = Path("/")) -> list[tuple[str, str]]:
    """PCI device and subsystem of each TPU chip; the readable ones, where not all can be read."""
    found: list[tuple[str, str]] = []
    try:
        for entry in (root / "sys/bus/pci/devices").iterdir():
            vendor, device = (_read(entry / name) for name in ("vendor", "device"))
            if vendor == GOOGLE_VENDOR and device in TPU_DEVICES:
                found.append((device, _read(entry / "subsystem_device")))
    except OSError:
        return found
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


#: Prefixes of accelerator types (`v5litepod-8`), as Cloud TPU names them.
_BY_TYPE = {
    "v2": "TPU v2",
    "v3": "TPU v3",
    "v4": "TPU v4",
    "v5litepod": "TPU v5 lite",
    "v5e": "TPU v5 lite",
    "v5p": "TPU v5",
    "v6e": "TPU v6 lite",
    "tpu7x": "TPU7x",
    "v7x": "TPU7x",
}
#: By PCI device and, where two chips share it, subsystem (as in the bridge's table of chips, `chip-data.ts`).
_BY_PCI = {
    ("0x0027", "0x004e"): "TPU v2",
    ("0x0027", "0x004f"): "TPU v3",
    ("0x005e", None): "TPU v4",
    ("0x0063", None): "TPU v5 lite",
    ("0x0062", None): "TPU v5",
    ("0x006f", None): "TPU v6 lite",
    ("0x0076", None): "TPU7x",
}
TPU_DEVICES = frozenset(device for device, _ in _BY_PCI)


def tpu_kind(root: Path = Path("/")) -> str | None:
    """From the environment, else from the chips on the PCI bus. None when neither is known here."""
    named = os.environ.get("TPU_ACCELERATOR_TYPE", "").lower().split("-")[0]
    if named in _BY_TYPE:
        return _BY_TYPE[named]
    kinds = {
        _BY_PCI.get((device, subsystem)) or _BY_PCI.get((device, None))
        for device, subsystem in chip_ids(root)
    }
    return kinds.pop() if len(kinds) == 1 else None
