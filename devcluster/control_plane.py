"""etcd, API server, controllers and scheduler as processes of this user."""

from __future__ import annotations

import json
import random
import socket
import ssl
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import Refused, tail
from devcluster.state import Folder

NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
        {"level": "None"},
    ],
}
"""Records who wrote what and when, for tests that count requests."""
POD_COLLECTOR = "pod-garbage-collector-controller"
"""It deletes terminating pods without a node by name. In a cluster without nodes it sometimes hits the next pod."""


@dataclass(frozen=True)
class Addresses:
    """The address of the API server and the addresses of services."""

    server: str = "127.0.0.1"
    services: str = "10.96.0.0/16"
    first_service: str = "10.96.0.1"
    has_nodes: bool = False


class ControlPlane:
    """The processes of a cluster without nodes."""

    def __init__(self, folder: Folder, programs: dict[str, Path], addresses: Addresses | None = None) -> None:
        self.folder = folder
        self.programs = programs
        self.addresses = addresses or Addresses()
        from devcluster import pki  # it needs cryptography, which the other commands must work without

        self._pki = pki
        self.authority = pki.Authority(folder / "pki")
        self.url = f"https://{self.addresses.server}:{free_port(self.addresses.server)}"
        self.admin = self.kubeconfig("kubeconfig", "admin", "system:masters")

    def kubeconfig(self, name: str, user: str, group: str = "") -> Path:
        return self.authority.kubeconfig(self.folder / name, self.url, user, group)

    def start(self) -> None:
        """Start everything; return when the API server is ready and a namespace has its service account."""
        etcd = self._start_etcd()
        tokens = self._pki.token_key(self.folder / "pki")
        self._start_api_server(etcd, tokens)
        self._wait("kube-apiserver", lambda: ask(self.folder, "/readyz") == b"ok")
        self._start_controllers(tokens[0])
        self._start_scheduler()
        self._wait("kube-controller-manager", lambda: bool(ask(self.folder, _DEFAULT_ACCOUNT)))

    def _start_etcd(self) -> str:
        """Start etcd with certificates for members and clients: every user of the machine can reach loopback."""
        client, peer = (f"https://127.0.0.1:{free_port()}" for _ in range(2))
        certificate, key = self.authority.issue("etcd", "etcd", hosts=("localhost", "127.0.0.1"))
        trust = str(self.authority.certificate)
        self._run(
            "etcd",
            data_dir=self.folder / "etcd",
            listen_client_urls=client,
            advertise_client_urls=client,
            listen_peer_urls=peer,
            initial_advertise_peer_urls=peer,
            initial_cluster=f"default={peer}",
            cert_file=certificate,
            key_file=key,
            trusted_ca_file=trust,
            client_cert_auth=True,
            peer_cert_file=certificate,
            peer_key_file=key,
            peer_trusted_ca_file=trust,
            peer_client_cert_auth=True,
            unsafe_no_fsync=True,
            quota_backend_bytes=4 << 30,
            log_level="warn",
        )
        return client

    def _start_api_server(self, etcd: str, tokens: tuple[Path, Path]) -> None:
        at = self.addresses
        hosts = (*NAMES, "127.0.0.1", at.server, at.first_service)
        certificate, key = self.authority.issue("apiserver", "kube-apiserver", hosts=hosts)
        etcd_certificate, etcd_key = self.authority.issue("etcd-client", "kube-apiserver")
        kubelet_certificate, kubelet_key = self.authority.issue("kubelet-client", "kube-apiserver", "system:masters")
        front = self._pki.Authority(self.folder / "pki", "front-proxy-ca")
        front_certificate, front_key = front.issue("front-proxy", "front-proxy-client")
        policy = self.folder / "audit-policy.json"
        policy.write_text(json.dumps(AUDIT_POLICY))
        self._run(
            "kube-apiserver",
            bind_address=at.server,
            advertise_address=at.server,
            # A loopback address is not a valid endpoint; without nodes, nothing uses the endpoint.
            endpoint_reconciler_type="lease" if at.has_nodes else "none",
            secure_port=self.url.rpartition(":")[2],
            etcd_servers=etcd,
            etcd_cafile=self.authority.certificate,
            etcd_certfile=etcd_certificate,
            etcd_keyfile=etcd_key,
            tls_cert_file=certificate,
            tls_private_key_file=key,
            client_ca_file=self.authority.certificate,
            service_account_issuer="https://kubernetes.default.svc.cluster.local",
            service_account_signing_key_file=tokens[0],
            service_account_key_file=tokens[1],
            service_cluster_ip_range=at.services,
            authorization_mode="Node,RBAC",
            enable_admission_plugins="NodeRestriction",
            allow_privileged=True,
            kubelet_client_certificate=kubelet_certificate,
            kubelet_client_key=kubelet_key,
            kubelet_preferred_address_types="InternalIP",
            # No kube-proxy runs next to the API server, so it must call webhooks at the address of their pod.
            enable_aggregator_routing=True,
            requestheader_client_ca_file=front.certificate,
            requestheader_allowed_names="front-proxy-client",
            requestheader_username_headers="X-Remote-User",
            requestheader_group_headers="X-Remote-Group",
            requestheader_extra_headers_prefix="X-Remote-Extra-",
            proxy_client_cert_file=front_certificate,
            proxy_client_key_file=front_key,
            max_requests_inflight=2000,
            max_mutating_requests_inflight=1000,
            audit_policy_file=policy,
            audit_log_path=self.folder / "audit.log",
            audit_log_maxsize=10_000,
        )

    def _start_controllers(self, token_key: Path) -> None:
        self._run_client(
            "kube-controller-manager",
            service_account_private_key_file=token_key,
            root_ca_file=self.authority.certificate,
            cluster_signing_cert_file=self.authority.certificate,
            cluster_signing_key_file=self.authority.key,
            use_service_account_credentials=True,
            controllers="*" if self.addresses.has_nodes else f"*,-{POD_COLLECTOR}",
            kube_api_qps=500,
            kube_api_burst=1000,
        )

    def _start_scheduler(self) -> None:
        self._run_client("kube-scheduler", kube_api_qps=1000, kube_api_burst=2000)

    def _run_client(self, name: str, **flags: object) -> None:
        config = self.kubeconfig(name.removeprefix("kube-"), f"system:{name}")
        configs = {f"{prefix}kubeconfig": config for prefix in ("", "authentication_", "authorization_")}
        self._run(name, leader_elect=False, secure_port=0, **configs, **flags)

    def _run(self, name: str, **flags: object) -> None:
        self.folder.start(name, [self.programs[name], *arguments(flags)])

    def _wait(self, name: str, ready: Callable[[], bool], patience: float = 180) -> None:
        deadline = time.monotonic() + patience
        while not ready():
            ended = [one.name for one in self.folder.started() if not one.alive()]
            if ended or time.monotonic() > deadline:
                culprit = ended[0] if ended else name
                what = "has exited" if ended else f"is not ready after {patience:.0f} s"
                raise Refused(f"{culprit} {what}; its log ends with:\n{tail(self.folder.logs / f'{culprit}.log')}")
            time.sleep(0.1)


_DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"


def ask(folder: Folder, path: str) -> bytes:
    """Return the API server's answer to the administrator; empty if there is none."""
    server = json.loads((folder / "kubeconfig").read_text())["clusters"][0]["cluster"]["server"]
    context = ssl.create_default_context(cafile=str(folder / "pki/ca.crt"))
    context.load_cert_chain(folder / "pki/kubeconfig.crt", folder / "pki/kubeconfig.key")
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with direct.open(server + path, timeout=5) as answer:
            return bytes(answer.read())
    except OSError:
        return b""


def arguments(flags: dict[str, object]) -> list[str]:
    """Return command line flags as these programs expect them: `data_dir="x"` becomes `--data-dir=x`."""
    return [
        f"--{name.replace('_', '-')}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in flags.items()
    ]


def free_port(address: str = "127.0.0.1") -> int:
    """Return a free port outside the range that the kernel assigns to clients."""
    for port in random.sample(range(20000, 32000), 200):
        with socket.socket() as probe:
            try:
                probe.bind((address, port))
            except OSError:
                continue
            return port
    raise Refused(f"no free port on {address} between 20000 and 32000")
