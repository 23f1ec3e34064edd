"""One container of a pod over all of its runs: start, watch, record how it ended, restart.

`ContainerRun` is the state of the current run, from its start until its output has been read completely.
"""

from __future__ import annotations

import os
import signal
import time

from . import cgroups, container, lifecycle, processes, rootfs
from .container_log import ContainerLog, TerminationMessage, timestamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .container_probes import ContainerProbes
    from .pod_process import PodProcess
    from .pod_spec import ContainerPlan, ContainerSpec, Mount, Probe


_DRAIN = 0.3  # seconds without output after which a pipe that another process still holds is closed
_LINGER = 5.0  # seconds that an init may take to kill what the workload left behind
_CRASH = 5.0  # a crash within this many seconds of a fork may be due to the fork
_MOST_FAILED_STARTS = 3  # in a row: a program that this machine lacks does not appear by waiting
_CRASH_SIGNALS = (signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV)


class Member:
    """A container of the pod, init containers and sidecars included."""

    def __init__(self, pod: PodProcess, spec: ContainerSpec, kind: str) -> None:
        self.name = spec["name"]
        self.is_sidecar = kind == "init" and spec.get("restartPolicy") == "Always"
        reason = "PodInitializing" if pod.spec["initContainers"] else "ContainerCreating"
        self.state: dict[str, Any] = {"waiting": {"reason": reason}}
        self.last_state: dict[str, Any] = {}
        self.workload_pid = 0
        self.peak_memory = 0
        self.cold_because = ""  # why it started cold although a warm start was requested
        self.fork_failed = ""  # how a warm start failed; later starts are cold
        self._pod = pod
        self._spec = spec
        self._kind = kind
        self._message = TerminationMessage(pod.pod_dir, spec)
        self._policy = "Always" if self.is_sidecar else pod.spec["restartPolicy"]
        if kind == "init" and not self.is_sidecar and self._policy == "Always":
            self._policy = "OnFailure"  # an init container that succeeded never restarts
        self._restart_count = 0
        self._restarts_in_a_row = 0
        self._failed_starts = 0  # in a row
        self._may_start = True
        self._ever_started = False
        self._restart_at: float | None = None
        self._lost_before = 0  # log bytes lost in earlier runs
        self._run: ContainerRun | None = None

    @property
    def is_running(self) -> bool:
        return self._run is not None

    @property
    def is_over(self) -> bool:
        return self._run is None and "terminated" in self.state

    @property
    def succeeded(self) -> bool:
        return bool(self.state.get("terminated", {}).get("exitCode", 1) == 0)

    @property
    def lets_next_start(self) -> bool:
        """Whether the init container after it may start."""
        return self._ever_started if self.is_sidecar else self.is_over and self.succeeded

    @property
    def polls_memory(self) -> bool:
        return self._run is not None and self._run.polls_memory

    @property
    def log_lost(self) -> int:
        return self._lost_before + (self._run.log.lost if self._run else 0)

    def due_in(self, now: float) -> list[float]:
        """Return the seconds until each time at which `tick` or `start_if_due` has something to do."""
        due = [] if self._restart_at is None else [self._restart_at - now]
        return due + self._run.due_in(now) if self._run else due

    def status(self) -> dict[str, Any]:
        runs = self._run is not None and "running" in self.state
        probes = self._run.probes if self._run else None
        done_init = self._kind == "init" and not self.is_sidecar and self.succeeded
        return {
            "name": self.name,
            "ready": done_init or (runs and (probes is None or probes.ready)),
            "started": runs and (probes is None or probes.started),
            "restartCount": self._restart_count,
            "state": self.state,
            "lastState": self.last_state,
        }

    def start_if_due(self) -> None:
        """Start it for the first time, or restart it when its backoff is over."""
        if self._run or not self._may_start:
            return
        first = "waiting" in self.state and self._restart_at is None
        again = self._restart_at is not None and time.monotonic() >= self._restart_at
        if first or again:
            if again:
                self._restart_count += 1
                self.state = {"waiting": {"reason": "ContainerCreating"}}
            self._restart_at = None
            self._start()

    def never_restart(self) -> None:
        """Make its next end the last one, and cancel a pending restart."""
        self._may_start = False
        if self._restart_at is not None:
            self._restart_at = None
            self.state, self.last_state = self.last_state, {}
            self._pod.changed()

    def terminate(self) -> None:
        if self._run and not self._run.told_to_end:
            self._run.told_to_end = True
            self._run.stop_probes()
            self._run.container.terminate()

    def kill(self) -> None:
        """Kill all of its processes; a second call kills its init too."""
        if self._run and self._run.told_to_die:
            self._run.container.kill_init()
        elif self._run:
            self._run.told_to_die = True
            self._run.stop_probes()
            self._run.container.kill()

    def reaped(self, pid: int, status: int) -> None:
        if self._run and self._run.container.pid == pid:
            self._run.init_status = status
            self._run.drain_until = time.monotonic() + _DRAIN
            self._run.kill_at = None
        elif self._run and self._run.probes:
            self._run.probes.reaped(pid, status)

    def tick(self, now: float) -> None:
        run = self._run
        if not run:
            return
        if run.log.flush_in() == 0.0:
            run.log.flush()
        if run.linger_until is not None and now >= run.linger_until:
            run.linger_until = None
            run.container.kill_init()
        if run.life_until is not None and now >= run.life_until:
            run.life_until = None
            life = self._spec["warm"]["life"]
            self.fork_failed = f"it did not reach its first line within {life:g} s of a warm start"
            run.lifeless = True
            run.container.kill_all()  # its init waits for the program and handles no signals yet
        self._check_health(run, now)
        if run.init_status is not None and run.channel_closed and (run.output_closed or now >= run.drain_until):
            self._ended(run)

    def _check_health(self, run: ContainerRun, now: float) -> None:
        """Run the probes; if one of them fails the container, end it within its grace period."""
        if run.probes:
            run.probes.tick(now)
            self._ever_started |= run.probes.started
        if run.probes and run.probes.failure and not run.told_to_end and run.wait_status is None:
            run.unhealthy = run.probes.failure
            run.kill_at = now + (self._pod.spec["grace"] if run.probes.grace is None else run.probes.grace)
            self.terminate()
        if run.kill_at is not None and now >= run.kill_at:
            run.kill_at = now + _LINGER
            self.kill()

    def check_memory(self) -> None:
        """Enforce a limit for which there is no cgroup."""
        run = self._run
        if not run or not run.polls_memory or run.out_of_memory:
            return
        resident = processes.descendants(run.container.pid)
        total = sum(resident.values())
        if total > self._spec["memory"]:  # shared pages were counted more than once: measure precisely
            total = sum(processes.proportional_memory(pid) or size for pid, size in resident.items())
        self.peak_memory = max(self.peak_memory, total)
        if total > self._spec["memory"]:
            run.out_of_memory = True
            self.kill()

    def _start(self) -> None:
        pod, spec = self._pod, self._spec
        folder, limits = f"{pod.pod_dir}/logs/{self.name}/{self._restart_count}", pod.spec["log"]
        log = ContainerLog(folder, limits["maxBytes"], limits["files"])
        group = self._make_cgroup()
        self.cold_because = self.fork_failed or self.cold_because
        try:
            self._message.clear()
            plan = self._plan(pod.secrets.get("argv", {}).get(self.name, spec["argv"]), group)
            plan["shownArgv"] = spec["argv"]
            if pod.forked and not self.cold_because:
                plan["warm"] = spec.get("warm")
            if pod.full:
                plan["mounts"] = self._mounts()
                os.makedirs(self._root_dir, mode=0o700, exist_ok=True)
            started = container.start(plan)
        except OSError as error:
            log.close()
            group.remove()
            self._record(128 << 8, None, time.time(), error.strerror or str(error))
            return
        run = ContainerRun(started, log, group)
        if plan["warm"] is not None:
            run.life_until = time.monotonic() + plan["warm"]["life"]
            run.forked = True
        run.polls_memory = bool(spec["memory"]) and spec["limits"] != "off" and not group.memory
        self._run = run
        pod.watch(started.output, lambda _: self._on_output(run))
        pod.watch(started.channel.fileno(), lambda _: self._on_channel(run))
        pod.changed()

    def _plan(self, argv: list[str], group: cgroups.Cgroup) -> ContainerPlan:
        """Return the plan of a process in this container: its main program, or the command of a probe."""
        pod = self._pod
        return {
            "uid": pod.spec["uid"],
            "hostname": pod.spec["hostname"],
            "argv": argv,
            "shownArgv": argv,
            "image": self._spec.get("image", ""),
            "env": pod.secrets["env"].get(self.name, {}),
            "cwd": self._spec["cwd"] or "/",
            "namespaces": pod.full,
            "rewriteBinds": pod.rewrites_binds,
            "rootDir": self._root_dir,
            "mounts": [],
            "cgroupFiles": group.join_files,
            "hostProc": pod.host_proc,
            "warm": None,
        }

    def _probes(self, run: ContainerRun) -> ContainerProbes:
        from .container_probes import ContainerProbes, check  # slow to load, and few containers have probes

        def start(probe: Probe) -> container.Container:
            plan = self._plan(probe.get("exec", []), run.group)
            if "exec" in probe:
                return container.start_inside(plan, run.container.pid)
            return container.start_check(plan, lambda: check(probe))

        return ContainerProbes(self._pod, self.name, self._spec["probes"], start)

    def _make_cgroup(self) -> cgroups.Cgroup:
        name = cgroups.group_name(self._pod.spec["uid"], self.name, self._restart_count)
        limits = (self._spec["memory"], self._spec["cpu"]) if self._spec["limits"] == "cgroup" else (0, 0.0)
        group = cgroups.create(name, *limits)
        for problem in group.problems:
            self._pod.warn(f"{self.name}: {problem}")
        return group

    @property
    def _root_dir(self) -> str:
        return f"{self._pod.pod_dir}/rootfs/{self.name}.{self._restart_count}"

    def _mounts(self) -> list[Mount]:
        pod_dir = self._pod.pod_dir
        mounts: list[Mount] = []
        if self._pod.spec["hosts"]:
            mounts.append({"source": self._pod.spec["hosts"], "target": "/etc/hosts", "readOnly": False})
        if os.path.isdir("/run/nscd"):  # nscd would resolve names with the host's /etc/hosts
            empty = f"{pod_dir}/rootfs/empty"
            os.makedirs(empty, exist_ok=True)
            mounts.append({"source": empty, "target": "/run/nscd", "readOnly": True})
        for mount in self._spec["mounts"]:
            if mount["source"].startswith(f"{pod_dir}/volumes/") and not os.path.exists(mount["source"]):
                os.makedirs(mount["source"], exist_ok=True)  # a subPath that does not exist yet
            mounts.append(mount)
        return [*mounts, self._message.mount]

    def _on_output(self, run: ContainerRun) -> None:
        try:
            data = os.read(run.container.output, 1 << 18)
        except BlockingIOError:
            return
        if data:
            run.log.feed(data)
            run.drain_until = time.monotonic() + _DRAIN
        else:
            run.output_closed = True
            self._pod.unwatch(run.container.output)

    def _on_channel(self, run: ContainerRun) -> None:
        events, listeners, is_open = run.container.receive()
        for listener in listeners:
            self._pod.listen_to(listener)
        for event in events:
            if "pid" in event:
                self.workload_pid = event["pid"]
            elif "started" in event:
                run.started_at = event["started"]
                if self._spec.get("probes"):
                    run.probes = self._probes(run)
                else:
                    self._ever_started = True
                run.life_until = None
                self.state = {"running": {"startedAt": timestamp(run.started_at)}}
            elif "cold" in event:
                self.cold_because = event["cold"]
                run.forked = False
            elif "error" in event:
                run.failure, run.wait_status = event["error"], event["code"] << 8
            elif "exited" in event:
                run.wait_status, run.finished_at = event["exited"], event["at"]
                run.stop_probes()
                run.linger_until = time.monotonic() + _LINGER
            elif "peak" in event:
                self.peak_memory = max(self.peak_memory, event["peak"])
            self._pod.changed()
        if not is_open:
            run.channel_closed = True
            self._pod.unwatch(run.container.channel.fileno())

    def _ended(self, run: ContainerRun) -> None:
        run.stop_probes()
        self._pod.unwatch(run.container.output)
        run.container.close()
        run.log.close()
        self._run = None
        self.workload_pid = 0
        self._lost_before += run.log.lost
        oom = run.out_of_memory or run.group.oom_kills() > 0
        self.peak_memory = max(self.peak_memory, run.group.peak())
        run.group.kill()
        run.group.remove()
        if run.lifeless and self._may_start:  # not a restart: the program has not run yet
            self._remove_root()
            self._start()
            return
        # If the init was killed before it could report, its own status counts.
        status = (run.init_status or 0) if run.wait_status is None else run.wait_status
        finished = run.finished_at or time.time()
        crashed = lifecycle.exit_signal(status) in _CRASH_SIGNALS
        if run.forked and crashed and finished - (run.started_at or finished) < _CRASH:
            code = lifecycle.exit_code(status)
            self.fork_failed = f"it crashed with exit code {code} within {_CRASH:g} s of a warm start"
        message = run.failure or self._message.read(lifecycle.exit_code(status), run.log) or run.unhealthy
        self._record(status, run.started_at, finished, message, oom=oom, unhealthy=bool(run.unhealthy))

    def _record(
        self,
        status: int,
        started: float | None,
        finished: float,
        message: str,
        *,
        oom: bool = False,
        unhealthy: bool = False,
    ) -> None:
        code = lifecycle.exit_code(status)
        reason = lifecycle.termination_reason(code, started=started is not None, out_of_memory=oom)
        terminated: dict[str, Any] = {"exitCode": code, "reason": reason}
        if lifecycle.exit_signal(status):
            terminated["signal"] = lifecycle.exit_signal(status)
        if message:
            terminated["message"] = message
        terminated["startedAt"] = timestamp(started or finished)
        terminated["finishedAt"] = timestamp(finished)
        self.state = {"terminated": terminated}
        self._pod.changed()
        rootfs.release_points(self._root_dir)
        self._failed_starts = self._failed_starts + 1 if started is None else 0
        # `Always` is the policy of servers, which wait for their program as on a cluster.
        may_give_up = self._policy == self._pod.spec["restartPolicy"] == "OnFailure"
        gives_up = may_give_up and self._failed_starts >= _MOST_FAILED_STARTS
        if self._may_start and not gives_up and lifecycle.restarts(self._policy, code, unhealthy=unhealthy):
            self._schedule_restart(finished - (started or finished))
        else:
            self._may_start = False

    def _schedule_restart(self, ran_for: float) -> None:
        backoff = self._pod.spec["backoff"]
        if ran_for >= backoff["reset"]:
            self._restarts_in_a_row = 0
        wait = lifecycle.delay(self._restarts_in_a_row, backoff)
        self._restarts_in_a_row += 1
        self._restart_at = time.monotonic() + wait
        self.last_state = self.state
        text = f"back-off {wait:g}s restarting failed container={self.name} pod={self._pod.spec['name']}"
        self.state = {"waiting": {"reason": "CrashLoopBackOff", "message": text}}
        self._remove_root()

    def _remove_root(self) -> None:
        """Remove the root of the previous run: a restarted container starts from a clean layer."""
        try:
            rootfs.remove_container_root(self._root_dir)
        except (OSError, rootfs.RootfsBusyError) as error:
            self._pod.warn(f"{self.name}: the files of its previous run were not removed: {error}")


