"""The settings of an operator process, and its names in a cluster.

Names and defaults are those of training-operator where it has the setting.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from tfjob.api.crd.tfjob import OWNER_LABEL
from tfjob.durations import USUAL, Durations
from tfjob.plan.build.settings import TENSORBOARD_IMAGE, Settings

LEASE_NAME = "tf-operator"
CONFIG_MAP = "tf-job-operator-config"
"""The operator's configuration, in its own namespace."""
CONFIG_KEY = "controller_config_file.yaml"
"""The key in that ConfigMap, as documented."""
NAME = "tf-job-operator"
"""Deployment, Service, ServiceAccount, roles and webhook configuration."""
NAMESPACE = "tf-job-operator"
"""The default namespace of the operator."""
WEBHOOK = "validate.tfjobs.kubeflow.org"
"""The one entry of the webhook configuration."""
WEBHOOK_PATH, CONVERSION_PATH = "/validate", "/convert"
METRICS_PORT, HEALTH_PORT, WEBHOOK_PORT = 8080, 8081, 9443
MAKE_CRDS = "tfjob operator manifests --crd-only --namespace-only | kubectl apply -f -"
"""The CRDs for an operator that converts nothing."""


@dataclass(frozen=True)
class Address:
    """Where a server listens; port 0 means that it is off."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read `:8080`, `127.0.0.1:8080`, `[::1]:8080`, or `0` for off. Raises ValueError."""
        if text == "0":
            return cls("", 0)
        host, separator, port = text.rpartition(":")
        if not separator or not port.isdecimal() or not 0 < int(port) < 2**16:
            raise ValueError(f"{text!r} is no address: write HOST:PORT, :PORT, or 0 for off")
        return cls(host.strip("[]"), int(port))

    @property
    def host_names(self) -> tuple[str, ...]:
        """The names by which local callers reach it; none if it listens at every address."""
        return () if self.host in ("", "0.0.0.0", "::") else (self.host,)  # noqa: S104 (what a user may write)

    def __str__(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


@dataclass(frozen=True)
class Options:
    """How one operator process works."""

    namespace: str = ""
    groups: tuple[str, ...] = ()
    """Of jobs to look after; none means those that the cluster has."""
    workers: int = 8
    leader_elect: bool = False
    lease_namespace: str = ""
    identity: str = ""
    metrics: Address = Address("", 8080)
    health: Address = Address("", 8081)
    webhook: Address = Address("", 0)
    gang_scheduler: str = ""
    tensorboard_image: str = TENSORBOARD_IMAGE
    cluster_domain: str = ""
    pending_grace: timedelta = timedelta(minutes=5)
    last_lines: bool = True
    config_map: str = CONFIG_MAP
    config_key: str = CONFIG_KEY
    config_file: str = ""
    tf_image: str = ""
    durations: Durations = USUAL

    @property
    def settings(self) -> Settings:
        return Settings(
            cluster_domain=self.cluster_domain,
            pending_grace=self.pending_grace,
            last_lines=self.last_lines,
            gang_scheduler=self.gang_scheduler,
            tf_image=self.tf_image,
            tensorboard_image=self.tensorboard_image,
            durations=self.durations,
        )


def labels() -> dict[str, str]:
    key, value = OWNER_LABEL
    return {"app.kubernetes.io/name": NAME, key: value}


def host_names(namespace: str) -> list[str]:
    """Return the names by which the API server calls the webhook's Service."""
    return [f"{NAME}.{namespace}.svc", f"{NAME}.{namespace}.svc.cluster.local", f"{NAME}.{namespace}"]
