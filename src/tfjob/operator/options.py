"""The options of an operator process and of an installation, and the operator's names in a cluster.

Settings that training-operator also has use its names and defaults. The command line is built from the fields that are
an `option`. `--help` loads this module, so it imports little.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tfjob.durations import USUAL, Durations

if TYPE_CHECKING:
    from tfjob.operator.api_versions import ApiVersions
    from tfjob.plan.build.settings import Settings as PlanSettings

LEASE_NAME = "tf-operator"
CONFIG_MAP = "tf-job-operator-config"
"""The ConfigMap with the operator's configuration, in its namespace."""
CONFIG_KEY = "controller_config_file.yaml"
"""The documented key in that ConfigMap."""
NAME = "tf-job-operator"
"""The name of the Deployment, Service, ServiceAccount, roles and webhook configuration."""
NAMESPACE = "tf-job-operator"
"""The default namespace of the operator."""
WEBHOOK = "validate.tfjobs.kubeflow.org"
"""The only entry of the webhook configuration."""
WEBHOOK_PATH, CONVERSION_PATH = "/validate", "/convert"
METRICS_PORT, HEALTH_PORT, WEBHOOK_PORT = 8080, 8081, 9443
MAKE_CRDS = "tfjob operator manifests --crd-only --namespace-only | kubectl apply -f -"
"""The command that applies the CRDs for an operator that does not convert versions."""
OPTION = "option"
GANG_SCHEDULER = "Scheduler that starts all pods of a job together: volcano, or one with the coscheduling plugin."
PULL_POLICIES = ("IfNotPresent", "Always", "Never")


def option(text: str, default: Any, metavar: str | None = None, names: tuple[str, ...] = (), **more: Any) -> Any:
    """Return a dataclass field that is also a command-line option; `default` may be a factory.

    `names` are further names of the option. `more` are click's settings of the option, and `parse`, a function from a
    string to the value that may raise ValueError.
    """
    described = {OPTION: {"help": text, "metavar": metavar, "names": names, **more}}
    if callable(default):
        return field(default_factory=default, metadata=described)
    return field(default=default, metadata=described)


@dataclass(frozen=True)
class Address:
    """The address of a server; port 0 turns it off."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read `:8080`, `127.0.0.1:8080`, `[::1]:8080`, or `0` for off. Raises ValueError."""
        if text == "0":
            return cls("", 0)
        host, separator, port = text.rpartition(":")
        if not separator or not port.isdecimal() or not 0 < int(port) < 2**16:
            raise ValueError(f"invalid address {text!r}: use HOST:PORT, :PORT, or 0 to turn the server off")
        return cls(host.strip("[]"), int(port))

    @property
    def host_names(self) -> tuple[str, ...]:
        """The host names for the certificate; none if the server listens on every interface."""
        return () if self.host in ("", "0.0.0.0", "::") else (self.host,)  # noqa: S104 (what a user may write)

    def __str__(self) -> str:
        if not self.port:
            return "0"
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def _address(text: str, port: int) -> Any:
    """Return the option of an address; its default is every interface in a pod, the loopback interface elsewhere."""
    return option(
        f"{text} Default: 127.0.0.1:{port}, in a pod :{port}.",
        lambda: Address("" if os.environ.get("KUBERNETES_SERVICE_HOST") else "127.0.0.1", port),
        "ADDRESS",
        parse=Address.parse,
        show_default=False,
    )


def _groups(text: str) -> tuple[str, ...]:
    from tfjob.api.dialect import JOB_KINDS

    known, given = [one.group for one in JOB_KINDS.values()], [word.strip() for word in text.split(",") if text]
    for name in given:
        if name not in known:
            raise ValueError(f"unknown API group {name!r}: use {', '.join(known)}")
    return tuple(given)


