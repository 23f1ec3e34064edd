"""What a supervisor knows about the present run of a container, from its start until its last byte was read."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import cgroups, container
    from .container_log import ContainerLog


class ContainerRun:
    """One run: what was seen of it, what it was told, and what it must do by when."""

    def __init__(self, started: container.Container, log: ContainerLog, group: cgroups.Cgroup | None) -> None:
        self.container = started
        self.log = log
        self.group = group
        self.polls_memory = False
        self.started_at: float | None = None
        self.finished_at: float | None = None
        self.wait_status: int | None = None  # of the workload, or of a failed start
        self.failure = ""  # why it could not start
        self.init_status: int | None = None
        self.channel_closed = False
        self.output_closed = False
        self.drain_until = 0.0
        self.linger_until: float | None = None
        self.told_to_end = False
        self.told_to_die = False
        self.out_of_memory = False
        self.forked = False  # it was started warm and still is
        self.life_until: float | None = None  # when a forked program must have come to its first line
        self.lifeless = False

    def due_in(self, now: float) -> list[float]:
        """Seconds until each of the things that time alone brings."""
        due = [] if self.init_status is None else [self.drain_until - now]
        due.extend(when - now for when in (self.linger_until, self.life_until) if when is not None)
        flush = self.log.flush_in()
        return due if flush is None else [*due, flush]
