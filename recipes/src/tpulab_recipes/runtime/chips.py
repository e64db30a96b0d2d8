"""Whether this machine has TPU chips, from the files of the operating system: needs no library and no
lock."""

from __future__ import annotations

from pathlib import Path

GOOGLE_PCI_VENDOR = "0x1ae0"


def count_chips(root: Path = Path("/")) -> int:
    """Number of TPU chips; `root` is where `dev` and `sys` are.

    v2 to v4 appear as `/dev/accelN`; later chips are PCI devices of Google's behind
    `/dev/vfio/N`. A PCI device without its vfio group cannot be used, so it does not count.
    """
    accelerators = len(list((root / "dev").glob("accel[0-9]*")))
    if accelerators:
        return accelerators
    groups = len(list((root / "dev" / "vfio").glob("[0-9]*")))
    vendors = (_read(file) for file in (root / "sys" / "bus" / "pci" / "devices").glob("*/vendor"))
    return min(groups, sum(vendor == GOOGLE_PCI_VENDOR for vendor in vendors))


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
