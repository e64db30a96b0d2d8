"""The messages that the agent sends, as the project's protocol defines them (`protocol/src/telemetry.ts`).

Times are Unix milliseconds, durations milliseconds, sizes bytes. Names are the names on the wire.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

Verdict = Literal["first", "shape", "dtype", "tree", "static", "redefined", "sharding", "config", "other"]
ControlAction = Literal[
    "pause",
    "resume",
    "stop",
    "set",
    "checkpoint",
    "evaluate",
    "sample",
    "call",
    "branch",
    "free",
    "memory",
    "profile",
]
ControlPhase = Literal["accepted", "applied", "refused", "expired", "failed"]
ControlOrigin = Literal["page", "code"]
BandKind = Literal["checkpoint", "evaluate", "sample", "call", "transfer", "pause"]
AdviceKind = Literal[
    "cpu-backend",
    "spawn-in-cell",
    "sync-each-step",
    "constant-hyperparameter",
    "ragged-batch",
    "non-finite-metric",
    "alert",
    "slower",
    "missing-hook",
    "freed-metric",
    "too-many-metrics",
    "unusable-value",
    "host-differs",
    "graph-break",
]
NonFinite = Literal["NaN", "Infinity", "-Infinity"]
HyperValue = float | int | bool | str


class Timed(TypedDict):
    time: float


class OfRun(Timed):
    run: str


class CodeLocation(TypedDict):
    cellId: str | None
    executionCount: int | None
    line: int | None
    file: str | None
    function: str | None


CapabilityName = Literal[
    "compilations", "device-time", "waiting-lines", "profiler", "torch-xla", "subshells", "live-widgets"
]


class Capability(TypedDict):
    name: CapabilityName
    available: bool
    reason: str | None


class HelloMessage(Timed):
    type: Literal["hello"]
    v: Literal[1]
    pid: int
    agentVersion: str
    pythonVersion: str
    ipykernelVersion: str | None
    capabilities: NotRequired[list[Capability]]


class RuntimeDevice(TypedDict):
    id: int
    platform: str
    kind: str
    processIndex: int
    memoryUsedBytes: int | None
    memoryTotalBytes: int | None
    memoryPeakBytes: int | None


class DevicesMessage(Timed):
    type: Literal["devices"]
    runtime: str
    runtimeVersion: str
    platform: str
    devices: list[RuntimeDevice]


RunState = Literal["running", "finished", "failed"]


class HyperparameterDescription(TypedDict):
    name: str
    value: HyperValue
    initial: HyperValue
    kind: str
    min: float | None
    max: float | None
    scale: str
    choices: list[HyperValue] | None
    description: str | None
    recompiles: bool


class RunControl(TypedDict):
    state: str
    actions: list[ControlAction]
    own: NotRequired[list[str]]
    hyperparameters: list[HyperparameterDescription]
    config: dict[str, HyperValue | None]
    log: str | None
    branch: NotRequired[RunBranch]


class RunBranch(TypedDict):
    run: str
    step: int


class ControlMessage(Timed):
    type: Literal["control"]
    id: str
    run: str | None
    action: ControlAction
    name: str | None
    value: HyperValue | None
    before: HyperValue | None
    origin: ControlOrigin
    phase: ControlPhase
    step: int | None
    durationMs: float | None
    reason: str | None


class FenceMessage(TypedDict):
    """From a host of a slice, only for the lead: the first step at which a command can still be applied."""

    type: Literal["fence"]
    id: str
    #: -1: no run accepts commands
    step: int


class BandMessage(OfRun):
    type: Literal["band"]
    kind: BandKind
    startTime: float
    durationMs: float
    step: int
    inStep: bool
    failed: bool


class MfuFigures(TypedDict):
    value: float | None
    flopsPerStep: float
    flopsPerSecond: float
    peakFlopsPerSecond: float | None
    peakType: str | None
    source: Literal["given", "counted", "lower-bound"]
    missing: NotRequired[list[str]]


class Goodput(TypedDict):
    productiveMs: float
    totalMs: float
    badputMs: dict[str, float]


class ThroughputMessage(OfRun):
    type: Literal["pace"]
    step: int
    stepsPerSecond: float | None
    tokensPerSecond: float | None
    samplesPerSecond: float | None
    updatesPerSecond: NotRequired[float]
    etaSeconds: float | None
    mfu: MfuFigures | None
    goodput: Goodput


class AdviceMessage(Timed):
    type: Literal["advice"]
    id: str
    kind: AdviceKind
    message: str
    remedy: str
    location: CodeLocation | None
    run: str | None


class HeldArrays(TypedDict):
    bytes: int
    count: int
    shape: list[int]
    dtype: str
    names: list[str]


class HeldBytes(TypedDict):
    traceback: int
    outputs: int


class MemoryErrorMessage(Timed):
    type: Literal["memory-error"]
    id: str
    what: Literal["program", "allocation", "other"]
    requestedBytes: int | None
    freeBytes: int | None
    limitBytes: int | None
    text: str
    arrays: list[HeldArrays]
    heldBytes: HeldBytes
    location: CodeLocation | None
    run: str | None


class MemoryMessage(Timed):
    type: Literal["memory"]
    totalBytes: int
    arrays: list[HeldArrays]
    heldBytes: HeldBytes


class ProfileOperation(TypedDict):
    name: str
    module: str
    count: int
    totalMs: float


class ProfileMessage(Timed):
    type: Literal["profile"]
    durationMs: float
    folder: str
    devices: int
    busyMs: float
    operations: list[ProfileOperation]


class RunMessage(OfRun):
    type: Literal["run"]
    name: str
    state: RunState
    totalSteps: int | None
    openEnded: NotRequired[bool]
    inBand: NotRequired[bool]
    location: CodeLocation | None
    control: NotRequired[RunControl]


class StepSpans(TypedDict):
    """Where the milliseconds of a step went."""

    wallMs: float
    inputMs: float
    hostMs: float
    compileMs: float
    deviceMs: float
    gapMs: float


class StepSample(StepSpans):
    index: int
    startTime: float
    deviceKnown: bool
    metrics: NotRequired[dict[str, float]]
    nonFinite: NotRequired[dict[str, NonFinite]]
    bands: NotRequired[dict[str, float]]


class StepsMessage(OfRun):
    type: Literal["steps"]
    steps: list[StepSample]
    dropped: int


class FiguresMessage(OfRun):
    """Numbers that were logged after their step was over, for example of an evaluation."""

    type: Literal["figures"]
    step: int
    metrics: dict[str, float]
    nonFinite: NotRequired[dict[str, NonFinite]]


class MediaMessage(OfRun):
    """A picture, sound or text that a run has logged."""

    type: Literal["media"]
    id: int
    step: int
    name: str
    mime: str
    data: str


class CompileReason(TypedDict):
    verdict: Verdict
    argument: str | None
    before: str | None
    after: str | None
    advice: str | None


class CacheOutcome(TypedDict):
    result: Literal["hit", "miss", "off"]
    reason: str | None


class CompileMessage(Timed):
    type: Literal["compile"]
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
    fingerprint: NotRequired[str]
    reused: NotRequired[bool]
    cache: NotRequired[CacheOutcome]


class ControlHello(TypedDict):
    """First line of the connection that carries commands; only for the keeper."""

    type: Literal["control-hello"]
    v: Literal[1]
    pid: int


Requested = MemoryMessage | ProfileMessage
Reported = CompileMessage | BandMessage | AdviceMessage | MemoryErrorMessage | ControlMessage | Requested
Event = RunMessage | DevicesMessage | Reported
Message = HelloMessage | Event | StepsMessage | FiguresMessage | MediaMessage | ThroughputMessage
