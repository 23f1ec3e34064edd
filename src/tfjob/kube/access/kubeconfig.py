"""Find, read and merge kubeconfig files as kubectl does.

The first file that names a cluster, a user, a context or the current context wins. Relative paths start at the folder
of their file. Missing files are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tfjob.api.text.reader import parse
from tfjob.kube.access.errors import ConfigError

Entry = TypeVar("Entry", bound=msgspec.Struct)


class _Entry(msgspec.Struct, frozen=True, rename="kebab"):
    """A named entry of a kubeconfig; unknown fields are ignored."""


class Cluster(_Entry, frozen=True):
    """The address of an API server, and how to verify it."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: list[dict[str, Any]] = []


class Variable(_Entry, frozen=True):
    """One environment variable of a plugin."""

    name: str
    value: str = ""


class Plugin(msgspec.Struct, frozen=True, rename="camel"):
    """A program that prints credentials (client.authentication.k8s.io)."""

    command: str = ""
    args: list[str] = []
    env: list[Variable] = []
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"


class User(_Entry, frozen=True):
    """Our identity for an API server."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    plugin: Plugin | None = msgspec.field(default=None, name="exec")
    auth_provider: dict[str, Any] = {}
    impersonate: str = msgspec.field(default="", name="as")
    impersonate_uid: str = msgspec.field(default="", name="as-uid")
    impersonate_groups: list[str] = msgspec.field(default=[], name="as-groups")
    impersonate_extra: dict[str, list[str]] = msgspec.field(default={}, name="as-user-extra")


class Context(_Entry, frozen=True):
    """A cluster, a user and a namespace under one name."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


@dataclass
class Kubeconfig:
    """The merged content of all files."""

    files: list[Path] = field(default_factory=list)
    current: str = ""
    contexts: dict[str, Context] = field(default_factory=dict)
    clusters: dict[str, Cluster] = field(default_factory=dict)
    users: dict[str, User] = field(default_factory=dict)


def paths(environ: Mapping[str, str]) -> list[Path]:
    named = [Path(path) for path in environ.get("KUBECONFIG", "").split(":") if path]
    home = environ.get("HOME", "")
    return named or [Path(home) / ".kube" / "config" if home else Path("~/.kube/config").expanduser()]


def read(files: Iterable[Path]) -> Kubeconfig:
    """Merge the files; the result is empty if none exists. Raises ConfigError."""
    merged = Kubeconfig()
    for path in files:
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ConfigError(f"cannot read the kubeconfig {path}: {error.strerror}") from None
        merged.files.append(path)
        _merge(merged, _decoded(path, text), path.parent.absolute())
    return merged


class _Named(msgspec.Struct, frozen=True):
    name: str
    cluster: Cluster = Cluster()
    user: User = User()
    context: Context = Context()


class _File(msgspec.Struct, frozen=True):
    clusters: list[_Named] = []
    users: list[_Named] = []
    contexts: list[_Named] = []
    current: str = msgspec.field(default="", name="current-context")


def _decoded(path: Path, text: bytes) -> _File:
    if not text.strip():
        return _File()
    parsed = parse(text, as_text=True)  # a context may be named 2024 or yes
    if not parsed.documents:
        problem = parsed.problems[0]
        raise ConfigError(
            f"{path}: line {problem.line}: {problem.message}", problem.hint[:1].upper() + problem.hint[1:]
        )
    try:
        return msgspec.convert(_without_nulls(parsed.documents[0].value), _File, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path} is not a valid kubeconfig: {error}") from None


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _merge(merged: Kubeconfig, file: _File, folder: Path) -> None:
    merged.current = merged.current or file.current
    for entry in file.contexts:
        merged.contexts.setdefault(entry.name, entry.context)
    for entry in file.clusters:
        merged.clusters.setdefault(entry.name, _anchored(entry.cluster, folder, "certificate_authority"))
    for entry in file.users:
        user = _anchored(entry.user, folder, "client_certificate", "client_key", "token_file")
        if user.plugin and "/" in user.plugin.command:
            user = msgspec.structs.replace(user, plugin=_anchored(user.plugin, folder, "command"))
        merged.users.setdefault(entry.name, user)


def _anchored(entry: Entry, folder: Path, *fields: str) -> Entry:
    found = {name: str(folder / value) for name in fields if (value := getattr(entry, name))}
    return msgspec.structs.replace(entry, **found) if found else entry
