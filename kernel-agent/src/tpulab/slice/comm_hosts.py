"""Which host a comm (a widget, say) belongs to. Ids are drawn by each process and never meet."""

from __future__ import annotations

from typing import Any


class CommHosts:
    def __init__(self) -> None:
        #: By id: the host, and the name of the target.
        self._known: dict[str, tuple[int, str]] = {}

    def heard(self, host: int, kind: str, content: dict[str, Any]) -> None:
        """A host opened or closed a comm."""
        if kind == "comm_open":
            self._known[content["comm_id"]] = (host, content.get("target_name", ""))
        elif kind == "comm_close":
            self._known.pop(content.get("comm_id", ""), None)

    def host_for(self, kind: str, content: dict[str, Any]) -> int:
        """Where a message of the page goes: to the host of the comm. What the page opens is process 0's."""
        identifier = content.get("comm_id", "")
        host, _ = self._known.get(identifier, (0, ""))
        self.heard(0 if kind == "comm_open" else host, kind, content)
        return 0 if kind == "comm_open" else host

    def info(self, target: str | None) -> dict[str, dict[str, str]]:
        """The comms of a target, or all."""
        return {
            identifier: {"target_name": name}
            for identifier, (_, name) in self._known.items()
            if not target or name == target
        }
