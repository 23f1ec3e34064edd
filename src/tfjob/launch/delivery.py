"""What a job for a cluster gets from this machine: the project folder, and the Keras layer.

Immutable ConfigMaps of the job contain both as one archive. An init container with the image of the replica unpacks it
into a volume of the pod, so that every replica, and every restart, starts with the same files.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec.structs import replace

from tfjob.api.defaults import training_container
from tfjob.api.objects import SENT_FILES
from tfjob.api.problems import Problem
from tfjob.api.resources import CONFIG_MAPS
from tfjob.api.types import CHIEF, MASTER, PS, WORKER, TFJob
from tfjob.errors import InvalidRequest
from tfjob.jobs.report import size
from tfjob.launch.package import MOST_BYTES, Package, TooLarge, package
from tfjob.launch.project_files import IGNORE_FILE, MOST_NAMES, ProjectFile, ProjectFiles, project_files
from tfjob.local.inputs import keras_layer
from tfjob.plan.facts.tasks import replicas_of

Object = dict[str, Any]

VOLUME, FOLDER = SENT_FILES, "/opt/tfjob"
"""The volume with the unpacked files, and where containers mount it."""
PARTS_VOLUME, PARTS_FOLDER = "tfjob-package", "/opt/tfjob-package"
PROJECT, LAYER = "project", "keras_layer"
"""The trees of the archive."""
PYTHON = re.compile(r"(/.*/)?python[\d.]*")
UNPACK = Path(__file__).parents[1] / "programs" / "unpack.py"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
"""Annotation of a pod: volumes whose content may be lost, as the next pod gets the same files again."""
IN_IMAGE = "put the code into the image and add --in-image"
ENVIRONMENT = ("image", "imagePullPolicy", "env", "envFrom", "volumeMounts", "securityContext")
"""The fields of a replica's container that its init container needs to start the same Python."""
COMPUTE = ("cpu", "memory", "ephemeral-storage")
"""The resources that quotas may require of every container."""


@dataclass(frozen=True)
class Delivery:
    """A job, and the ConfigMaps that it will own, still without their owner."""

    job: TFJob
    config_maps: Sequence[Object]


