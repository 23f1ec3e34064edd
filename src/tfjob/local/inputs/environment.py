"""The environment variables of a container: a few from the host, then those of the manifest.

From the host come only PATH (the chosen Python's folder first), HOME, LANG, LC_ALL, TZ, TMPDIR, the proxy variables in
lower and upper case, and variables that start with CUDA_ or NVIDIA_. HOSTNAME is the pod's; PYTHONUNBUFFERED=1 keeps
logs up to date. Then come the env of the image's entry in the configuration, variables of the calling shell (scripts
only), `envFrom` and `env`, each overriding the ones before. As on a cluster, `$(VAR)` only refers to variables that the
manifest has declared before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tfjob.api.objects import Pod
from tfjob.api.pod_validation import CONFIG_MAP, SECRET
from tfjob.local.inputs.references import MissingReference, Node, References, container_of, field_value, resource_value
from tfjob.local.state.errors import Refusal

FROM_HOST = ("HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")
PROXY = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy")
PREFIXES_FROM_HOST = ("CUDA_", "NVIDIA_")
PASSED_TO_SCRIPTS = (
    *("PYTHONPATH", "TF_*", "KERAS_*", "OMP_*", "XLA_*", "CUDA_*"),
    *("WANDB_*", "MLFLOW_*", "AWS_*", "GOOGLE_*"),
)
"""The variables of the calling shell that a script gets; `pass-env` in the configuration adds to them."""
NEVER_PASSED = "TF_CONFIG"
"""It describes the cluster of another program."""
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


@dataclass(frozen=True)
class Environment:
    """The environment variables of a container: `base` from host and image, then `declared` of the manifest."""

    base: Mapping[str, str]
    declared: Mapping[str, str]
    secret: frozenset[str] = frozenset()
    """Names of declared variables whose value contains part of a Secret and must not be shown."""

    def variables(self) -> dict[str, str]:
        return {**self.base, **self.declared}

    def shown(self) -> dict[str, str]:
        """Return the declared variables with secret values hidden."""
        return {name: "(secret)" if name in self.secret else value for name, value in self.declared.items()}


def resolve(
    container: Mapping[str, Any],
    pod: Pod,
    *,
    references: References,
    node: Node,
    environ: Mapping[str, str],
    path_prefix: Sequence[Path] = (),
    image: Mapping[str, str] | None = None,
    passed: Mapping[str, str] | None = None,
) -> Environment:
    """Return the environment of a container of `pod`.

    `environ` is the host's, `image` that of the image's entry, and `passed` what a script gets from the calling shell.
    """
    base = {**from_host(environ, path_prefix), "HOSTNAME": hostname(pod), **(image or {}), **(passed or {})}
    declared, secret = _declared(container, pod, references, node)
    return Environment(base, declared, frozenset(secret))


def from_host(environ: Mapping[str, str], path_prefix: Sequence[Path] = ()) -> dict[str, str]:
    names = (*FROM_HOST, *PROXY, *(name.upper() for name in PROXY))
    taken = {name: environ[name] for name in names if name in environ}
    taken |= {name: value for name, value in environ.items() if name.startswith(PREFIXES_FROM_HOST)}
    path = [*map(str, path_prefix), environ.get("PATH") or DEFAULT_PATH]
    return {"PATH": ":".join(path), "PYTHONUNBUFFERED": "1", **taken}


def names_to_pass(environ: Mapping[str, str], patterns: Sequence[str]) -> list[str]:
    """Return the names of the variables that match one of the patterns, such as `WANDB_*`."""
    known = (name for name in environ if name != NEVER_PASSED)
    return sorted(name for name in known if any(fnmatchcase(name, pattern) for pattern in patterns))


def read_env_file(file: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a file with a line `NAME=VALUE` for each, or `NAME` for the value in `environ`."""
    found: dict[str, str] = {}
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a UTF-8 text file"
        raise Refusal(f"cannot read the env file {file}: {reason}") from None
    for number, line in enumerate(lines, 1):
        name, separator, value = line.strip().removeprefix("export ").partition("=")
        if not name or name.startswith("#"):
            continue
        if not VARIABLE_NAME.fullmatch(name):
            raise Refusal(f"{file}:{number}: {name!r} is not the name of a variable", "Write NAME=VALUE.")
        if separator or name in environ:
            found[name] = value if separator else environ[name]
    return found


