"""The address of an API server and our credentials for it, from kubeconfig files or from inside a pod."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, quote, urlsplit

from tfjob.api.suggest import did_you_mean
from tfjob.kube.access import kubeconfig
from tfjob.kube.access.credentials import CertificateFiles, Credential, TokenFile, basic, bearer, contents
from tfjob.kube.access.errors import ConfigError
from tfjob.kube.access.exec_credentials import PluginCredential
from tfjob.kube.access.kubeconfig import Cluster, Context, Kubeconfig, User
from tfjob.kube.access.tls import Certificate, Trust

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Access:
    """An API server, our identity there, and the default namespace; `context` is empty inside a pod."""

    server: str
    namespace: str = "default"
    context: str = ""
    credential: Credential = field(default_factory=Credential, repr=False)
    trust: Trust = field(default_factory=Trust, repr=False)
    proxy: str = field(default="", repr=False)
    impersonation: tuple[tuple[str, str], ...] = ()
    """Headers that ask the API server to treat us as another user."""


def load(
    context: str | None = None, environ: Mapping[str, str] = os.environ, service_account: Path = SERVICE_ACCOUNT
) -> Access:
    """Return the access of the context, else of the current one, else of the pod we run in. Raises ConfigError."""
    files = kubeconfig.paths(environ)
    config = kubeconfig.read(files)
    if context is None and not (config.current or config.contexts):
        inside = in_cluster(environ, service_account)
        if inside is not None:
            return inside
    if not config.files:
        raise ConfigError(
            f"no kubeconfig found: {' and '.join(map(str, files))} {'does' if len(files) == 1 else 'do'} not exist",
            f"{'Correct' if environ.get('KUBECONFIG') else 'Set'} KUBECONFIG: it must be the path of a kubeconfig.",
        )
    return _access(config, context or config.current, environ)


def in_cluster(environ: Mapping[str, str], service_account: Path = SERVICE_ACCOUNT) -> Access | None:
    """Return the access of the pod we run in; None outside a pod."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    token = service_account / "token"
    if not host or not token.exists():
        return None
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    namespace = service_account / "namespace"
    return Access(
        server=server,
        namespace=(namespace.read_text().strip() if namespace.exists() else "") or "default",
        credential=TokenFile(token),
        trust=Trust(authority_file=str(service_account / "ca.crt")),
        proxy=proxy_for(server, environ),
    )


def _access(config: Kubeconfig, name: str, environ: Mapping[str, str]) -> Access:
    context = _context(config, name)
    cluster = _cluster(config, name, context)
    return Access(
        server=cluster.server.rstrip("/"),
        namespace=context.namespace or "default",
        context=name,
        credential=_credential(config, name, context, cluster, environ),
        trust=Trust(
            authority=_decoded(
                cluster.certificate_authority_data, f"cluster {context.cluster}: certificate-authority-data"
            ),
            authority_file=cluster.certificate_authority,
            server_name=cluster.tls_server_name,
            insecure=cluster.insecure_skip_tls_verify,
        ),
        proxy=_usable(cluster.proxy_url) if cluster.proxy_url else proxy_for(cluster.server, environ),
        impersonation=_impersonation(config.users.get(context.user, User())),
    )


def _context(config: Kubeconfig, name: str) -> Context:
    where = ", ".join(map(str, config.files))
    known = f"Available contexts: {', '.join(sorted(config.contexts))}" if config.contexts else ""
    if not name:
        choose = "Select a context with `kubectl config use-context NAME`."
        raise ConfigError(f"{where}: no current context is set", known and f"{choose} {known}")
    if name not in config.contexts:
        hint = did_you_mean(name, config.contexts)
        named = f"current-context is '{name}', but " if name == config.current else ""
        advice = known or "The kubeconfig has no contexts: set KUBECONFIG to the path of another one."
        raise ConfigError(f"{where}: {named}no context is named '{name}'{f' ({hint})' if hint else ''}", advice)
    return config.contexts[name]


def _cluster(config: Kubeconfig, name: str, context: Context) -> Cluster:
    cluster = config.clusters.get(context.cluster)
    if cluster is None:
        raise ConfigError(f"context {name}: the kubeconfig does not define its cluster {context.cluster!r}")
    url = urlsplit(cluster.server)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ConfigError(f"cluster {context.cluster}: server {cluster.server!r} is not an http:// or https:// URL")
    if "@" in url.netloc:  # every message that names the server would show it
        raise ConfigError(
            f"cluster {context.cluster}: the server URL contains a user name or password, which is not supported",
            "Set `username` and `password` of the kubeconfig's user instead.",
        )
    return cluster


