"""Where the program of a job runs on this machine and where it writes: its interpreter, its variables, its folders.

models = find_exports(places_of(home, store, run).own)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfjob.api.defaults import training_container
from tfjob.api.objects import JOB_FOLDERS, JOB_VOLUME
from tfjob.api.types import TFJob
from tfjob.kinds import MACHINE_SETTINGS
from tfjob.local.inputs import environment
from tfjob.local.inputs.images import resolve
from tfjob.local.pod.assembly import Machine, volume_context
from tfjob.local.pod.machine import machine_of
from tfjob.local.run.tensorboard import real_folder
from tfjob.local.state.home import Home
from tfjob.local.state.store import Run, Store
from tfjob.local.volumes import volumes
from tfjob.plan.build import pods
from tfjob.plan.build.job_storage import CHECKPOINTS, OUTPUT
from tfjob.plan.facts.tasks import representative


@dataclass(frozen=True)
class Places:
    """The program of a job's first replica.

    `own` are the folders that belong to the job: its storage, and those that its output variables name. In `variables`,
    the folders of the job have their real paths. They contain nothing about other replicas.
    """

    python: Path
    work: Path
    own: Sequence[Path]
    variables: Mapping[str, str]

    @property
    def checkpoints(self) -> Path | None:
        folder = self.variables.get(CHECKPOINTS)
        return Path(folder) if folder and "://" not in folder else None


def places_of(home: Home, store: Store, run: Run) -> Places | None:
    """Return the places of a job; None for a Deployment, or a job without replicas. Raises Refusal."""
    if run.key.kind != TFJob.__name__:
        return None
    return find_places(run, run.decode(TFJob), machine_of(home, store, run))


def find_places(run: Run, job: TFJob, machine: Machine) -> Places | None:
    task = representative(job)
    if task is None:
        return None
    pod = pods.pod(job, task, 0, MACHINE_SETTINGS)
    container = training_container({"spec": pod.spec})
    name = container["name"]
    runtime = resolve(container, machine.config, python=machine.python, project=machine.project)
    found = environment.resolve(
        container,
        pod,
        references=machine.references,
        node=machine.node,
        environ=machine.environ,
        passed=machine.passed,
        path_prefix=[runtime.python.parent],
        image=runtime.env,
    )
    declared = found.declared
    mounts = volumes.resolve(volume_context(pod, machine, run.folder), {name: declared}).mounts[name]
    work = Path(real_folder(str(runtime.workdir), mounts, machine.project))
    real = {
        one: real_folder(str(work / declared[one]) if "://" not in declared[one] else declared[one], mounts, work)
        for one in JOB_FOLDERS
        if declared.get(one)
    }
    own = [mount.source for mount in mounts if mount.volume == JOB_VOLUME]
    for folder in (Path(real[one]) for one in (OUTPUT, CHECKPOINTS) if one in real and "://" not in real[one]):
        own += [] if any(folder.is_relative_to(known) for known in own) else [folder]
    variables = {one: value for one, value in {**found.variables(), **real}.items() if one != "TF_CONFIG"}
    return Places(runtime.python, work, own, variables)
