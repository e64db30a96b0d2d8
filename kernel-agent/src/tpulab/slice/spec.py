"""What a slice is made of, as it stands beside its kernelspec."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SliceSpec:
    """Host 0 is the machine that the kernel runs on."""

    name: str
    #: How ssh reaches host 1, 2, …; an empty text: one more process on this machine.
    others: tuple[str, ...]
    #: `v5e-16`, for people; empty: unknown.
    type: str = ""
    #: XLA:CPU devices of each host; 0: the chips that JAX finds.
    cpu_devices: int = 0
    #: The address at which the other hosts reach host 0; empty: found out.
    address: str = ""
    #: Python on the other hosts; empty: at the same path as here.
    python: str = ""
    ssh_options: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    #: Seconds until all hosts must have joined.
    start_timeout_s: float = 300.0

    @property
    def count(self) -> int:
        return 1 + len(self.others)

    @property
    def is_local(self) -> bool:
        return not any(self.others)

    def destination(self, index: int) -> str:
        return self.others[index - 1] if index else ""

    def label(self, index: int) -> str:
        """`host 2 (10.0.0.5)`."""
        reached = self.destination(index)
        return f"host {index} ({reached})" if reached else f"host {index}"

    @property
    def title(self) -> str:
        made_of = ", ".join(filter(None, (self.type, f"{self.count} hosts")))
        return f"JAX · {self.name} ({made_of})"

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1))
        path.chmod(0o600)

    @classmethod
    def load(cls, path: Path) -> SliceSpec:
        read = json.loads(path.read_text())
        return cls(**{**read, "others": tuple(read["others"]), "ssh_options": tuple(read["ssh_options"])})
