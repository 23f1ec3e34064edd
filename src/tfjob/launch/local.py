"""Jobs for this machine: prepare them, preview their processes, and submit all jobs of a manifest or none."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from tfjob.api.manifest.loader import DEPLOYMENT, Entry, Manifest, Part
from tfjob.api.objects import ConfigMap, Deployment, Object, ObjectMeta, Pod, Service
from tfjob.api.problems import Problem
from tfjob.api.types import TFJob
from tfjob.controller.actions import Create
from tfjob.controller.kind import Observation
from tfjob.jobs.backend import Record
from tfjob.jobs.replicas import replica_name
from tfjob.kinds import MACHINE_SETTINGS
from tfjob.launch.prepare import Prepared, check, choose_namespace, first_children, with_namespace
from tfjob.launch.request import (
    Request,
    has_valid_syntax,
    manifest_text,
    names_from_shell,
    names_of_script,
    pairs,
    read_request,
    source_folder,
    without_secrets,
)
from tfjob.local.admission import admission, missing
from tfjob.local.inputs import environment, gpus
from tfjob.local.inputs.images import chosen_interpreter
from tfjob.local.inputs.references import brought
from tfjob.local.jobs import submission
from tfjob.local.jobs.backend import record
from tfjob.local.jobs.runs import ensure_driven
from tfjob.local.jobs.submission import Submission
from tfjob.local.pod import machine
from tfjob.local.pod.assembly import Assembled, assemble
from tfjob.local.pod.network import Peer, planned, with_address
from tfjob.local.run.deployments import DeploymentKind
from tfjob.local.run.driver_lock import start_background
from tfjob.local.run.lifetime import Started, remove_run
from tfjob.local.state import config
from tfjob.local.state.config import Config
from tfjob.local.state.home import Home, find_home
from tfjob.local.state.options import Options
from tfjob.local.state.store import Store, open_state
from tfjob.plan.facts.tasks import task_of
from tfjob.plan.facts.tf_config import port
from tfjob.plan.policy import cleanup

logger = logging.getLogger(__name__)

CLEAN_POD_POLICY = "spec.runPolicy.cleanPodPolicy"
ENDS_WITH_US = "None has no effect in an attached run: all replicas end with it"
POD_FOLDER = Path("(pod folder)")
DEFAULT_NAMESPACE, SERVICE = "default", "Service"
TEMPLATE = ("spec", "template", "spec")
SELECTOR = "spec.selector"
NOTHING_SELECTED = Problem(SELECTOR, "selects no pod of this manifest", "use the labels of a pod template")
SEVERAL_SELECTED = "selects pods of {}; on this machine, a Service can select pods of only one"
NAME_TAKEN = Problem("metadata.name", "is also the name of a TFJob in this manifest", "rename one of them")


@dataclass
class Owner:
    """A job or a Deployment of a manifest, with its place in the file and the Services that select its pods."""

    object: TFJob | Deployment
    place: Entry | Part
    services: list[Service] = field(default_factory=list)


@dataclass(frozen=True)
class Placement:
    """How the owners of a manifest use this machine; `notes` explain what is not available."""

    config: Config
    options: Options
    notes: Sequence[str]
    owners: Sequence[Owner]
    problems: Sequence[Problem]


@dataclass(frozen=True, kw_only=True)
class LocalJobs(Prepared):
    """Jobs for this machine; `attached_warnings` apply only if they run attached."""

    submissions: Sequence[Submission]
    notes: Sequence[str]
    attached_warnings: Sequence[Problem]


def prepare(request: Request) -> LocalJobs:
    request, note = named(request)
    data, manifest = read_request(request)
    placed = place(request, manifest)
    kept = without_secrets(data, manifest)
    objects = [one for one in manifest.objects if one["kind"] not in (DEPLOYMENT, SERVICE)]
    return LocalJobs(
        manifest=partial(manifest_text, request, data, manifest),
        warnings=check([*manifest.problems, *placed.problems, *_syntax_problems(request, manifest, placed)]),
        notes=[*placed.notes, *([note] if note else [])],
        submissions=[
            Submission(
                owner.object, owner.services, objects, kept, placed.options, placed.config, request.share_storage
            )
            for owner in placed.owners
        ],
        attached_warnings=[
            entry.located(Problem(CLEAN_POD_POLICY, ENDS_WITH_US, "to keep them, use tfjob submit", warning=True))
            for entry in manifest.entries
            if entry.job.spec.run_policy.clean_pod_policy == cleanup.NONE
        ],
    )


def named(request: Request) -> tuple[Request, str]:
    """Return a request with the default name of its script, and a note if that is not just the name of the script.

    The name belongs to the folder of the script: jobs of other folders have other names, storage and runs.
    """
    if not request.is_program or request.name:
        return request, ""
    candidates, source = names_of_script(request), str(source_folder(request))
    with open_machine(write=False) as (home, store):
        namespace = request.namespace or DEFAULT_NAMESPACE
        sources = {name: submission.sources_of(home, store, namespace, name) for name in candidates}
    own = [name for name in candidates if sources[name] == {source}]
    shared = [name for name in candidates if source in sources[name]]
    free = [name for name in candidates if not sources[name]]
    chosen = next(iter([*own, *shared, *free]), candidates[-1])
    plain, others = candidates[0], " and ".join(sorted(sources[candidates[0]]))
    note = f"the job is named {chosen}, because {plain} belongs to {others}" if chosen != plain else ""
    return replace_fields(request, name=chosen), note


def _syntax_problems(request: Request, manifest: Manifest, placed: Placement) -> list[Problem]:
    if has_valid_syntax(request):
        return []
    from tfjob.launch.program import interpreter_of, syntax_problems

    return syntax_problems(request, interpreter_of(placed, manifest.jobs[0]))


def place(request: Request, manifest: Manifest) -> Placement:
    """Choose how the owners of a manifest use this machine, and find what it does not support or does differently."""
    settings, options, notes = _set_up(request)
    owners = _owners(manifest, request.namespace)
    problems = [*_assign_services(manifest, owners), *_problems(manifest, owners, settings, options)]
    return Placement(settings, options, notes, owners, problems)


def _set_up(request: Request) -> tuple[Config, Options, Sequence[str]]:
    project = request.folder
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
        source=str(source_folder(request)),
        level=choice.level,
        limits=choice.limits,
        python=python,
        cpu=request.cpu,
        warm=settings.warm if request.warm is None else request.warm,
        volumes={name: str(Path(folder).expanduser().absolute()) for name, folder in mapped.items()},
        environ=machine.kept_environ(os.environ),
        pass_env=_names_to_pass(request, settings),
        env_files=[str(Path(file).expanduser().absolute()) for file in request.script.env_file],
    )
    machine.passed(options, os.environ)  # report an unreadable env file now
    return settings, options, choice.notes


def _names_to_pass(request: Request, settings: Config) -> list[str]:
    """Return the variables of the calling shell that the replicas of a script get; those of a manifest get none."""
    if not request.is_program:
        return []
    patterns = [*environment.PASSED_TO_SCRIPTS, *settings.pass_env, *names_from_shell(request.script)]
    return environment.names_to_pass(os.environ, patterns)


def _owners(manifest: Manifest, namespace: str) -> list[Owner]:
    found = [Owner(with_namespace(entry, entry.job, namespace, DEFAULT_NAMESPACE), entry) for entry in manifest.entries]
    for document, part in manifest.deployments:
        made = msgspec.convert(document, Deployment)
        chosen = choose_namespace(part, made.metadata.namespace, namespace) or DEFAULT_NAMESPACE
        found.append(Owner(replace(made, metadata=replace(made.metadata, namespace=chosen)), part))
    return found


def _assign_services(manifest: Manifest, owners: Sequence[Owner]) -> list[Problem]:
    """Add each Service to the owner whose pods it selects; return what is wrong with the others."""
    problems: list[Problem] = []
    for document, part in zip(manifest.objects, manifest.object_parts, strict=True):
        if document["kind"] != SERVICE:
            continue
        service = msgspec.convert(document, Service)
        selected = [(owner, pods) for owner in owners if (pods := _selected(service, owner.object))]
        if len(selected) != 1:
            names = " and ".join(f"{owner.object.kind} {owner.object.metadata.name}" for owner, _ in selected)
            several = Problem(SELECTOR, SEVERAL_SELECTED.format(names), "select the pods of one")
            problems.append(part.located(several if selected else NOTHING_SELECTED))
            continue
        ((owner, pods),) = selected
        problems += map(part.located, _unknown_ports(service, pods))
        kept = with_address(service, pods)
        metadata = replace(kept.metadata, namespace=owner.object.metadata.namespace)
        owner.services.append(replace(kept, metadata=metadata))
    return problems


def _selected(service: Service, owner: TFJob | Deployment) -> list[Pod]:
    """Return the pods that a Service selects; for a Deployment, one pod represents all."""
    if isinstance(owner, Deployment):
        template = owner.spec["template"]
        labels = template.get("metadata", {}).get("labels", {})
        pods = [Pod(metadata=ObjectMeta(labels=labels), spec=template["spec"])]
    else:
        pods = [pod for pod in first_children(owner, MACHINE_SETTINGS) if isinstance(pod, Pod)]
    selector = service.spec.get("selector") or {}
    is_near = service.metadata.namespace in ("", owner.metadata.namespace)
    return [pod for pod in pods if is_near and selector and selector.items() <= pod.metadata.labels.items()]


def _unknown_ports(service: Service, pods: Sequence[Pod]) -> Iterator[Problem]:
    for index, one in enumerate(service.spec.get("ports") or ()):
        target = one.get("targetPort") or one["port"]
        if all(pod.port(target) is None for pod in pods):
            hint = "use the name or number of a containerPort"
            yield Problem(f"spec.ports[{index}].targetPort", f"its pods have no port {target}", hint)


def _problems(manifest: Manifest, owners: Sequence[Owner], settings: Config, options: Options) -> Iterator[Problem]:
    host = admission.Host(
        config=settings,
        project=Path(options.project),
        node=machine.node(),
        python=Path(options.python) if options.python else None,
        cpu=options.cpu,
        gpus=gpus.found(options.environ),
        volumes={name: Path(folder) for name, folder in options.volumes.items()},
        level=options.level,
    )
    servers = [document for document, _ in manifest.deployments]
    yield from admission.unknown_volumes(manifest.jobs, servers, host.volumes)
    mapped = {*host.config.volumes, *host.volumes}
    names = {(job.metadata.namespace, job.metadata.name) for owner in owners if isinstance(job := owner.object, TFJob)}
    with open_machine(write=False) as (home, store):
        for owner in owners:
            one, namespace = owner.object, owner.object.metadata.namespace
            known = brought(manifest.objects, namespace, machine.kept_references(home, store, namespace))
            if isinstance(one, TFJob):
                found = [*admission.problems(one, host), *missing.problems(one, known, mapped)]
            else:
                found = [*missing.pod_problems(one.spec["template"]["spec"], TEMPLATE, known, mapped)]
                # Commands find runs by name.
                found += [NAME_TAKEN] if (namespace, one.metadata.name) in names else []
            yield from map(owner.place.located, found)
    for part in manifest.object_parts:
        yield from map(part.located, admission.object_problems(part.value, host))


def open_machine(*, write: bool) -> AbstractContextManager[tuple[Home, Store]]:
    return open_state(find_home(os.environ), write=write)


# --- a dry run --------------------------------------------------------------------------------------------------------


def children(prepared: Submission) -> list[Object]:
    if isinstance(prepared.owner, TFJob):
        return first_children(prepared.owner, MACHINE_SETTINGS)
    actions = DeploymentKind().plan(prepared.owner, Observation(), datetime.now(UTC)).actions
    return [action.child for action in actions if isinstance(action, Create)]


def processes(prepared: LocalJobs) -> list[list[dict[str, Any]]]:
    with open_machine(write=False) as (home, store):
        return [_processes(home, store, one) for one in prepared.submissions]


def _processes(home: Home, store: Store, prepared: Submission) -> list[dict[str, Any]]:
    owner, options = prepared.owner, prepared.options
    made = children(prepared)
    # Pods of a Deployment have addresses too, although no Service has their names.
    named = [child for child in made if isinstance(child, Service)]
    named = named or [Service(metadata=child.metadata) for child in made]
    peers = planned(named, options.level)
    namespace = owner.metadata.namespace
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
        shapes.append(_shape(owner, pod, peer, ready, sorted(host.passed)))
    return shapes


def _shape(owner: TFJob | Deployment, pod: Pod, peer: Peer, ready: Assembled, passed: list[str]) -> dict[str, Any]:
    """Describe a replica: `argv` and `env` as its processes get them, except for Secrets."""
    host, task = peer.ip, task_of(pod)
    ports = [one["containerPort"] for each in pod.spec["containers"] for one in each.get("ports") or ()]
    if isinstance(owner, TFJob) and task is not None:
        ports = [port(owner, task.type)]
        # Below the level full, addresses and ports are chosen at the start.
        host = f"{peer.name}.{peer.namespace}.svc" if ready.spec["level"] == "full" else peer.ip
    containers = [(spec, True) for spec in ready.spec["initContainers"]]
    containers += [(spec, False) for spec in ready.spec["containers"]]
    return {
        "job": owner.metadata.name,
        "replica": replica_name(pod),
        "pod": pod.metadata.name,
        "listens": ", ".join(f"{host}:{peer.ports.get(number, number)}" for number in ports) or host,
        "restartPolicy": pod.spec["restartPolicy"],
        "passed": passed,
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


# --- submission -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Submitted:
    """A job in the background; `is_updated` says whether a running Deployment has changed; None for a new run."""

    record: Record
    messages: Sequence[str]
    is_updated: bool | None = None


def submit(home: Home, store: Store, submissions: Sequence[Submission], *, attached: bool) -> list[Started]:
    """Store all jobs, or none if one is rejected or this is interrupted."""
    for one in submissions:
        submission.refuse_if_taken(home, store, one)
    started = []
    with ExitStack() as undo:
        for one in submissions:
            started.append(submission.submit(home, store, one, attached=attached))
            undo.callback(remove_run, store, started[-1].run)
        undo.pop_all()
    return started


def foreign_storage(prepared: LocalJobs) -> list[submission.ForeignStorage]:
    """Return an error for each job whose storage contains files of a job in another folder."""
    with open_machine(write=False) as (home, _):
        found = [submission.foreign_storage(home, one) for one in prepared.submissions]
    return [error for error in found if error is not None]


def start(prepared: LocalJobs) -> list[Submitted]:
    """Submit all jobs and start a background driver for each; update Deployments that are already running."""
    with open_machine(write=True) as (home, store):
        running = [(one, submission.running_server(store, one)) for one in prepared.submissions]
        started = submit(home, store, [one for one, run in running if run is None], attached=False)
        submitted = [
            Submitted(record(one.run), [event.message for event in store.events(one.run.uid)]) for one in started
        ]
        for one in started:
            start_background(home, one.run, one.lock)
        for changed, run in running:
            if run is not None:
                submitted.append(Submitted(record(run), (), submission.update(home, store, changed, run)))
                ensure_driven(home, store, run)
    return submitted
