"""Jobs of this machine: prepare them, show their processes, and submit them; all of a manifest or none."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from tfjob.api.manifest.loader import Entry, Manifest
from tfjob.api.objects import ConfigMap, Object, Pod
from tfjob.api.problems import Problem, path_parts
from tfjob.api.types import KIND, TFJob
from tfjob.controller.kind import Key
from tfjob.jobs.backend import Record
from tfjob.launch.prepare import Prepared, check, first_children, with_namespace
from tfjob.launch.request import Request, is_script, manifest_text, pairs, read_request, without_secrets
from tfjob.local.admission import absent_programs, admission
from tfjob.local.admission import missing as missing_objects
from tfjob.local.inputs import gpus
from tfjob.local.inputs.images import chosen_interpreter
from tfjob.local.inputs.references import References, brought
from tfjob.local.pod import machine
from tfjob.local.pod.assembly import Assembled, assemble
from tfjob.local.pod.network import Peer, planned
from tfjob.local.run import submission
from tfjob.local.run.submission import Started, Submission
from tfjob.local.state import config
from tfjob.local.state.config import Config
from tfjob.local.state.home import Home, find_home
from tfjob.local.state.options import Options
from tfjob.local.state.store import Store, open_state
from tfjob.local.volumes.job_storage import SETTINGS
from tfjob.plan.facts.tasks import task_of
from tfjob.plan.facts.tf_config import port
from tfjob.plan.policy import cleanup

logger = logging.getLogger(__name__)

CLEAN_POD_POLICY = "spec.runPolicy.cleanPodPolicy"
ENDS_WITH_US = "None keeps no replica of an attached run: all end with it"
POD_FOLDER = Path("(pod folder)")


@dataclass(frozen=True)
class Setup:
    """How the jobs of a request use this machine; `notes` say why that is less than the best."""

    config: Config
    options: Options
    notes: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class LocalJobs(Prepared):
    """Jobs for this machine; `attached_warnings` apply only if they run attached."""

    submissions: Sequence[Submission]
    notes: Sequence[str]
    attached_warnings: Sequence[Problem]


def prepare(request: Request) -> LocalJobs:
    """Check a request against this machine and return what it creates."""
    data, manifest = read_request(request)
    setup = set_up(request)
    warnings = check([*manifest.problems, *problems(manifest, setup, request.namespace)])
    kept = without_secrets(data, manifest)
    return LocalJobs(
        manifest=partial(manifest_text, request, data, manifest),
        warnings=warnings,
        notes=setup.notes,
        submissions=[
            Submission(
                with_namespace(entry, entry.job, request.namespace, "default"),
                manifest.objects,
                kept,
                setup.options,
                setup.config,
            )
            for entry in manifest.entries
        ],
        attached_warnings=[
            entry.located(Problem(CLEAN_POD_POLICY, ENDS_WITH_US, "to keep them, use tfjob submit", warning=True))
            for entry in manifest.entries
            if entry.job.spec.run_policy.clean_pod_policy == cleanup.NONE
        ],
    )


def set_up(request: Request) -> Setup:
    """Read the configuration and choose how the jobs of a request use this machine."""
    # A manifest's relative paths and its tfjob.toml start at its folder; a script's manifest is made here.
    here = request.file == "-" or is_script(request.file)
    project = Path.cwd() if here else Path(request.file).absolute().parent
    settings = config.load(project, os.environ)
    mapped = pairs(request.volumes, "--volume", "NAME=FOLDER")
    python = str(Path(request.python).expanduser().absolute()) if os.sep in request.python else request.python
    if python:
        chosen_interpreter(Path(python), project)
    logger.debug("configuration: %s", ", ".join(map(str, settings.files)) or "none")
    choice = machine.choose(request.level or settings.level, "off" if request.no_limits else settings.limits)
    logger.debug("project folder %s, level %s, limits %s", project, choice.level, choice.limits)
    options = Options(
        project=str(project),
        level=choice.level,
        limits=choice.limits,
        python=python,
        cpu=request.cpu,
        warm=settings.warm if request.warm is None else request.warm,
        volumes={name: str(Path(folder).expanduser().absolute()) for name, folder in mapped.items()},
        environ=machine.kept_environ(os.environ),
    )
    return Setup(settings, options, choice.notes)


def problems(manifest: Manifest, setup: Setup, namespace: str) -> list[Problem]:
    """Return what this machine does not support of a manifest or does differently, with the place in the file.

    `namespace` is the requested one, for jobs that name none.
    """
    options = setup.options
    host = admission.Host(
        config=setup.config,
        project=Path(options.project),
        node=machine.node(),
        python=Path(options.python) if options.python else None,
        cpu=options.cpu,
        gpus=gpus.found(options.environ),
        volumes={name: Path(folder) for name, folder in options.volumes.items()},
        level=options.level,
        environ=options.environ,
    )
    of_jobs = [
        entry.located(problem)
        for entry in manifest.entries
        for problem in (*admission.problems(entry.job, host), *absent_programs.problems(entry.job, host))
    ]
    of_objects = [
        part.located(problem, path_parts(problem.path))
        for part in manifest.object_parts
        for problem in admission.object_problems(part.value)
    ]
    mapped = {*host.config.volumes, *host.volumes}
    missing = [
        entry.located(problem)
        for entry in manifest.entries
        for problem in missing_objects.problems(entry.job, _references(manifest, entry, namespace), mapped)
    ]
    return [*admission.unknown_volumes(manifest.jobs, host.volumes), *of_jobs, *of_objects, *missing]


def _references(manifest: Manifest, entry: Entry, namespace: str) -> References:
    """Return what a job will find; the state is opened only for what the manifest does not contain."""
    place = entry.written.metadata.namespace or namespace or "default"

    def config_map(name: str) -> Mapping[str, Any] | None:
        with _state(write=False) as (home, store):
            return machine.kept_references(home, store, place).config_map(name)

    def secret(name: str) -> Mapping[str, Any] | None:
        with _state(write=False) as (home, store):
            return machine.kept_references(home, store, place).secret(name)

    return brought(manifest.objects, place, References(config_map=config_map, secret=secret))


def _state(*, write: bool) -> AbstractContextManager[tuple[Home, Store]]:
    return open_state(find_home(os.environ), write=write)


# --- a dry run --------------------------------------------------------------------------------------------------------


def children(prepared: Submission) -> list[Object]:
    """Return the objects that the controller creates for a job on this machine."""
    return first_children(prepared.job, SETTINGS)


def processes(prepared: LocalJobs) -> list[list[dict[str, Any]]]:
    """Return the processes of each job, as objects of kind Process; values from Secrets are left out."""
    with _state(write=False) as (home, store):
        return [_processes(home, store, one) for one in prepared.submissions]


def _processes(home: Home, store: Store, prepared: Submission) -> list[dict[str, Any]]:
    job, options = prepared.job, prepared.options
    made = children(prepared)
    peers = planned(job, options.level)
    namespace = job.metadata.namespace
    documents = [*prepared.objects, *(msgspec.to_builtins(child) for child in made if isinstance(child, ConfigMap))]
    references = brought(documents, namespace, machine.kept_references(home, store, namespace))
    host = machine.machine_with(home, options, references, prepared.config)
    shapes = []
    for pod in (child for child in made if isinstance(child, Pod)):
        peer = next(peer for peer in peers if peer.name == pod.metadata.name)
        ready = assemble(
            replace(pod, status=replace(pod.status, pod_ip=peer.ip)),
            POD_FOLDER,
            host,
            peers,
            hosts=POD_FOLDER / "hosts",
            lifeline=None,
            now=datetime.now(UTC),
            dry_run=True,
        )
        shapes.append(_shape(job, pod, peer, ready))
    return shapes


def _shape(job: TFJob, pod: Pod, peer: Peer, ready: Assembled) -> dict[str, Any]:
    """Describe a replica: `argv` and `env` as its processes get them, except for Secrets."""
    task = task_of(pod)
    assert task is not None
    containers = [(spec, True) for spec in ready.spec["initContainers"]]
    containers += [(spec, False) for spec in ready.spec["containers"]]
    return {
        "job": job.metadata.name,
        "replica": task.name,
        "pod": pod.metadata.name,
        "listens": _listens(peer, port(job, task.type), ready.spec["level"]),
        "restartPolicy": pod.spec["restartPolicy"],
        "containers": [
            {
                "name": spec["name"],
                "init": init,
                "argv": spec["argv"],
                "workingDir": spec["cwd"],
                "mounts": spec["mounts"],
                "env": ready.shown_env[spec["name"]],
                "memory": spec["memory"],
                "cpu": spec["cpu"],
            }
            for spec, init in containers
        ],
    }


def _listens(peer: Peer, number: int, level: str) -> str:
    """Return how the other replicas reach this one; the reduced levels choose addresses and ports at the start."""
    if level == "full":
        return f"{peer.name}.{peer.namespace}.svc:{number}"
    return f"{peer.ip}:{peer.ports.get(number, number)}"


# --- submission -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Submitted:
    """A job that runs in the background, and the messages that its submission recorded."""

    record: Record
    messages: Sequence[str]


def submit(home: Home, store: Store, prepared: LocalJobs, *, attached: bool) -> list[Started]:
    """Store all jobs; none if one is rejected or if this is interrupted."""
    for one in prepared.submissions:
        submission.refuse_if_in_use(store, Key(one.job.metadata.namespace, one.job.metadata.name, KIND))
    started = []
    with ExitStack() as undo:
        for one in prepared.submissions:
            started.append(submission.submit(home, store, one, attached=attached))
            undo.callback(submission.remove_run, store, started[-1].run)
        undo.pop_all()
    return started


def start(prepared: LocalJobs) -> list[Submitted]:
    """Submit all jobs and start a driver for each in the background."""
    from tfjob.local.jobs.backend import record
    from tfjob.local.run.driver_lock import start_background

    with _state(write=True) as (home, store):
        started = submit(home, store, prepared, attached=False)
        submitted = [
            Submitted(record(one.run), [event.message for _, event in store.events(one.run.job.metadata.uid)])
            for one in started
        ]
        for one in started:
            start_background(home, one.run, one.lock)
    return submitted