@dataclass(frozen=True)
class Options:
    """The options of one operator process."""

    namespace: str = option(
        "Manage jobs in this namespace only; a Role is then enough.", "", "NAME", ("-n",), envvar="KUBEFLOW_NAMESPACE"
    )
    api_groups: tuple[str, ...] = option(
        "API groups to manage: kubeflow.org, tensorflow.org (default: those that the cluster serves).",
        (),
        "LIST",
        parse=_groups,
    )
    workers: int = option(
        "Number of jobs to reconcile at the same time.", 8, names=("--controller-threads",), range=(1, 64)
    )
    leader_elect: bool = option("Manage jobs only while this process holds the Lease tf-operator.", False)
    lease_namespace: str = option(
        "Namespace of the Lease (default: the operator's namespace).", "", "NAME", envvar="POD_NAMESPACE"
    )
    metrics_bind_address: Address = _address("Address of /metrics; 0 turns it off.", METRICS_PORT)
    health_probe_bind_address: Address = _address("Address of /healthz and /readyz; 0 turns them off.", HEALTH_PORT)
    webhook_bind_address: Address = option(
        "Address of the admission and conversion webhooks; 0 turns them off.",
        Address("", 0),
        "ADDRESS",
        parse=Address.parse,
    )
    gang_scheduler_name: str = option(GANG_SCHEDULER, "", "NAME")
    tensorboard_image: str = option(
        "TensorBoard image for jobs that name none; default: localhost/tf-job-tensorboard.", "", "IMAGE"
    )
    cluster_domain: str = option(
        "Domain to append to the hosts in TF_CONFIG.", "", "DOMAIN", envvar="CUSTOM_CLUSTER_DOMAIN"
    )
    pending_grace: timedelta = option(
        "Fail a job if a Secret, an image or the like is still missing after this time.", timedelta(minutes=5), "AGE"
    )
    last_lines: bool = option("Keep the last log lines of a failed replica in the status.", True)
    tf_image: str = option("Image for a PS without a template, which runs a standard TensorFlow server.", "", "IMAGE")
    config_map: str = option(
        "ConfigMap in the operator's namespace with its configuration, such as accelerators.", CONFIG_MAP, "NAME"
    )
    config_key: str = option(
        "Key to read in the ConfigMap. If the ConfigMap has only one key, the operator reads that one.",
        CONFIG_KEY,
        "KEY",
    )
    controller_config_file: str = option(
        "Read the configuration from this file instead of a ConfigMap.", "", "FILE", ("--controller_config_file",)
    )
    log_format: str = option("Log format.", "json", choices=("json", "text"))
    log_level: str = option("Lowest level to log.", "info", choices=("debug", "info", "warning", "error"))
    durations: Durations = USUAL

    @property
    def settings(self) -> PlanSettings:
        from tfjob.plan.build.settings import TENSORBOARD_IMAGE, Settings

        return Settings(
            cluster_domain=self.cluster_domain,
            pending_grace=self.pending_grace,
            last_lines=self.last_lines,
            gang_scheduler=self.gang_scheduler_name,
            tf_image=self.tf_image,
            tensorboard_image=self.tensorboard_image or TENSORBOARD_IMAGE,
            durations=self.durations,
        )


def _served() -> ApiVersions:
    from tfjob.operator.api_versions import ApiVersions

    return ApiVersions()


@dataclass(frozen=True)
class Settings:
    """The options of an installation; with `namespace_only` the operator has no webhook, and so no older versions."""

    image: str = option("Operator image; build and push one first, because no release publishes it yet.", "", "IMAGE")
    namespace: str = option("Namespace of the operator.", NAMESPACE, "NAME", ("-n",))
    namespace_only: bool = option(
        "Manage jobs in that namespace only; install a Role instead of a ClusterRole, no webhook, and no CRDs.", False
    )
    api_versions: ApiVersions = field(default_factory=_served)
    replicas: int = option("Number of operator pods; one leads, the others are on standby.", 1, range=(1, 5))
    pull_policy: str = option("When to pull the image.", "IfNotPresent", choices=PULL_POLICIES)
    pull_secret: str = option("Secret for pulling the image.", "", "NAME")
    gang_scheduler_name: str = option(GANG_SCHEDULER, "", "NAME")
    tensorboard_image: str = option(
        "TensorBoard image. Default: tf-job-tensorboard, with the same registry and tag as --image.", "", "IMAGE"
    )


@dataclass(frozen=True)
class SelfTestOptions:
    """The options of a self-test."""

    image: str = option("Operator image.", "", "IMAGE", required=True)
    test_image: str = option(
        "Image with TensorFlow, for a job that trains. Without it, the replicas use the operator's image and only "
        "connect to each other.",
        "",
        "IMAGE",
    )
    tf_image: str = option(
        "Image of the parameter server (with --test-image only; default: the same image).", "", "IMAGE"
    )
    api_version: str | None = option(
        "API version of the job; default: tensorflow.org/v1alpha1 if the cluster serves it.",
        None,
        choices=("kubeflow.org/v1", "tensorflow.org/v1alpha1"),
    )
    namespace: str = option("Namespace of the job; default: that of the context or pod.", "", "NAME", ("-n",))
    pull_policy: str = option("When to pull the images.", "IfNotPresent", choices=PULL_POLICIES)
    pull_secret: str = option("Secret to pull the images with.", "", "NAME")
    timeout: timedelta = option(
        "Time limit for the job, including the pull of its images.", timedelta(minutes=3), "DURATION"
    )


def labels() -> dict[str, str]:
    from tfjob.api.crd.tfjob import OWNER_LABEL

    key, value = OWNER_LABEL
    return {"app.kubernetes.io/name": NAME, key: value}


def host_names(namespace: str) -> list[str]:
    """Return the host names by which the API server calls the webhook's Service."""
    return [f"{NAME}.{namespace}.svc", f"{NAME}.{namespace}.svc.cluster.local", f"{NAME}.{namespace}"]