@dataclass(frozen=True)
class Sender:
    """Adds the files of a project folder to jobs.

    The container of a program gets the folder; those of a manifest get it if their command names a file of it by a
    relative path. With `in_image`, no container gets it.
    """

    folder: Path
    is_program: bool = False
    in_image: bool = False
    _packages: dict[tuple[str, ...], Package] = field(default_factory=dict)

    @cached_property
    def files(self) -> ProjectFiles:
        return project_files(self.folder)

    @cached_property
    def _paths(self) -> frozenset[str]:
        return frozenset(file.path for file in self.files.files)

    @property
    def is_used(self) -> bool:
        return any(PROJECT in trees for trees in self._packages)

    def delivery(self, job: TFJob) -> Delivery:
        """Return the job with what it needs to get its files. Raises InvalidRequest."""
        templates = {kind: spec.template for kind, spec in job.spec.tf_replica_specs.items() if spec.template}
        trees = {kind: self._trees(job, template) for kind, template in templates.items()}
        needed = sorted({tree for by_name in trees.values() for found in by_name.values() for tree in found})
        if not needed:
            return Delivery(job, ())
        parts = self._package(tuple(needed))
        names = [f"{job.metadata.name}-files-{parts.digest}-{number}" for number in range(len(parts.parts))]
        specs = {
            kind: replace(spec, template=_with_files(spec.template or {}, trees[kind], names))
            if trees.get(kind)
            else spec
            for kind, spec in job.spec.tf_replica_specs.items()
        }
        config_maps = [
            CONFIG_MAPS.manifest(
                {"name": name, "namespace": job.metadata.namespace},
                immutable=True,
                binaryData={f"part-{number}": base64.b64encode(part).decode()},
            )
            for number, (name, part) in enumerate(zip(names, parts.parts, strict=True))
        ]
        return Delivery(replace(job, spec=replace(job.spec, tf_replica_specs=specs)), config_maps)

    def _trees(self, job: TFJob, template: Object) -> dict[str, list[str]]:
        """Return the names of the containers that get something, and which trees they need."""
        spec = template.get("spec") or {}
        if any(volume.get("name") == VOLUME for volume in spec.get("volumes") or ()):
            return {}  # the manifest is from a dry run
        training, found = training_container(template), {}
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
            trees = [PROJECT] if self._gets_folder(container) else []
            if container is training and _gets_layer(job, container, is_sent=bool(trees)):
                trees.append(LAYER)
            if trees:
                found[container.get("name", "")] = trees
        return found

    def _gets_folder(self, container: Mapping[str, Any]) -> bool:
        if self.in_image or container.get("workingDir"):
            return False
        named = [path for path in _named_files(container) if (self.folder / path).is_file()]
        if named and not self._paths.intersection(named):
            raise InvalidRequest(
                f"{named[0]} is not among the files that tfjob sends to the cluster, because git or {IGNORE_FILE}"
                " ignores it",
                f"Change that, or {IN_IMAGE}.",
            )
        return self.is_program or bool(named)

    def _package(self, trees: tuple[str, ...]) -> Package:
        if trees not in self._packages:
            try:
                self._packages[trees] = package({tree: self._tree(tree) for tree in trees})
            except TooLarge:
                raise InvalidRequest(
                    f"the files in {self.folder} ({size(self.files.size)}) are more than the {size(MOST_BYTES)} that"
                    " tfjob can send to a cluster, also when compressed",
                    f"List what the job does not need in {IGNORE_FILE}, or {IN_IMAGE}. The largest:"
                    f" {', '.join(self.files.largest())}",
                ) from None
        return self._packages[trees]

    def _tree(self, name: str) -> tuple[Path, Sequence[ProjectFile]]:
        if name == LAYER:
            return Path(keras_layer.FOLDER), [ProjectFile("sitecustomize.py", 0)]
        return self.folder, self.files.files

    def summary(self) -> str:
        """Return how many files are sent, of which size and from where; empty if none is."""
        if not self.is_used:
            return ""
        count = len(self.files.files)
        return f"{count} file{'' if count == 1 else 's'} ({size(self.files.size)}) of {self.folder}"

    def listing(self) -> list[str]:
        return [f"{file.path} ({size(file.size)})" for file in self.files.files] if self.is_used else []

    def warnings(self) -> list[Problem]:
        if not self.is_used:
            return []
        found = []
        if self.files.secrets:
            message = f"left out {_some(self.files.secrets)}, which may contain secrets"
            hint = f"use a Secret, or add !{self.files.secrets[0]} to {IGNORE_FILE} to send it"
            found.append(Problem("", message, hint, warning=True))
        if self.files.links:
            message = f"left out {_some(self.files.links)}, because links that lead out of the folder cannot be sent"
            found.append(Problem("", message, "put copies of the files into the folder", warning=True))
        return found


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


# --- containers -------------------------------------------------------------------------------------------------------


