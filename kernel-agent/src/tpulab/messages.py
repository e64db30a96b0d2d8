"""The messages that the agent sends, as the project's protocol defines them (`protocol/src/telemetry.ts`).

Times are Unix milliseconds, durations milliseconds, sizes bytes. Names are those of the wire.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

Verdict = Literal["first", "shape", "dtype", "tree", "static", "redefined", "sharding", "other"]


class CodeLocation(TypedDict):
    cellId: str | None
    executionCount: int | None
    line: int | None
    file: str | None
    function: str | None


class HelloMessage(TypedDict):
    type: Literal["hello"]
    v: Literal[1]
    pid: int
    agentVersion: str
    pythonVersion: str
    ipykernelVersion: str | None
    time: float


class RuntimeDevice(TypedDict):
    id: int
    platform: str
    kind: str
    processIndex: int
    memoryUsedBytes: int | None
    memoryTotalBytes: int | None
    memoryPeakBytes: int | None


class DevicesMessage(TypedDict):
    type: Literal["devices"]
    time: float
    runtime: str
    runtimeVersion: str
    platform: str
    devices: list[RuntimeDevice]


RunState = Literal["running", "finished", "failed"]


class RunMessage(TypedDict):
    type: Literal["run"]
    time: float
    run: str
    name: str
    state: RunState
    totalSteps: int | None
    location: CodeLocation | None


class StepSample(TypedDict):
    index: int
    startTime: float
    wallMs: float
    inputMs: float
    hostMs: float
    compileMs: float
    deviceMs: float
    gapMs: float
    deviceKnown: bool
    metrics: NotRequired[dict[str, float]]


class StepsMessage(TypedDict):
    type: Literal["steps"]
    time: float
    run: str
    steps: list[StepSample]
    dropped: int


class CompileReason(TypedDict):
    verdict: Verdict
    argument: str | None
    before: str | None
    after: str | None
    advice: str | None


class CompileMessage(TypedDict):
    type: Literal["compile"]
    time: float
    id: int
    phase: Literal["started", "finished", "failed"]
    function: str
    variant: int
    traceMs: float
    lowerMs: float
    compileMs: float
    cacheHit: bool
    eager: bool
    location: CodeLocation | None
    run: str | None
    reason: CompileReason


Event = RunMessage | CompileMessage | DevicesMessage
Message = HelloMessage | Event | StepsMessage
