"""The user's rules about a metric: `tpulab.alert(when="loss > 5 for 100 steps")`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

GRAMMAR = "NAME > NUMBER [for COUNT steps], with >, >=, < or <="
MAX_RULES = 64
_COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_RULE = re.compile(
    r"\s*(?P<name>[^\s<>=](?:[^<>=]{0,98}[^\s<>=])?)\s*(?P<sign>[<>]=?)\s*"
    r"(?P<bound>[-+]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:e[-+]?\d{1,3})?)"
    r"(?:\s+for\s+(?P<steps>\d{1,12})\s+steps?)?\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Rule:
    """Pure: the run stores its state for each rule."""

    text: str
    name: str
    holds: Callable[[float, float], bool]
    bound: float
    steps: int

    def since(self, values: Mapping[str, float], step: int, since: int | None) -> int | None:
        """The step since which it holds, given values of this step; None: it does not hold now."""
        value = values.get(self.name)
        if value is None:
            return since
        return (step if since is None else since) if self.holds(value, self.bound) else None


def parse_rule(when: str) -> Rule:
    """Raises `ValueError` with the grammar."""
    found = _RULE.fullmatch(when) if isinstance(when, str) else None
    if found is None:
        raise ValueError(f"a rule is {GRAMMAR}; not {when!r:.120}")
    name, sign, bound, steps = found.group("name", "sign", "bound", "steps")
    return Rule(" ".join(when.split()), name, _COMPARE[sign], float(bound), max(int(steps or 1), 1))
