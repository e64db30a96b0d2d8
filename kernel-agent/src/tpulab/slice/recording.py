"""The text and displays of one host in a cell, in parts of a fixed size that are compared between hosts.

For the host whose output is in the cell, only the data for the comparison is stored. Text of the two streams
is compared separately, because how they interleave depends on timing.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

PART_CHARS = 256 * 1024
#: Two hosts that show the same object show different addresses of it.
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
WIDGET = "application/vnd.jupyter.widget-view+json"

Key = tuple[str, str, tuple[str, ...]]


class Part:
    def __init__(self, keeps_items: bool) -> None:
        self._keeps = keeps_items
        self._digests = {"stdout": hashlib.blake2b(digest_size=16), "stderr": hashlib.blake2b(digest_size=16)}
        #: (display id or None, its content)
        self._bundles: list[tuple[str | None, str]] = []
        self.chars = 0
        #: ("stdout" | "stderr", pieces of text) or ("bundle", content), in the order of arrival
        self.items: list[tuple[str, Any]] = []

    @property
    def is_empty(self) -> bool:
        return not self.chars and not self._bundles

    def key(self) -> Key:
        """Equal for parts that show the same."""
        out, error = (self._digests[name].hexdigest() for name in ("stdout", "stderr"))
        return out, error, tuple(shown for _, shown in self._bundles)

    def add_text(self, name: str, text: str) -> None:
        self.chars += len(text)
        self._digests[name].update(text.encode(errors="replace"))
        if not self._keeps:
            return
        if not self.items or self.items[-1][0] != name:
            self.items.append((name, []))
        self.items[-1][1].append(text)

    def add_bundle(self, content: dict[str, Any]) -> None:
        self._bundles.append((_display_id(content), _shown(content)))
        if self._keeps:
            self.items.append(("bundle", content))

    def replace_bundle(self, content: dict[str, Any]) -> None:
        """`update_display_data`: nothing happens when this part does not have that display."""
        identifier = _display_id(content)
        self._bundles = [
            (known, _shown(content) if known == identifier else shown) for known, shown in self._bundles
        ]
        self.items = [
            ("bundle", content) if kind == "bundle" and _display_id(item) == identifier else (kind, item)
            for kind, item in self.items
        ]


class Recording:
    def __init__(self, keeps_items: bool) -> None:
        self._keeps = keeps_items
        self.parts = [Part(keeps_items)]
        self._clears_next = False
        #: Changes with each message.
        self.version = 0

    def add(self, msg_type: str, content: dict[str, Any]) -> None:
        self.version += 1
        if msg_type == "clear_output":
            self._clears_next = True
            if not content.get("wait"):
                self._clear()
            return
        if msg_type == "update_display_data":
            for part in self.parts:
                part.replace_bundle(content)
            return
        self._clear()
        if msg_type == "stream":
            self._add_text(content["name"], content["text"])
        else:
            self.parts[-1].add_bundle(content)

    def forget(self, number: int) -> None:
        """Frees a part that has been shown."""
        self.parts[number] = Part(False)

    def _clear(self) -> None:
        if self._clears_next:
            self._clears_next = False
            self.parts[-1] = Part(self._keeps)

    def _add_text(self, name: str, text: str) -> None:
        while text:
            part = self.parts[-1]
            room = PART_CHARS - part.chars
            part.add_text(name, text[:room])
            text = text[room:]
            if part.chars >= PART_CHARS:
                self.parts.append(Part(self._keeps))


def _display_id(content: dict[str, Any]) -> str | None:
    identifier = (content.get("transient") or {}).get("display_id")
    return None if identifier is None else str(identifier)


def _shown(content: dict[str, Any]) -> str:
    data = content.get("data") or {}
    if WIDGET in data:  # names a model, which differs on each host
        data = {"text/plain": data.get("text/plain", "")}
    text = _ADDRESS.sub("0x", json.dumps(data, sort_keys=True, default=str))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
