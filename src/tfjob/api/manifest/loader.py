"""Load a manifest: read its text, and return its jobs, its other objects, and every problem with its position."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as dataclass_replace
from functools import cache
from typing import Any

from msgspec.structs import replace

from tfjob.api import deployments, services
from tfjob.api.conversion import Conversion
from tfjob.api.defaults import with_defaults
from tfjob.api.pod_validation import CLAIM, references, resource_problems
from tfjob.api.problems import InvalidManifest, Path, Problem, errors, in_order, path_parts, path_text
from tfjob.api.schema.checker import QUOTE, Schema, pod_definitions
from tfjob.api.suggest import nearest, suggestion
from tfjob.api.text.reader import Document, Mark, parse
from tfjob.api.types import TFJob
from tfjob.api.versions.registry import READERS, problems_of
from tfjob.api.versions.round_trip import apply_notes

DEPLOYMENT = "Deployment"
_CORE_KINDS = ("ConfigMap", "Secret", "PersistentVolumeClaim", "Service")
OBJECT_KINDS = {(deployments.API_VERSION, DEPLOYMENT), *(("v1", kind) for kind in _CORE_KINDS)}
"""The objects that a manifest may contain in addition to jobs, by apiVersion and kind."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_BASE64 = re.compile(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_MEANT = re.compile(r"did you mean (\w+)\?")
_PARAMETER = re.compile(r"\$\{([^{}]+)\}")


@dataclass(frozen=True)
class Part:
    """One object of a manifest: its value with parameters filled in, and its place in the document."""

    value: dict[str, Any]
    document: Document
    prefix: Path = ()
    filled: frozenset[Path] = frozenset()

    def located(self, problem: Problem, path: Path | None = None) -> Problem:
        """Return a problem of this object, or one at `path`, with its path, line and column in the file."""
        whole = (*self.prefix, *(path_parts(problem.path) if path is None else path))
        line, column = self.document.position(whole)
        return replace(problem, path=path_text(whole), line=line, column=column, source=self.document.source)


@dataclass(frozen=True)
class Entry:
    """A job of a manifest as the hub type: as the user wrote it (`written`), and with defaults (`job`)."""

    written: TFJob
    job: TFJob
    part: Part
    conversion: Conversion

    def located(self, problem: Problem) -> Problem:
        """Return a problem of the job with its path, line and column in the user's file."""
        return self.part.located(problem, self.conversion.user_path(path_parts(problem.path)))


