"""The checks of a request, and the objects that the controller creates for a job.

`local.prepare` and `cluster.prepare` return a `Prepared`. A dry run shows it, and `submit` creates it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from msgspec.structs import replace

from tfjob.api.manifest.loader import Entry, Part
from tfjob.api.objects import ConfigMap, Deployment, Object, Pod, Service
from tfjob.api.problems import InvalidManifest, Problem, errors, in_order
from tfjob.api.types import TFJob
from tfjob.controller.actions import Create
from tfjob.controller.kind import Observation
from tfjob.plan.build.settings import Settings
from tfjob.plan.facts.tasks import desired, task_of
from tfjob.plan.plan import plan
from tfjob.plan.policy.run_policy import resumed


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The jobs of a request, checked and complete; `manifest` writes them as a v1 manifest."""

    manifest: Callable[[], str]
    warnings: Sequence[Problem] = ()


def check(problems: Iterable[Problem]) -> list[Problem]:
    """Return the warnings; raise InvalidManifest if there is an error."""
    ordered = in_order(problems)
    warnings = [problem for problem in ordered if problem.warning]
    if refused := errors(ordered):
        raise InvalidManifest(refused, warnings)
    return warnings


def with_namespace(entry: Entry, job: TFJob, namespace: str, default: str) -> TFJob:
    own = choose_namespace(entry.part, entry.written.metadata.namespace, namespace) or default
    return replace(job, metadata=replace(job.metadata, namespace=own))


def choose_namespace(part: Part, own: str, requested: str) -> str:
    """Return the namespace of an object or else the requested one. Raises InvalidManifest if they differ."""
    if own and requested and own != requested:
        message = f"is '{own}', but the command line has -n {requested}"
        raise InvalidManifest([part.located(Problem("metadata.namespace", message, "change or omit one of them"))])
    return own or requested


def first_children(job: TFJob, settings: Settings) -> list[Object]:
    """Return the objects that the controller creates for a new job, or for a suspended one when it is resumed."""
    made: list[Object] = []
    planned, fresh = _planned(resumed(job), made, settings)
    while fresh:  # repeat the plan, because some children wait until others exist
        made += fresh
        planned, fresh = _planned(planned, made, settings)
    order = {task: number for number, task in enumerate(desired(job))}

    def place(child: Object) -> tuple[int, int]:
        if isinstance(child, (Pod, Service)) and (task := task_of(child)) is not None:
            return (2 if isinstance(child, Pod) else 1), order[task]
        return (0 if isinstance(child, ConfigMap) else 3), 0

    return sorted(made, key=place)


def _planned(job: TFJob, made: Sequence[Object], settings: Settings) -> tuple[TFJob, list[Object]]:
    kinds = (Pod, Service, ConfigMap, Deployment)
    observed = Observation({kind: [child for child in made if isinstance(child, kind)] for kind in kinds})
    decision = plan(job, observed, datetime.now(UTC), settings)
    created = [action.child for action in decision.actions if isinstance(action, Create)]
    return replace(job, status=decision.status), created
