"""Which of the collected tests run, and which are excluded for a recorded reason."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import pytest

# Variants of one test that differ in classes inside jupyter_server. There is one bridge, so one variant runs.
VARIANT = re.compile(r"jp_server_config(\d+)")


@dataclass
class Selection:
    """Test names are node ids without parameters and without the folders above the services."""

    reasons: dict[str, str]
    left_out: int = 0
    _seen: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, file: Path) -> Selection:
        reasons: dict[str, str] = {}
        for group in tomllib.loads(file.read_text())["excluded"]:
            reason = str(group["reason"]).strip()
            if not reason:
                raise ValueError(f"{file.name}: a reason is empty.")
            for name in group["tests"]:
                if name in reasons:
                    raise ValueError(f"{file.name}: {name} is there twice.")
                reasons[name] = reason
        return cls(reasons)

    @property
    def count(self) -> int:
        return len(self.reasons)

    def divide(self, items: list[pytest.Function]) -> tuple[list[pytest.Function], list[pytest.Function]]:
        chosen: list[pytest.Function] = []
        left_out: list[pytest.Function] = []
        for item in items:
            name = test_name(item.nodeid)
            self._seen.add(name)
            if name in self.reasons:
                left_out.append(item)
            elif is_first_variant(item.nodeid):
                chosen.append(item)
            else:
                continue
        self.left_out += len({test_name(item.nodeid) for item in left_out})
        kept = {id(item) for item in chosen}
        return chosen, [item for item in items if id(item) not in kept]

    def missing(self) -> list[str]:
        return sorted(set(self.reasons) - self._seen)


def test_name(nodeid: str) -> str:
    return nodeid.split("[", 1)[0].removeprefix("tests/services/")


# Pytest would collect it as a test because of its name.
test_name.__test__ = False  # type: ignore[attr-defined]


def is_first_variant(nodeid: str) -> bool:
    variant = VARIANT.search(nodeid)
    return variant is None or variant.group(1) == "0"
