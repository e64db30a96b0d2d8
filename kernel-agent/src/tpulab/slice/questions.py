"""The lead's answers to the hosts: the user's input, the first host's decisions, and whether a program
may run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tpulab.slice.hosts import name_hosts

Answer = Callable[[int, dict[str, Any]], None]
#: `ask(prompt, password)`: the user's input; None: end of file.
Ask = Callable[[str, bool], Awaitable[str | None]]


#: When two hosts differ, the undecided ones get so long to state with whom they agree.
_LATE_S = 10.0


class SpeakerDecisions:
    """The speaker's decisions: its n-th answer goes to the n-th question of each host."""

    def __init__(self, speaker: int, answer: Answer) -> None:
        self._speaker = speaker
        self._answer = answer
        self._decided: list[dict[str, Any]] = []
        self._requested: dict[int, int] = {}
        self._waiting: list[tuple[int, int, int]] = []

    async def question(self, host: int, content: dict[str, Any]) -> None:
        place = self._requested.get(host, 0)
        self._requested[host] = place + 1
        if host == self._speaker:
            self._decided.append(await self._decide(content))
        self._waiting.append((host, place, content["number"]))
        self._answer_waiting()

    async def _decide(self, content: dict[str, Any]) -> dict[str, Any]:
        return {"value": content["value"]}

    def _answer_waiting(self) -> None:
        still: list[tuple[int, int, int]] = []
        for host, place, number in self._waiting:
            if place < len(self._decided):
                self._answer(host, {"number": number, **self._decided[place]})
            else:
                still.append((host, place, number))
        self._waiting = still


class Inputs(SpeakerDecisions):
    """`input()` is the speaker's: the user is prompted once."""

    def __init__(self, speaker: int, ask: Ask, answer: Answer) -> None:
        super().__init__(speaker, answer)
        self._request = ask

    async def _decide(self, content: dict[str, Any]) -> dict[str, Any]:
        typed = await self._request(content["prompt"], content["password"])
        return {"value": typed or "", "eof": typed is None}


class ProgramChecks:
    """Lets programs over several hosts run once all of these hosts have shown the same one."""

    def __init__(self, hosts: Sequence[int], answer: Answer) -> None:
        self._hosts = set(hosts)
        self._answer = answer
        self._finished: set[int] = set()
        #: (processes, place) to host to its output
        self._shown: dict[tuple[tuple[int, ...], int], dict[int, dict[str, Any]]] = {}
        #: Refusals, for hosts that reach them later.
        self._refused: dict[tuple[tuple[int, ...], int], str] = {}

    def question(self, host: int, content: dict[str, Any]) -> None:
        key = (tuple(content["processes"]), content["place"])
        self._shown.setdefault(key, {})[host] = content
        self._judge(key)

    def finish(self, host: int) -> None:
        """The cell is over on this host: it shows no more programs."""
        self._finished.add(host)
        for key in list(self._shown):
            self._judge(key)

    def _judge(self, key: tuple[tuple[int, ...], int], *, late: bool = False) -> None:
        processes, _ = key
        shown = self._shown.get(key)
        if not shown:
            return
        absent = [host for host in processes if host not in shown]
        never = [host for host in absent if host not in self._hosts or host in self._finished]
        error = self._refused.get(key, "")
        if error:
            pass
        elif len({one["fingerprint"] for one in shown.values()}) > 1:
            if len(absent) > len(never) and not late:
                asyncio.get_running_loop().call_later(_LATE_S, lambda: self._judge(key, late=True))
                return
            error = _differ(shown)
        elif never:
            error = _missing(shown, never, self._hosts)
        elif absent:
            return
        del self._shown[key]
        if error:
            self._refused[key] = error
        for host, content in shown.items():
            self._answer(host, {"number": content["number"], "error": error})


def _differ(shown: dict[int, dict[str, Any]]) -> str:
    groups: dict[str, list[int]] = {}
    for host in sorted(shown):
        groups.setdefault(shown[host]["fingerprint"], []).append(host)
    lines = [
        f"{name_hosts(hosts)}: {shown[hosts[0]]['name']} of {shown[hosts[0]]['signature'] or 'no arguments'}"
        for hosts in groups.values()
    ]
    return (
        "Hosts are about to run different programs over the same devices; they would wait for each other for "
        "ever. " + "; ".join(lines) + ". Make shapes, dtypes and static values the same on all hosts; what "
        "depends on jax.process_index() belongs outside jit, or into an argument."
    )


def _missing(shown: dict[int, dict[str, Any]], never: Sequence[int], hosts: set[int]) -> str:
    name = next(iter(shown.values()))["name"]
    why = "outside this cell" if never[0] not in hosts else "already done with the cell"
    return (
        f"{name} runs on devices of {name_hosts([*shown, *never])}; with {name_hosts(never)} {why} it would "
        "wait for ever. Run it in a cell on all hosts, or on this host's own devices (jax.local_devices())."
    )