def _named_files(container: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths that the program of a command may have, relative to the working folder."""
    if not container.get("command"):
        return  # only the image knows what its arguments mean
    words = [str(word) for word in (*container["command"], *(container.get("args") or ()))]
    scripts = [word for word in words if word.endswith((".py", ".sh"))]
    if any(word.startswith("/") for word in scripts):
        return  # it is in the image
    paths = [*([words[0]] if "/" in words[0] else []), *scripts]
    for option, module in pairwise(words):
        if option == "-m":
            path = module.replace(".", "/")
            paths += [f"{path}.py", f"{path}/__main__.py"]
    yield from (PurePosixPath(path).as_posix() for path in paths if not path.startswith(("/", "../")))


def _gets_layer(job: TFJob, container: Mapping[str, Any], *, is_sent: bool) -> bool:
    """Return whether a replica trains with others; with its code in the image, only if it requests the layer."""
    values = [one.get("value") for one in container.get("env") or () if one.get("name") == keras_layer.SWITCH]
    workers = sum(replicas_of(job, kind) for kind in (CHIEF, MASTER, WORKER))
    has_peers = workers > 1 and not replicas_of(job, PS)
    return has_peers and (is_sent or "1" in values) and "0" not in values


def _python(container: Mapping[str, Any]) -> str:
    """Return the Python that a command starts, else `python`."""
    first = str(next(iter(container.get("command") or ()), ""))
    return first if PYTHON.fullmatch(first) else "python"


def _with_files(template: Object, trees: Mapping[str, Sequence[str]], config_maps: Sequence[str]) -> Object:
    """Return a template whose containers, by name, get these trees of an archive in ConfigMaps."""
    spec: Object = template.get("spec") or {}
    given = {group: spec.get(group) or [] for group in ("initContainers", "containers")}
    changed = {
        group: [_with_trees(one, trees.get(one.get("name", ""), ())) for one in containers]
        for group, containers in given.items()
    }
    training = training_container(template)
    first = next(one for one in (*given["containers"], *given["initContainers"]) if one.get("name", "") in trees)
    unpack = _unpack(training if training.get("name", "") in trees else first)
    parts = {"sources": [{"configMap": {"name": name}} for name in config_maps]}
    volumes = [{"name": PARTS_VOLUME, "projected": parts}, {"name": VOLUME, "emptyDir": {}}]
    metadata: Object = template.get("metadata") or {}
    annotations = {SAFE_TO_EVICT: VOLUME, **(metadata.get("annotations") or {})}
    return {
        **template,
        "metadata": {**metadata, "annotations": annotations},
        "spec": {
            **spec,
            "initContainers": [unpack, *changed["initContainers"]],
            "containers": changed["containers"],
            "volumes": [*(spec.get("volumes") or ()), *volumes],
        },
    }


def _with_trees(container: Object, trees: Sequence[str]) -> Object:
    if not trees:
        return container
    mounts = [*(container.get("volumeMounts") or ()), {"name": VOLUME, "mountPath": FOLDER}]
    changed = {**container, "volumeMounts": mounts}
    if PROJECT in trees:
        changed["workingDir"] = f"{FOLDER}/{PROJECT}"
    if LAYER in trees:
        changed["env"] = _with_layer(container.get("env") or ())
    return changed


def _with_layer(env: Sequence[Object]) -> list[Object]:
    """Put the layer first on PYTHONPATH; the layer itself adds a value that only the container knows."""
    given = next((one.get("value") for one in env if one.get("name") == "PYTHONPATH"), None)
    path = ":".join(filter(None, (f"{FOLDER}/{LAYER}", given)))
    own = [{"name": "PYTHONPATH", "value": path}, {"name": keras_layer.REPORT, "value": keras_layer.TO_LOG}]
    return [*(one for one in env if one.get("name") != "PYTHONPATH"), *own]


def _unpack(container: Mapping[str, Any]) -> Object:
    """Return the init container that unpacks the files with the image and the Python of a container."""
    copied = {name: container[name] for name in ENVIRONMENT if name in container}
    resources = {
        kind: kept
        for kind, amounts in (container.get("resources") or {}).items()
        if kind in ("limits", "requests") and (kept := {name: amounts[name] for name in COMPUTE if name in amounts})
    }
    parts = {"name": PARTS_VOLUME, "mountPath": PARTS_FOLDER, "readOnly": True}
    mounts = [*(container.get("volumeMounts") or ()), parts, {"name": VOLUME, "mountPath": FOLDER}]
    return {
        "name": SENT_FILES,
        **copied,
        "command": [_python(container), "-c", _program(), PARTS_FOLDER, FOLDER],
        **({"resources": resources} if resources else {}),
        "volumeMounts": mounts,
    }


@cache
def _program() -> str:
    lines = UNPACK.read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("#"))
