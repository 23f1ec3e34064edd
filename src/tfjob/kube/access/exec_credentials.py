"""Credentials from a program that the kubeconfig names (client.authentication.k8s.io, v1 and v1beta1).

The program runs when there are no credentials yet, when they expired, and when the API server rejected them.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from tfjob.durations import durations_from
from tfjob.kube.access.credentials import Credential, bearer, contents
from tfjob.kube.access.errors import ConfigError
from tfjob.kube.access.kubeconfig import Cluster, Plugin
from tfjob.kube.access.tls import Certificate

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
CONFIG_EXTENSION = "client.authentication.k8s.io/exec"
MOST_REPORTED = 20
"""Lines of a plugin's error output to report. The cause may be in the first line or, for a traceback, in the last."""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: datetime | None = None


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    status: _Status | None = None


class PluginCredential(Credential):
    """The credentials that a plugin printed last, until they expire."""

    def __init__(
        self,
        plugin: Plugin,
        cluster: Cluster,
        who: str,
        environ: Mapping[str, str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._plugin = plugin
        self._cluster = cluster
        self._who = who
        self._environ = environ
        self._clock = clock
        durations = durations_from(environ)
        self._margin = durations.credential_margin.total_seconds()
        self._patience = durations.credential_program.total_seconds()
        self._expires = float("-inf")
        self._runs = 0
        self._running = asyncio.Lock()
        if plugin.api_version not in VERSIONS:
            raise self._fault(f"has the unsupported apiVersion {plugin.api_version!r}", f"Use {' or '.join(VERSIONS)}.")
        if not plugin.command:
            raise ConfigError(f"{who}: `exec` has no `command`")

    def header(self) -> str | None:
        return self._header if self._clock() < self._expires else None

    async def renew(self) -> None:
        """Run the plugin; concurrent callers share one run. Raises ConfigError."""
        runs = self._runs
        async with self._running:
            if runs == self._runs:
                self._accept(await self._run())
                self._runs += 1

    async def _run(self) -> bytes:
        plugin = self._plugin
        interactive = plugin.interactive_mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
        if plugin.interactive_mode == "Always" and not interactive:
            raise self._fault("needs a terminal for its questions, but standard input is not a terminal")
        info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": self._spec(interactive)}
        environ = {**self._environ, **{variable.name: variable.value for variable in plugin.env}}
        environ["KUBERNETES_EXEC_INFO"] = msgspec.json.encode(info).decode()
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.args,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=None if interactive else asyncio.subprocess.PIPE,
                env=environ,
                start_new_session=not interactive,
            )
        except FileNotFoundError:
            raise self._fault("is not installed", plugin.install_hint.strip()) from None
        except OSError as error:
            raise self._fault(f"cannot be started: {error.strerror or error}") from None
        try:
            async with asyncio.timeout(None if interactive else self._patience):
                output, errors = await process.communicate()
        except TimeoutError:
            raise self._fault(f"did not finish within {self._patience:.0f} s") from None
        finally:
            if process.returncode is None:
                await _end(process, everything=not interactive)
        if process.returncode:
            reported = (errors or b"").decode(errors="replace").strip().splitlines()[-MOST_REPORTED:]
            shown = "".join(f": {line}" if len(reported) == 1 else f"\n    {line}" for line in reported)
            raise self._fault(f"failed with exit code {process.returncode}{shown}")
        return output

    def _spec(self, interactive: bool) -> dict[str, Any]:
        if not self._plugin.provide_cluster_info:
            return {"interactive": interactive}
        cluster = self._cluster
        authority = cluster.certificate_authority_data
        if not authority and cluster.certificate_authority:
            authority = base64.b64encode(contents(Path(cluster.certificate_authority))).decode()
        described = {
            "server": cluster.server,
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
            "certificate-authority-data": authority,
            "proxy-url": cluster.proxy_url,
            "config": next((e.get("extension") for e in cluster.extensions if e.get("name") == CONFIG_EXTENSION), None),
        }
        return {"interactive": interactive, "cluster": {key: value for key, value in described.items() if value}}

    def _accept(self, output: bytes) -> None:
        try:
            answer = msgspec.json.decode(output, type=_Answer)
        except msgspec.DecodeError as error:
            raise self._fault(f"did not print an ExecCredential: {error}") from None
        if answer.kind != "ExecCredential" or answer.api_version != self._plugin.api_version:
            raise self._fault(
                f"printed {answer.api_version} {answer.kind}; the kubeconfig asks for {self._plugin.api_version}"
            )
        status = answer.status or _Status()
        certificate = None
        if status.client_certificate_data and status.client_key_data:
            certificate = Certificate(status.client_certificate_data.encode(), status.client_key_data.encode())
        if not status.token and certificate is None:
            raise self._fault("printed neither a token nor a certificate with its key")
        self._header = bearer(status.token) if status.token else ""
        self._certificate = certificate
        expires = status.expiration_timestamp
        # Use new credentials at least once, even if they look expired: the program's clock may differ from ours.
        soonest = self._clock() + self._margin
        self._expires = max(expires.timestamp() - self._margin, soonest) if expires else float("inf")

    def _fault(self, what: str, hint: str = "") -> ConfigError:
        return ConfigError(f"{self._who}: the credential plugin {self._plugin.command} {what}", hint)


async def _end(process: asyncio.subprocess.Process, *, everything: bool) -> None:
    """Kill a program, with `everything` also its children: one of them may keep its output open."""
    if everything:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    await process.communicate()
