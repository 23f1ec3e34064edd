"""What a job asks of this machine's CPUs, memory and devices: what it gets, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tfjob.api import quantity
from tfjob.api.problems import Problem, path_text
from tfjob.api.types import MOST_REPLICAS, PARALLELISM, TFJob
from tfjob.local.inputs import gpus

if TYPE_CHECKING:
    from tfjob.local.admission.admission import Host

At = tuple[str | int, ...]

OTHER_GPUS = ("amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
ON_CPU = "give --cpu to train on the CPU"
ALL_SEE_ALL = "write gpu = true under [local] in tfjob.toml to let every replica see all"


def of_container(resources: Mapping[str, Any], at: At, host: Host) -> Iterator[Problem]:
    """What becomes of the limits and requests of one container."""
    if resources.get("claims"):
        yield _refused((*at, "claims"), "devices cannot be claimed here", "remove them to run here")
    seen = set()
    for group in ("limits", "requests"):
        for name, amount in (resources.get(group) or {}).items():
            if name not in seen:
                seen.add(name)
                yield from _one_resource(name, amount, (*at, group, name), host)


def _one_resource(name: str, amount: str | float, at: At, host: Host) -> Iterator[Problem]:
    if name in ("cpu", "memory") or not _amount(amount):
        return
    if name == "ephemeral-storage":
        yield _warning(at, "limits of disk space are not enforced here")
    elif name in (*gpus.RESOURCES, *OTHER_GPUS):
        yield from _gpu(name, at, host)
    else:
        yield _refused(at, f"this machine has no resource {name}", "remove it to run here")


def _gpu(name: str, at: At, host: Host) -> Iterator[Problem]:
    if host.cpu:
        yield _warning(at, "with --cpu no replica sees a GPU")
    elif host.config.gpu:
        yield _warning(at, "GPUs are not set apart here: every replica sees all of this machine's")
    elif name in OTHER_GPUS:
        yield _refused(at, "only NVIDIA GPUs are given out here", f"{ON_CPU}, or {ALL_SEE_ALL}")
    elif not host.gpus:
        yield _refused(at, "this machine has no GPU that could be given out", ON_CPU)


def of_job(job: TFJob, host: Host) -> Iterator[Problem]:
    """Requests that do not fit this machine; a cluster would leave replicas pending, here they share what there is."""
    for name, has in (("cpu", host.node.cpus), ("memory", host.node.memory)):
        asked = sum(
            _requested(replica.template or {}, name) * (replica.replicas or 0)
            for replica in job.spec.tf_replica_specs.values()
        )
        if has and asked > has:
            message = f"all replicas together request {_shown(name, asked)}, this machine has {_shown(name, has)}"
            yield _warning(("spec", "tfReplicaSpecs"), message)
    asked_for = gpus_asked_for(job)
    if asked_for > len(host.gpus) > 0 and not host.cpu and not host.config.gpu:
        message = f"all replicas together ask for {asked_for} GPUs, this machine has {len(host.gpus)}"
        yield _refused(("spec", "tfReplicaSpecs"), message, f"ask for fewer, or {ON_CPU}")


def gpus_asked_for(job: TFJob) -> int:
    """Return how many GPUs all replicas that run at once need together."""
    parallelism = job.metadata.annotations.get(PARALLELISM, "")
    most = int(parallelism) if parallelism.isdecimal() else MOST_REPLICAS
    return sum(
        gpus.asked_by_pod((replica.template or {}).get("spec") or {}) * min(replica.replicas or 0, most)
        for replica in job.spec.tf_replica_specs.values()
    )


def _requested(template: Mapping[str, Any], name: str) -> float:
    total = 0.0
    for container in (template.get("spec") or {}).get("containers") or []:
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        total += _amount(requests.get(name, limits.get(name, 0)))
    return total


def _shown(name: str, amount: float) -> str:
    return f"{amount / 1024**3:.1f} GiB of memory" if name == "memory" else f"{amount:g} CPUs"


def _amount(value: str | float) -> float:
    try:
        return float(quantity.parse(value))
    except ValueError:
        return 0.0  # judged elsewhere: the manifest itself is wrong


def _refused(at: At, message: str, hint: str) -> Problem:
    return Problem(path_text(at), message, hint)


def _warning(at: At, message: str) -> Problem:
    return Problem(path_text(at), message, warning=True)