def hostname(pod: Pod) -> str:
    return (pod.spec.get("hostname") or pod.metadata.name)[:63].rstrip("-.")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(VAR)` in `text` where VAR is known, and leave it unchanged elsewhere; `$$` is an escaped `$`."""

    def replacement(match: re.Match[str]) -> str:
        if match[1] is None:
            return "$"
        return variables.get(match[1], match[0])

    return _REFERENCE.sub(replacement, text)


def _declared(
    container: Mapping[str, Any], pod: Pod, references: References, node: Node
) -> tuple[dict[str, str], set[str]]:
    values: dict[str, str] = {}
    secret: set[str] = set()
    for source in container.get("envFrom") or []:
        kind = CONFIG_MAP if source.get("configMapRef") is not None else SECRET
        reference = source.get("configMapRef" if kind == CONFIG_MAP else "secretRef") or {}
        held = references.find(kind, reference, binary=False) or {}
        for key, content in held.items():
            name = (source.get("prefix") or "") + key
            if "=" not in name and "\0" not in name:
                values[name] = _as_text(content, kind, reference.get("name", ""), key)
                secret.add(name) if kind == SECRET else secret.discard(name)
    for variable in container.get("env") or []:
        name, text = variable["name"], str(variable.get("value") or "")
        origin = variable.get("valueFrom") or {}
        if text or not origin:
            hidden = any(match[1] in secret for match in _REFERENCE.finditer(text))
            value: str | None = expand(text, values)
        else:
            hidden = "secretKeyRef" in origin
            value = _from_source(origin, container, pod, references, node)
        if value is not None:
            values[name] = value
            secret.add(name) if hidden else secret.discard(name)
    return values, secret


def _from_source(
    origin: Mapping[str, Any],
    container: Mapping[str, Any],
    pod: Pod,
    references: References,
    node: Node,
) -> str | None:
    if "fieldRef" in origin:
        path = (origin["fieldRef"] or {}).get("fieldPath") or ""
        if path in ("metadata.labels", "metadata.annotations"):
            raise Refusal(
                f"fieldRef '{path}' has several values and cannot be one environment variable",
                f"Name one key: {path}['KEY'].",
            )
        value = field_value(path, pod, node)
        if "\0" in value:
            raise Refusal(f"fieldRef '{path}' contains a NUL character and cannot be an environment variable")
        return value
    if "resourceFieldRef" in origin:
        reference = origin["resourceFieldRef"] or {}
        return resource_value(reference, container_of(reference, pod, container), node)
    for source, kind in (("configMapKeyRef", CONFIG_MAP), ("secretKeyRef", SECRET)):
        if source in origin:
            return _key_of(origin[source] or {}, kind, references)
    raise Refusal(f"valueFrom.{next(iter(origin))} is not supported on this machine")


def _key_of(reference: Mapping[str, Any], kind: str, references: References) -> str | None:
    held = references.find(kind, reference, binary=False)
    if held is None:
        return None
    name, key = reference.get("name") or "", reference.get("key") or ""
    if key not in held:
        if reference.get("optional"):
            return None
        raise MissingReference(kind, name, key)
    return _as_text(held[key], kind, name, key)


def _as_text(value: bytes, kind: str, name: str, key: str) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        message = f"'{key}' of {kind} '{name}' is binary and cannot be an environment variable"
        raise Refusal(message, "Mount it as a file instead.")
    return text
