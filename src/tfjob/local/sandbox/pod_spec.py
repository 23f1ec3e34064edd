"""The files between the kubelet and a pod's supervisor, as types: spec.json, the secrets pipe, status.json.

Supervisors import this for type checking only: `typing` alone would cost a third of their start.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

Level = Literal["full", "addresses", "ports"]

SCHEMA = 1


class Mount(TypedDict):
    """A file or folder of the host and the path at which the container sees it."""

    source: str
    target: str
    readOnly: bool


class WarmProgram(TypedDict):
    """What a fork of a fork server becomes: the script, or the module, that is word number `at` of argv."""

    at: int
    module: bool


class ContainerPlan(TypedDict):
    """What a process needs to start in a container; every path is the host's.

    `shownArgv` is `argv` without the values of Secrets. `hostProc` is a descriptor of the host's /proc, in which a
    workload finds its pid on the host. A fork of a fork server runs `warm` instead of `argv`.
    """

    uid: str
    hostname: str
    argv: list[str]
    shownArgv: list[str]
    env: dict[str, str]
    cwd: str
    namespaces: bool
    rewriteBinds: bool
    rootDir: str
    mounts: list[Mount]
    cgroupFiles: list[str]
    hostProc: int | None
    warm: WarmProgram | None


class TcpSocket(TypedDict):
    """The address to which a probe connects; `host` is an IPv4 address."""

    host: str
    port: int


class HttpGet(TcpSocket):
    """The request of an HTTP probe; TLS certificates are not verified."""

    tls: bool
    path: str
    headers: list[tuple[str, str]]


class Probe(TypedDict):
    """A probe with the kubelet's defaults filled in, in seconds; exactly one of `exec`, `http` and `tcp` is set.

    `grace` is how long a container may take to stop if this probe fails; None means the pod's own grace.
    """

    initialDelay: float
    period: float
    timeout: float
    successThreshold: int
    failureThreshold: int
    grace: float | None
    exec: NotRequired[list[str]]
    http: NotRequired[HttpGet]
    tcp: NotRequired[TcpSocket]


ProbeKind = Literal["startup", "readiness", "liveness"]


class ContainerSpec(TypedDict):
    """One container: what to run, and its limits (`cpu` in cores, 0 is unlimited).

    A supervisor that comes from a fork server starts `warm` instead of `argv`, which mean the same.
    """

    name: str
    argv: list[str]
    cwd: str
    mounts: list[Mount]
    memory: int
    cpu: float
    limits: Literal["cgroup", "poll", "off"]
    terminationMessagePath: str
    terminationMessagePolicy: str
    restartPolicy: NotRequired[str]
    warm: NotRequired[WarmProgram]
    probes: NotRequired[dict[ProbeKind, Probe]]


class Tmpfs(TypedDict):
    """A volume in memory: an emptyDir of medium Memory, or (`secret`) the files that come by the secrets pipe.

    `folders` must exist in it before containers start, because they are mounted by subPath.
    """

    name: str
    path: str
    size: int
    secret: bool
    folders: NotRequired[list[str]]


class Backoff(TypedDict):
    """Seconds: the first delay, the longest, and how long a run must last to start anew."""

    initial: float
    max: float
    reset: float


class LogLimits(TypedDict):
    """How large a log file may grow, and how many are kept for an attempt."""

    maxBytes: int
    files: int


class PodSpec(TypedDict):
    """spec.json, written by the kubelet before the launch."""

    schema: int
    uid: str
    name: str
    namespace: str
    hostname: str
    level: Level
    ip: str
    restartPolicy: Literal["Never", "OnFailure", "Always"]
    grace: float
    lifeline: str | None
    hosts: str
    backoff: Backoff
    log: LogLimits
    tmpfs: list[Tmpfs]
    initContainers: list[ContainerSpec]
    containers: list[ContainerSpec]


class SecretFile(TypedDict):
    """A file of a secret volume: base64 data and its mode."""

    data: str
    mode: int


class Secrets(TypedDict):
    """What reaches the supervisor through the launch pipe and never touches the disk.

    `argv` has the words of the containers that name a Secret in them; spec.json has them without it.
    """

    env: dict[str, dict[str, str]]
    files: dict[str, dict[str, SecretFile]]
    argv: NotRequired[dict[str, list[str]]]


class Binds(TypedDict):
    """The ports that the pod listens on at its own address, and the binds that failed."""

    ports: list[int]
    failed: list[dict[str, object]]


class PodStatusFile(TypedDict):
    """status.json: a Kubernetes PodStatus and, below it, what only a supervisor knows.

    `cold` says by container why a start that was to be warm was not, `forkFailed` how a warm one hung or crashed.
    """

    phase: str
    reason: str
    message: str
    startTime: str
    containerStatuses: list[dict[str, Any]]
    initContainerStatuses: list[dict[str, Any]]
    done: bool
    forced: bool
    stopped: bool
    logLost: int
    peakMemory: dict[str, int]
    cpuSeconds: float
    pids: dict[str, int]
    binds: Binds
    warnings: list[str]
    cold: dict[str, str]
    forkFailed: str
