"""Compilations of all hosts as those of one: told once, and marked where not all hosts had them."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

#: Hosts compile the same program at about the same time; the slowest gets so long.
GRACE_S = 5.0
#: Ids of the hosts' own, apart from those of process 0 and each other.
IDS_OF_HOST = 1_000_000_000
#: What is told, so that its late companions are not taken for others.
KEPT = 2048

Key = tuple[str, int]


class _Program:
    def __init__(self, began: float) -> None:
        self.began = began
        self.by_host: dict[int, dict[str, Any]] = {}


class HostCompilations:
    def __init__(self, count: int, send: Callable[[dict[str, Any]], None]) -> None:
        self._count = count
        self._send = send
        self._programs: collections.OrderedDict[Key, _Program] = collections.OrderedDict()
        #: Those of which it is not known yet whether all hosts have them.
        self._open: dict[Key, _Program] = {}

    def add(self, host: int, message: dict[str, Any], now: float) -> None:
        """What process 0 compiles is told at once; which others did not is known a while later."""
        if host == 0:
            self._send(message)
        # Small programs of eager operations differ with what a host prints and checks.
        if message["phase"] != "finished" or message["eager"]:
            return
        key = message["function"], message["variant"]
        program = self._programs.get(key)
        if program is None:
            program = self._programs[key] = self._open[key] = _Program(now)
        program.by_host[host] = message
        if len(program.by_host) == self._count:
            self._open.pop(key, None)
        while len(self._programs) > KEPT:
            self._programs.popitem(last=False)

    def settle(self, now: float, *, all_of_them: bool = False) -> None:
        for key, program in list(self._open.items()):
            if now - program.began < GRACE_S and not all_of_them:
                continue
            del self._open[key]
            first = min(program.by_host)
            message = program.by_host[first]
            number = message["id"] + first * IDS_OF_HOST
            self._send({**message, "id": number, "hosts": sorted(program.by_host)})
