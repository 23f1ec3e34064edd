"""Whether a job fits what is left of a namespace's quotas; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from tfjob.api import quantity
from tfjob.api.types import TFJob
from tfjob.plan.build.pods import template_of
from tfjob.plan.facts.tasks import desired

COUNTS = {"pods": "pods", "count/pods": "pods", "services": "services", "count/services": "services"}
NATIVE = ("cpu", "memory", "ephemeral-storage")


class Shortage(NamedTuple):
    """One amount that a quota does not have left; it never will when `hard` is too little too."""

    quota: str
    resource: str
    needed: Fraction
    left: Fraction
    hard: Fraction

    @property
    def never(self) -> bool:
        """Whether waiting cannot help."""
        return self.needed > self.hard

    def __str__(self) -> str:
        needed, left, hard = (shown(self.resource, amount) for amount in (self.needed, self.left, self.hard))
        return f"all replicas need {needed} of {self.resource}, and quota {self.quota} has {left} of {hard} left"


def shortages(job: TFJob, quotas: Iterable[Mapping[str, Any]]) -> Iterator[Shortage]:
    """What a job asks for and quotas without a scope cannot give now."""
    needed = needs(job)
    for quota in quotas:
        spec = quota.get("spec") or {}
        if spec.get("scopes") or spec.get("scopeSelector"):
            continue
        used = (quota.get("status") or {}).get("used") or {}
        for resource, hard in (spec.get("hard") or {}).items():
            amount = needed.get(_canonical(resource), Fraction())
            limit = quantity.parse(hard)
            left = max(limit - quantity.parse(used.get(resource, 0)), Fraction())
            if amount > left:
                yield Shortage(quota["metadata"]["name"], resource, amount, left, limit)


def needs(job: TFJob) -> dict[str, Fraction]:
    """What all replicas together count against quotas, by the names that quotas use."""
    total: dict[str, Fraction] = {"pods": Fraction(), "services": Fraction(), "count/tfjobs.kubeflow.org": Fraction(1)}
    for task in desired(job):
        total["pods"] += 1
        total["services"] += 1
        for name, amount in _of_pod(template_of(job, task.type).get("spec") or {}).items():
            total[name] = total.get(name, Fraction()) + amount
    return total


def shown(resource: str, amount: Fraction) -> str:
    """An amount as people read it."""
    if resource.endswith(("memory", "storage")):
        return f"{float(amount) / 2**30:.3g}Gi"
    return f"{float(amount):.4g}"


def _of_pod(spec: Mapping[str, Any]) -> dict[str, Fraction]:
    """The sum of its containers, or the most that an init container needs, whichever is more."""
    total: dict[str, Fraction] = {}
    for container in spec.get("containers") or ():
        for name, amount in _of_container(container):
            total[name] = total.get(name, Fraction()) + amount
    for container in spec.get("initContainers") or ():
        for name, amount in _of_container(container):
            total[name] = max(total.get(name, Fraction()), amount)
    return total


def _of_container(container: Mapping[str, Any]) -> Iterator[tuple[str, Fraction]]:
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    # A limit without a request is the request too.
    for part, amounts in (("limits", limits), ("requests", {**limits, **(resources.get("requests") or {})})):
        for name, amount in amounts.items():
            try:
                yield f"{part}.{name}", quantity.parse(amount)
            except ValueError:
                continue  # judged elsewhere


def _canonical(resource: str) -> str:
    if resource in NATIVE:
        return f"requests.{resource}"
    return COUNTS.get(resource, resource)