@dataclass(frozen=True)
class Manifest:
    """The content of a manifest; `problems` are in the order of the file."""

    source: str
    entries: list[Entry] = field(default_factory=list)
    objects: list[dict[str, Any]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    object_parts: list[Part] = field(default_factory=list)

    @property
    def jobs(self) -> list[TFJob]:
        return [entry.job for entry in self.entries]

    @property
    def deployments(self) -> list[tuple[dict[str, Any], Part]]:
        objects = zip(self.objects, self.object_parts, strict=True)
        return [(value, part) for value, part in objects if value["kind"] == DEPLOYMENT]

    @property
    def errors(self) -> list[Problem]:
        return errors(self.problems)

    def raise_for_errors(self) -> None:
        if self.errors:
            raise InvalidManifest(self.errors)


def load(
    data: bytes | str,
    source: str = "",
    parameters: Mapping[str, str] | None = None,
    name: str = "",
    *,
    is_generated: bool = False,
) -> Manifest:
    """Read, convert and check a manifest; `name` renames its only job. Faults become problems, not exceptions.

    Problems of a generated manifest have no line and column, because no file contains it.
    """
    loading = _Loading(Manifest(source), parameters or {}, name, is_generated)
    loading.read(data)
    loading.manifest.problems[:] = in_order(loading.manifest.problems)
    return loading.manifest


@dataclass
class _Loading:
    manifest: Manifest
    parameters: Mapping[str, str]
    name: str
    is_generated: bool
    used: set[str] = field(default_factory=set)
    known: dict[tuple[str, str, str], Part] = field(default_factory=dict)

    def read(self, data: bytes | str) -> None:
        parsed = parse(data, self.manifest.source)
        self.manifest.problems.extend(parsed.problems)
        for document in parsed.documents:
            mark = Mark(0, 0) if self.is_generated else document.mark
            for part in self.parts(Document(document.value, document.source, mark)):
                self.take(part)
        if not parsed.problems:
            self.refuse_unused()
        if not self.manifest.errors:
            self.suspect_claims()

    def parts(self, document: Document) -> Iterator[Part]:
        value, used, filled = substitute(document.value, self.parameters)
        self.used |= used
        if not str(value.get("kind")).endswith("List"):
            yield Part(value, document, (), frozenset(filled))
            return
        items = value.get("items")
        if not isinstance(items, list):
            self.report(Part(value, document), ("items",), "must be a list of objects")
            return
        for index, item in enumerate(items):
            prefix: Path = ("items", index)
            if isinstance(item, dict):
                yield Part(item, document, prefix, frozenset(path[2:] for path in filled if path[:2] == prefix))
            else:
                self.report(Part({}, document, prefix), (), "must be an object with apiVersion and kind")

    def take(self, part: Part) -> None:
        api_version, kind = part.value.get("apiVersion"), part.value.get("kind")
        if not isinstance(kind, str) or not kind:
            self.report(part, ("kind",), "is missing", "write kind: TFJob and apiVersion: kubeflow.org/v1")
        elif not isinstance(api_version, str) or not api_version:
            versions = sorted({version for version, known in _known_kinds() if known.lower() == kind.lower()})
            self.report(part, ("apiVersion",), "is missing", f"write {versions[0]}" if versions else "")
        elif (api_version, kind) in READERS:
            self.take_job(part, apply_notes(part.value, READERS[api_version, kind](part.value, part.filled)))
        elif (api_version, kind) in OBJECT_KINDS:
            self.take_object(part)
        elif kind == DEPLOYMENT and api_version in deployments.OLDER_VERSIONS:
            self.take_older_deployment(part, api_version)
        else:
            self.refuse_kind(part, api_version, kind)

    def take_job(self, part: Part, conversion: Conversion) -> None:
        written = conversion.job
        if self.name:
            written = replace(written, metadata=replace(written.metadata, name=self.name))
        entry = Entry(written, with_defaults(written), part, conversion)
        self.manifest.entries.append(entry)
        self.add_problems(part, problems_of(conversion, written))
        if written.metadata.name:
            self.refuse_twice(part, ("TFJob", entry.job.metadata.namespace, written.metadata.name))

    def take_object(self, part: Part) -> None:
        value, problems = read_object(part.value, part.filled)
        self.manifest.objects.append(value)
        self.manifest.object_parts.append(part)
        self.add_problems(part, problems)
        metadata = value.get("metadata", {})
        if metadata.get("name"):
            key = (value["kind"], metadata.get("namespace", "default"), metadata["name"])
            self.refuse_twice(part, key)

    def take_older_deployment(self, part: Part, api_version: str) -> None:
        present = deployments.API_VERSION
        message = f"Kubernetes no longer serves Deployments of {api_version}; tfjob reads it as {present}"
        hint = f"write apiVersion: {present}, and a selector with the labels of the template"
        self.manifest.problems.append(part.located(Problem("", message, hint, warning=True), ("apiVersion",)))
        self.take_object(dataclass_replace(part, value=deployments.as_present(part.value)))

    def refuse_twice(self, part: Part, key: tuple[str, str, str]) -> None:
        if key in self.known:
            first = self.known[key]
            line, _ = first.document.position((*first.prefix, "metadata", "name"))
            said = f"{key[0]} '{key[2]}' is defined twice, first on line {line}"
            self.report(part, ("metadata", "name"), said, "use different names")
        self.known.setdefault(key, part)

    def refuse_kind(self, part: Part, api_version: str, kind: str) -> None:
        for version, known in _known_kinds():
            if version == api_version and known.lower() == kind.lower():
                self.report(part, ("kind",), f"{api_version} has no kind '{kind}'", f"did you mean kind: {known}?")
                return
        versions = sorted(version for version, known in _known_kinds() if known == kind)
        if versions:
            hint = suggestion(api_version, versions)
            self.report(part, ("apiVersion",), f"unknown apiVersion '{api_version}' for a {kind}", hint)
            return
        kinds = sorted({known for _, known in _known_kinds()})
        self.report(part, ("kind",), f"unknown kind '{kind}'", suggestion(kind, kinds))

    def refuse_unused(self) -> None:
        for name in self.parameters:
            if name not in self.used:
                said = f"the parameter '{name}' is not used: no value in the manifest contains ${{{name}}}"
                unused = Problem("", said, f"remove -p {name}=...", source=self.manifest.source)
                self.manifest.problems.append(unused)

    def suspect_claims(self) -> None:
        """Warn about a claim that the manifest does not declare if a similar declared claim has no use."""
        declared = {one["metadata"]["name"] for one in self.manifest.objects if one["kind"] == CLAIM}
        pods = [(entry, kind) for entry in self.manifest.entries for kind in entry.job.spec.tf_replica_specs]
        uses = [
            (entry, ("spec", "tfReplicaSpecs", kind, "template", "spec", *one.path), one.name)
            for entry, kind in pods
            for one in references((entry.job.spec.tf_replica_specs[kind].template or {}).get("spec") or {})
            if one.kind == CLAIM
        ]
        served = (references(document["spec"]["template"]["spec"]) for document, _ in self.manifest.deployments)
        unused = declared - {name for _, _, name in uses} - {one.name for found in served for one in found}
        for entry, path, name in uses:
            if name not in declared and (near := nearest(name, unused)):
                said = f"the manifest declares no claim '{name}', but a claim '{near}' that nothing uses"
                warning = Problem(path_text(path), said, f"did you mean {near}?", warning=True)
                self.manifest.problems.append(entry.located(warning))

    def report(self, part: Part, path: Path, message: str, hint: str = "") -> None:
        self.manifest.problems.append(part.located(Problem("", message, hint), path))

    def add_problems(self, part: Part, problems: Iterable[Problem]) -> None:
        found = [(path_parts(one.path), one) for one in problems]
        # A misspelled field explains why the field that it means is missing.
        misspelled = [(path, _MEANT.fullmatch(one.hint)) for path, one in found if not one.warning]
        meant = {(*path[:-1], word[1]) for path, word in misspelled if word}
        for path, one in found:
            if path in meant:
                continue
            if self.name and path == ("metadata", "name"):
                self.manifest.problems.append(replace(one, path="--name"))
                continue
            text = part.document.mark_at((*part.prefix, *path)).text
            self.manifest.problems.append(part.located(self.explained(one, text), path))

    def explained(self, problem: Problem, text: str) -> Problem:
        """Return the problem of a value in terms of its `text` in the file."""
        parameter = _PARAMETER.fullmatch(text)
        if parameter and parameter[1] not in self.parameters and text in problem.message:
            name = parameter[1]
            return replace(problem, message=f"the parameter '{name}' has no value", hint=f"pass -p {name}=VALUE")
        rule, _, meaning = problem.message.partition(", not ")
        if problem.hint == QUOTE and text and not meaning.endswith(f" {text}"):
            return replace(problem, message=f"{rule}, but YAML reads {text} as {meaning}", hint=f'write "{text}"')
        return problem


def _known_kinds() -> list[tuple[str, str]]:
    return [*READERS, *OBJECT_KINDS]


@cache
def _object_schema() -> Schema:
    metadata = {**pod_definitions()["ObjectMeta"], "clusterName": "any"}
    return Schema({**pod_definitions(), "ObjectMeta": metadata})


def read_object(manifest: Mapping[str, Any], filled: Collection[Path] = ()) -> tuple[dict[str, Any], list[Problem]]:
    """Return the object without nulls, and its problems."""
    kind: str = manifest["kind"]
    checked = _object_schema().check(manifest, kind, filled)
    value: dict[str, Any] = checked.value
    problems = list(checked.problems)
    if isinstance(manifest.get("metadata", {}), dict):
        problems += _name_problems(value.get("metadata", {}))
    if kind in ("ConfigMap", "Secret"):
        problems += _data_problems(value)
    if kind == DEPLOYMENT and not errors(problems):
        problems += deployments.problems(value.get("spec", {}))
    if kind == "Service" and not errors(problems):
        problems += services.problems(value)
    if kind == "PersistentVolumeClaim" and not errors(problems):
        problems += _claim_problems(value.get("spec", {}))
    return value, problems


def _claim_problems(spec: Mapping[str, Any]) -> Iterator[Problem]:
    if not spec.get("accessModes"):
        hint = "write [ReadWriteOnce], or [ReadWriteMany] for several nodes"
        yield Problem("spec.accessModes", "is missing", hint)
    yield from resource_problems(spec.get("resources") or {}, ("spec", "resources"))


def _name_problems(metadata: Mapping[str, Any]) -> list[Problem]:
    name = metadata.get("name", "")
    if not name:
        return [Problem("metadata.name", "is missing")]
    if len(name) > 253 or not _NAME.fullmatch(name):
        hint = "use lowercase letters, digits, '-' and '.', at most 253 characters"
        return [Problem("metadata.name", f"{name!r} is not a valid name", hint)]
    return []


def _data_problems(value: Mapping[str, Any]) -> list[Problem]:
    encoded = "data" if value["kind"] == "Secret" else "binaryData"
    problems = []
    for part in ("data", "stringData", "binaryData"):
        for key, text in value.get(part, {}).items():
            path = path_text((part, key))
            if not _KEY.fullmatch(key):
                problems.append(Problem(path, "a key may contain only letters, digits, '-', '_' and '.'"))
            if part == encoded and not _BASE64.fullmatch("".join(text.split())):
                hint = "write plain text under stringData instead" if value["kind"] == "Secret" else ""
                problems.append(Problem(path, "is not valid base64", hint))
    return problems


def substitute(value: Any, parameters: Mapping[str, str]) -> tuple[Any, set[str], set[Path]]:
    """Replace `${name}` in the strings of `value` for the given parameters; also return the names that were found.

    The returned paths belong to strings that consist of one `${name}`: they may become numbers or booleans.
    """
    used: set[str] = set()
    whole: set[Path] = set()
    if not parameters:
        return value, used, whole
    pattern = re.compile(r"\$\{(" + "|".join(map(re.escape, parameters)) + r")\}")

    def replaced(node: Any, path: Path) -> Any:
        if isinstance(node, str):
            used.update(pattern.findall(node))
            if pattern.fullmatch(node):
                whole.add(path)
            return pattern.sub(lambda match: parameters[match[1]], node)
        if isinstance(node, list):
            return [replaced(item, (*path, index)) for index, item in enumerate(node)]
        if isinstance(node, dict):
            return {key: replaced(item, (*path, key)) for key, item in node.items()}
        return node

    return replaced(value, ()), used, whole
