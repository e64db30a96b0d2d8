"""The TPU chips of this machine, whatever the runtime found. Opens no device."""

from __future__ import annotations

from pathlib import Path

GOOGLE_VENDOR = "0x1ae0"
#: PCI devices of TPU chips, v2 to 7x (as in the bridge's table of chips, `chip-data.ts`).
TPU_DEVICES = frozenset({"0x0027", "0x005e", "0x0063", "0x0062", "0x006f", "0x0076"})


def count_chips(root: Path = Path("/")) -> int:
    """Number of TPU chips on the PCI bus; 0 where that cannot be read."""
    return len(chip_ids(root))


def chip_ids(root: Path = Path("/")) -> list[tuple[str, str]]:
    """PCI device and subsystem of each TPU chip; what could be read, where not all can."""
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
