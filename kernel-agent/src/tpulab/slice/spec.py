"""The description of a slice, stored beside its kernelspec."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tpulab.slice.frameworks import TITLES

#: Prefix of the names of slice kernels.
PREFIX = "tpulab-slice-"


@dataclass(frozen=True, slots=True)
class SliceSpec:
    """Host 0 is the machine that the kernel runs on."""

    name: str
    #: How ssh reaches host 1, 2, …; an empty text: one more process on this machine.
    others: tuple[str, ...]
    #: `v5e-16`, for people; empty: unknown.
    type: str = ""
    #: Of the environment: `jax` or `torch`.
    framework: str = "jax"
    #: XLA:CPU devices of each host (PyTorch: its CPU); 0: the available chips.
    cpu_devices: int = 0
    #: The address at which the other hosts reach host 0; empty: detected.
    address: str = ""
    #: Python on the other hosts; empty: at the same path as here.
    python: str = ""
    ssh_options: tuple[str, ...] = ()
    #: Where the lead records that it did not reach a host, for the bridge that has set the hosts up.
    lost_file: str = ""
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
        return f"{TITLES[self.framework]} · {self.name} ({made_of})"

    @property
    def kernel(self) -> str:
        """Name of the kernelspec. A slice can have one for each framework."""
        return PREFIX + self.name + ("-pytorch" if self.framework == "torch" else "")

    def framework_env(self) -> dict[str, str]:
        """Variables with which the processes find their devices; in PyTorch the user's take precedence."""
        if self.framework == "jax":
            if not self.cpu_devices:
                return {}
            return {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(self.cpu_devices)}
        defaults = {"TOKENIZERS_PARALLELISM": "false"}
        if self.cpu_devices:
            defaults["TPULAB_BACKEND"] = "cpu"
        else:
            defaults |= {"TPULAB_BACKEND": "torch_xla", "PJRT_DEVICE": "TPU"}
        if self.is_local:
            # Like PyTorch's own launcher: each process would otherwise take all cores of the machine.
            defaults["OMP_NUM_THREADS"] = "1"
        return {name: os.environ.get(name, value) for name, value in defaults.items()}

    def save(self, path: Path) -> None:
        # In one step: the lead may read it at this moment.
        new = path.with_name(path.name + ".new")
        new.write_text(json.dumps(asdict(self), indent=1))
        new.chmod(0o600)
        new.replace(path)

    @classmethod
    def load(cls, path: Path) -> SliceSpec:
        read = json.loads(path.read_text())
        return cls(**{**read, "others": tuple(read["others"]), "ssh_options": tuple(read["ssh_options"])})
