"""The rules of an API server for a Deployment whose types are correct, and the defaults of its fields."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tfjob.api.pod_validation import pod_problems
from tfjob.api.problems import Path, Problem, invalid_value, problem_at, unsupported_value

API_VERSION = "apps/v1"
OLDER_VERSIONS = ("extensions/v1beta1", "apps/v1beta1", "apps/v1beta2")
"""Versions that Kubernetes 1.16 removed; the first two had a default selector."""
_REMOVED_FIELD = "rollbackTo"
RECREATE, ROLLING_UPDATE = "Recreate", "RollingUpdate"
DEFAULT_STEP = "25%"
DEFAULT_DEADLINE_SECONDS = 600
"""Of progressDeadlineSeconds, which is checked but has no effect in local runs."""
_PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%'"
    " (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
_OPERATORS: dict[str, Callable[[str | None, Sequence[str]], bool]] = {
    "In": lambda label, values: label in values,
    "NotIn": lambda label, values: label not in values,
    "Exists": lambda label, _: label is not None,
    "DoesNotExist": lambda label, _: label is None,
}
"""The operators of a selector, by name, as tests of the value of a label."""


def problems(spec: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of a Deployment's spec, with the messages of an API server."""
    yield from _not_negative(spec, "replicas", ("spec",))
    yield from _selector_problems(spec)
    pod = (spec.get("template") or {}).get("spec") or {}
    at: Path = ("spec", "template", "spec")
    if not pod.get("containers"):
        yield problem_at((*at, "containers"), "Required value")
    yield from pod_problems({**pod, "restartPolicy": None}, at)
    yield from unsupported_value(pod.get("restartPolicy"), ("Always",), (*at, "restartPolicy"))
    if pod.get("activeDeadlineSeconds") is not None:
        message = "Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported"
        yield problem_at((*at, "activeDeadlineSeconds"), message)
    yield from _strategy_problems(spec.get("strategy") or {})
    for name in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        yield from _not_negative(spec, name, ("spec",))
    deadline = spec.get("progressDeadlineSeconds", DEFAULT_DEADLINE_SECONDS)
    if 0 <= deadline <= (spec.get("minReadySeconds") or 0):
        yield invalid_value(("spec", "progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds")


def as_present(older: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Deployment of an older version as one of `apps/v1`, with the selector that was the default."""
    spec = older.get("spec")
    if not isinstance(spec, Mapping):
        return {**older, "apiVersion": API_VERSION}
    spec = {name: value for name, value in spec.items() if name != _REMOVED_FIELD}
    labels = spec.get("template")
    for name in ("metadata", "labels"):
        labels = labels.get(name) if isinstance(labels, Mapping) else None
    if spec.get("selector") is None and labels:
        spec["selector"] = {"matchLabels": labels}
    return {**older, "apiVersion": API_VERSION, "spec": spec}


def matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a label selector (`matchLabels` and `matchExpressions`) selects an object with these labels."""
    wanted = selector.get("matchLabels") or {}
    return wanted.items() <= labels.items() and all(
        _OPERATORS[rule["operator"]](labels.get(rule["key"]), rule.get("values") or ())
        for rule in selector.get("matchExpressions") or ()
    )


def is_recreated(spec: Mapping[str, Any]) -> bool:
    """Return whether all old pods end before new pods start."""
    return (spec.get("strategy") or {}).get("type") == RECREATE


def limits(spec: Mapping[str, Any], replicas: int) -> tuple[int, int]:
    """Return by how many pods an update may exceed `replicas`, and how many of them may be unavailable."""
    if is_recreated(spec):
        return 0, 0
    given = (spec.get("strategy") or {}).get("rollingUpdate") or {}
    surge = _share(given.get("maxSurge", DEFAULT_STEP), replicas, math.ceil)
    unavailable = _share(given.get("maxUnavailable", DEFAULT_STEP), replicas, math.floor)
    # Both may round to 0, but then no pod could be replaced.
    return surge, min(unavailable or int(surge == 0), replicas)


def _share(value: int | str, whole: int, rounded: Any) -> int:
    return int(rounded(whole * int(value[:-1]) / 100)) if isinstance(value, str) else value


def _selector_problems(spec: Mapping[str, Any]) -> Iterator[Problem]:
    selector = spec.get("selector")
    if selector is None:
        yield problem_at(("spec", "selector"), "Required value")
        return
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if found := [*_expression_problems(selector.get("matchExpressions") or ())]:
        yield from found
    elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield invalid_value(("spec", "selector"), selector, "empty selector is invalid for deployment")
    elif not matches(selector, labels):
        path = ("spec", "template", "metadata", "labels")
        yield invalid_value(path, labels, "`selector` does not match template `labels`")


def _expression_problems(rules: Iterable[Mapping[str, Any]]) -> Iterator[Problem]:
    for index, rule in enumerate(rules):
        at: Path = ("spec", "selector", "matchExpressions", index)
        operator, values = rule.get("operator"), rule.get("values")
        if operator in ("In", "NotIn") and not values:
            message = "must be specified when `operator` is 'In' or 'NotIn'"
            yield problem_at((*at, "values"), f"Required value: {message}")
        elif operator in ("Exists", "DoesNotExist") and values:
            message = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield problem_at((*at, "values"), f"Forbidden: {message}")
        elif operator not in _OPERATORS:
            yield invalid_value((*at, "operator"), operator, "not a valid selector operator")


def _strategy_problems(strategy: Mapping[str, Any]) -> Iterator[Problem]:
    at: Path = ("spec", "strategy")
    kind, rolling = strategy.get("type") or ROLLING_UPDATE, strategy.get("rollingUpdate")
    yield from unsupported_value(kind, (RECREATE, ROLLING_UPDATE), (*at, "type"))
    if kind == RECREATE and rolling:
        message = f"Forbidden: may not be specified when strategy `type` is '{RECREATE}'"
        yield problem_at((*at, "rollingUpdate"), message)
    elif kind == ROLLING_UPDATE and rolling:
        yield from _rolling_problems(rolling, (*at, "rollingUpdate"))


def _rolling_problems(rolling: Mapping[str, Any], at: Path) -> list[Problem]:
    steps = {name: rolling.get(name, DEFAULT_STEP) for name in ("maxUnavailable", "maxSurge")}
    found: list[Problem] = []
    for name, value in steps.items():
        if isinstance(value, int):
            found += _not_negative(steps, name, at)
        elif not re.fullmatch("[0-9]+%", value):
            found.append(invalid_value((*at, name), value, _PERCENT_RULE))
    unavailable = steps["maxUnavailable"]
    if not found and all(value in (0, "0%") for value in steps.values()):
        found.append(invalid_value((*at, "maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0"))
    if not found and isinstance(unavailable, str) and int(unavailable[:-1]) > 100:
        found.append(invalid_value((*at, "maxUnavailable"), unavailable, "must not be greater than 100%"))
    return found


def _not_negative(values: Mapping[str, Any], name: str, at: Path) -> Iterator[Problem]:
    if (values.get(name) or 0) < 0:
        yield invalid_value((*at, name), values[name], "must be greater than or equal to 0")