def _credential(
    config: Kubeconfig, name: str, context: Context, cluster: Cluster, environ: Mapping[str, str]
) -> Credential:
    user = config.users.get(context.user)
    if user is None:
        if context.user:
            raise ConfigError(f"context {name}: the kubeconfig does not define its user {context.user!r}")
        return Credential()
    who = f"user {context.user}"
    if user.auth_provider and not (
        user.token or user.plugin or user.client_certificate or user.client_certificate_data
    ):
        raise ConfigError(
            f"{who}: Kubernetes clients no longer support auth-provider {user.auth_provider.get('name', '')}",
            "Log in again with your provider's tool: current versions configure an exec plugin instead.",
        )
    # kubectl's order: a token file, a token, user and password, a plugin; a certificate in addition to any of them.
    if user.token_file:
        return TokenFile(Path(user.token_file), _certificate(user, who))
    header = bearer(user.token) if user.token else basic(user.username, user.password) if user.username else ""
    if user.plugin and not header:
        return PluginCredential(user.plugin, cluster, who, environ)
    if user.client_certificate and user.client_key and not (user.client_certificate_data or user.client_key_data):
        return CertificateFiles(Path(user.client_certificate), Path(user.client_key), header)
    return Credential(header, _certificate(user, who))


def _certificate(user: User, who: str) -> Certificate | None:
    chain = _decoded(user.client_certificate_data, f"{who}: client-certificate-data")
    key = _decoded(user.client_key_data, f"{who}: client-key-data")
    if not chain and user.client_certificate:
        chain = contents(Path(user.client_certificate))
    if not key and user.client_key:
        key = contents(Path(user.client_key))
    if bool(chain) != bool(key):
        missing = "client-key" if chain else "client-certificate"
        raise ConfigError(f"{who}: {missing} is missing: a client certificate needs both the certificate and its key")
    return Certificate(chain, key) if chain else None


def _impersonation(user: User) -> tuple[tuple[str, str], ...]:
    named = [("Impersonate-User", user.impersonate), ("Impersonate-Uid", user.impersonate_uid)]
    groups = [("Impersonate-Group", group) for group in user.impersonate_groups]
    extra = [
        (f"Impersonate-Extra-{quote(key, safe='')}", value)
        for key, values in user.impersonate_extra.items()
        for value in values
    ]
    found = tuple((header, value) for header, value in (*named, *groups, *extra) if value)
    for header, value in found:
        if not value.isprintable():
            raise ConfigError(f"{header}: {value!r} contains characters that cannot be printed")
    return found


def _decoded(data: str, what: str) -> bytes:
    try:
        return base64.b64decode(data, validate=False)
    except (binascii.Error, ValueError):
        raise ConfigError(f"{what} is not valid base64") from None


def proxy_for(server: str, environ: Mapping[str, str]) -> str:
    """Return the proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY select; empty for none. Raises ConfigError."""
    url = urlsplit(server)
    proxy = _variable(environ, f"{url.scheme}_proxy")
    if not proxy or _bypassed(url, _variable(environ, "no_proxy")):
        return ""
    return _usable(proxy if "://" in proxy else f"http://{proxy}")


def _usable(proxy: str) -> str:
    url = urlsplit(proxy)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ConfigError(
            f"the proxy {url.scheme}://{url.hostname or ''} is not supported", "Use an http:// or https:// proxy."
        )
    return proxy


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper()) or environ.get(name) or ""


def _bypassed(url: SplitResult, exceptions: str) -> bool:
    # The import takes 40 ms, so it waits until there is a proxy.
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

    host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
    items = [item.strip().removeprefix("*.") for item in exceptions.split(",")]
    if host == "localhost" or "*" in items or proxy_bypass_environment(f"{host}:{port}", {"no": ",".join(items)}):
        return True
    with suppress(ValueError):  # the host is a name, or an item is not a valid network
        address = ipaddress.ip_address(host)
        # As with kubectl, NO_PROXY may contain networks.
        networks = (ipaddress.ip_network(item, strict=False) for item in items if "/" in item)
        return address.is_loopback or any(address in network for network in networks)
    return False
