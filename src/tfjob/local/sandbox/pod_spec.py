"""The files between the kubelet and a pod's supervisor, as types: spec.json, the secrets pipe, status.json.

Supervisors import this module for type checking only: `typing` alone would take a third of their startup time.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

Level = Literal["full", "addresses", "ports"]
Limits = Literal["cgroup", "poll", "off"]

SCHEMA = 1


class Mount(TypedDict):
    """A file or folder of the host, and the path where the container sees it."""

    source: str
    target: str
    readOnly: bool


class WarmProgram(TypedDict):
    """The script or module that a fork of a fork server runs, `argv[at]`; its first line must run in `life` seconds."""

    at: int
    module: bool
    life: float


class ContainerPlan(TypedDict):
    """What a process needs to start in a container; every path is the host's.

    `shownArgv` is `argv` without the values of Secrets. `hostProc` is a descriptor of the host's /proc.
    """

    uid: str
    hostname: str
    argv: list[str]
    shownArgv: list[str]
    image: str
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
    """A probe in seconds, with one of `exec`, `http` and `tcp`; if `grace` is None, the pod's grace period applies."""

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
    """One container: its command and its limits (`memory` in bytes, `cpu` in cores; 0 is unlimited)."""

    name: str
    image: NotRequired[str]
    argv: list[str]
    cwd: str
    mounts: list[Mount]
    memory: int
    cpu: float
    limits: Limits
    terminationMessagePath: str
    terminationMessagePolicy: str
    restartPolicy: NotRequired[str]
    warm: NotRequired[WarmProgram]
    probes: NotRequired[dict[ProbeKind, Probe]]


class Tmpfs(TypedDict):
    """A volume in memory: an emptyDir, or (`secret`) files from the secrets pipe; `folders` are mounted by subPath."""

    name: str
    path: str
    size: int
    secret: bool
    folders: NotRequired[list[str]]


class Backoff(TypedDict):
    """The delays of restarts in seconds: the first, the longest, and the run time after which they start over."""

    initial: float
    max: float
    reset: float


class LogLimits(TypedDict):
    """The maximum size of a log file, and how many files are kept for each run of a container."""

    maxBytes: int
    files: int


class PodSpec(TypedDict):
    """spec.json, written by the kubelet before the launch."""

    schema: int
    uid: str
    name: str
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
    """What the supervisor reads from the launch pipe and never writes to disk, such as commands with secret values."""

    env: dict[str, dict[str, str]]
    files: dict[str, dict[str, SecretFile]]
    argv: NotRequired[dict[str, list[str]]]


class PodStatusFile(TypedDict):
    """status.json: a Kubernetes PodStatus, then what only a supervisor knows, such as the reasons for cold starts."""

    phase: str
    reason: str
    message: str
    startTime: str
    containerStatuses: list[dict[str, Any]]
    initContainerStatuses: list[dict[str, Any]]
    done: bool
    stopped: bool
    peakMemory: dict[str, int]
    pids: dict[str, int]
    ports: list[int]
    warnings: list[str]
    cold: dict[str, str]
    logLost: int
    forkFailed: str
