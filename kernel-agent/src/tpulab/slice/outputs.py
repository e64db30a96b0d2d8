"""Where outputs of a cell go: the speaking host's into the cell immediately, the others' into the fold."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from tpulab.slice.fold import bundle_of, widgets_of
from tpulab.slice.recording import Key, Part, Recording

#: `publish(message type, content)`, as output of the cell.
Publish = Callable[[str, dict[str, Any]], None]

OUTPUTS = frozenset({"stream", "display_data", "execute_result", "update_display_data", "clear_output"})


class Outputs:
    """For one cell. Its lowest host reports."""

    def __init__(self, hosts: Sequence[int], publish: Publish, count: int) -> None:
        self.speaker = hosts[0]
        self._publish = publish
        self._count = count
        self._others = list(hosts[1:])
        self._recordings = {host: Recording(host != self.speaker) for host in hosts} if self._others else {}
        self._finished: set[int] = set()
        #: The first part whose fold may still change, its display, and the content of that display.
        self._part = 0
        self._display_id: str | None = None
        self._shown: tuple[object, ...] = ()
        #: Approximate size of the newest fold.
        self.fold_chars = 0

    def add(self, host: int, msg_type: str, content: dict[str, Any]) -> None:
        if host == self.speaker:
            if msg_type == "execute_result":
                content = {**content, "execution_count": self._count}
            self._publish(msg_type, content)
        if host in self._recordings:
            self._recordings[host].add(msg_type, content)

    def finish(self, host: int) -> None:
        """The cell is over on this host."""
        self._finished.add(host)

    def refresh(self, *, ended: bool = False) -> None:
        """Shows the outputs of the others so far; `ended`: states which hosts differ."""
        if not self._recordings:
            return
        while self._is_complete(self._part, ended):
            self._show(self._part, final=True)
            for recording in self._recordings.values():
                if len(recording.parts) > self._part:
                    recording.forget(self._part)
            self._part += 1
            self._display_id, self._shown = None, ()
        # The speaker's output matters only in the end, when it is compared.
        received = tuple(self._recordings[host].version for host in self._others)
        state = (ended, *received)
        if state != self._shown and (ended or any(received)):
            self._show(self._part, final=ended)
            self._shown = state

    def _is_complete(self, number: int, ended: bool) -> bool:
        """Whether a part is followed by another one, and nothing can be added to it."""
        lengths = {host: len(recording.parts) - 1 for host, recording in self._recordings.items()}
        reached = all(length > number or ended or host in self._finished for host, length in lengths.items())
        return reached and any(length > number for length in lengths.values())

    def _show(self, number: int, *, final: bool) -> None:
        spoken = self._part_of(self.speaker, number)
        groups: dict[Key, tuple[list[int], Part]] = {}
        for host in self._others:
            part = self._part_of(host, number)
            groups.setdefault(part.key(), ([], part))[0].append(host)
        agree = groups.get(spoken.key())
        if all(part.is_empty for _, part in groups.values()) and (spoken.is_empty or not final):
            return
        if final and number and agree is not None and len(groups) == 1:
            return  # the fold of the first part has reported it
        bundle = bundle_of(
            [
                (hosts, part, key == spoken.key() if final else None)
                for key, (hosts, part) in groups.items()
                if final or not part.is_empty
            ],
            self.speaker,
            bool(number),
        )
        self.fold_chars = len(bundle["text/html"]) + len(bundle["text/plain"])
        first = self._display_id is None
        self._display_id = self._display_id or uuid.uuid4().hex
        content = {"data": bundle, "metadata": {}, "transient": {"display_id": self._display_id}}
        self._publish("display_data" if first else "update_display_data", content)
        if final:
            for key, (_, part) in groups.items():
                for widget in widgets_of(part) if key != spoken.key() else ():
                    self._publish("display_data", widget)

    def _part_of(self, host: int, number: int) -> Part:
        parts = self._recordings[host].parts
        return parts[number] if number < len(parts) else Part(False)