class ContainerRun:
    """The state of one run: what it reported, which signals it got, and its deadlines."""

    def __init__(self, started: container.Container, log: ContainerLog, group: cgroups.Cgroup) -> None:
        self.container = started
        self.log = log
        self.group = group
        self.polls_memory = False
        self.started_at: float | None = None
        self.finished_at: float | None = None
        self.wait_status: int | None = None  # the status of the workload, or of a failed start
        self.failure = ""  # why it could not start
        self.init_status: int | None = None
        self.channel_closed = False
        self.output_closed = False
        self.drain_until = 0.0
        self.linger_until: float | None = None
        self.told_to_end = False
        self.told_to_die = False
        self.out_of_memory = False
        self.probes: ContainerProbes | None = None  # set once the program has started, if the container has probes
        self.unhealthy = ""  # the probe that failed, and why
        self.kill_at: float | None = None  # when the grace period of an unhealthy program ends
        self.forked = False  # it started warm and has not been restarted cold
        self.life_until: float | None = None  # when a forked program must have reached its first line
        self.lifeless = False

    def due_in(self, now: float) -> list[float]:
        due = [] if self.init_status is None else [self.drain_until - now]
        due.extend(when - now for when in (self.linger_until, self.life_until, self.kill_at) if when is not None)
        due.extend(self.probes.due_in(now) if self.probes else [])
        flush = self.log.flush_in()
        return due if flush is None else [*due, flush]

    def stop_probes(self) -> None:
        if self.probes:
            self.probes.close()
