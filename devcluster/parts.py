"""The programs that are built from Go modules."""

from __future__ import annotations

from dataclasses import dataclass

from devcluster import versions

_STAMP = "k8s.io/component-base/version"
_MAJOR, _MINOR, _ = versions.KUBERNETES.split(".")


@dataclass(frozen=True)
class Part:
    """A program: a package of a Go module, or our own source in `go/` that uses the module."""

    name: str
    version: str
    module: str = ""
    package: str = ""
    """The command inside the module; empty for our own source."""
    links: tuple[str, ...] = ()
    """Link names under which the program acts as another command."""
    stamps: tuple[str, ...] = ()
    """Go variables that the linker sets."""
    staging: str = ""
    """The version of the modules that this module replaces with folders of its repository."""
    unlisted: bool = False
    """Whether the checksum database lacks a module that it needs."""
    duration: str = "about a minute"
    """How long the first build takes on two cores."""


KUBE = Part(
    name="kube",
    version=versions.KUBERNETES,
    module="k8s.io/kubernetes",
    links=("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl"),
    # A kubelet without a version reports v0.0.0, which the API server's skew checks reject.
    stamps=(
        f"{_STAMP}.gitVersion=v{versions.KUBERNETES}",
        f"{_STAMP}.gitMajor={_MAJOR}",
        f"{_STAMP}.gitMinor={_MINOR}",
    ),
    staging=f"0.{_MINOR}.{versions.KUBERNETES.rpartition('.')[2]}",
    duration="6 to 10 minutes",
)
ETCD = Part("etcd", versions.ETCD, "go.etcd.io/etcd/server/v3", package="go.etcd.io/etcd/server/v3")
COREDNS = Part("coredns", versions.COREDNS, "github.com/coredns/coredns", duration="1 to 2 minutes")
PAUSE = Part("pause", versions.PAUSE, duration="seconds")

HELM = Part(
    name="helm",
    version=versions.HELM,
    module="helm.sh/helm/v3",
    package="helm.sh/helm/v3/cmd/helm",
    # A helm without a Kubernetes version renders for v1.20, which current charts reject.
    stamps=(
        f"helm.sh/helm/v3/internal/version.version=v{versions.HELM}",
        f"helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor={_MAJOR}",
        f"helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor={_MINOR}",
        f"helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor={_MAJOR}",
        f"helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor={_MINOR}",
    ),
    duration="1 to 2 minutes",
)
KWOK = Part("kwok", versions.KWOK, "sigs.k8s.io/kwok", package="sigs.k8s.io/kwok/cmd/kwok")
COSCHEDULING = Part(
    name="coscheduling",
    version=versions.SCHEDULER_PLUGINS,
    module="sigs.k8s.io/scheduler-plugins",
    package="sigs.k8s.io/scheduler-plugins/cmd/scheduler",
    unlisted=True,
    duration="about 2 minutes",
)
KUEUE = Part(
    name="kueue",
    version=versions.KUEUE,
    module="sigs.k8s.io/kueue",
    package="sigs.k8s.io/kueue/cmd/kueue",
    duration="about 3 minutes",
)
TRAINING_OPERATOR = Part(
    name="training-operator",
    version=versions.TRAINING_OPERATOR,
    module="github.com/kubeflow/training-operator",
    package="github.com/kubeflow/training-operator/cmd/training-operator.v1",
    duration="about 2 minutes",
)
S3_SERVER = Part(
    name="gofakes3",
    version=versions.S3_SERVER,
    module="github.com/johannesboyne/gofakes3",
    package="github.com/johannesboyne/gofakes3/cmd/gofakes3",
)
GCS_SERVER = Part(
    name="fake-gcs-server",
    version=versions.GCS_SERVER,
    module="github.com/fsouza/fake-gcs-server",
    package="github.com/fsouza/fake-gcs-server",
    duration="about 2 minutes",
)
OBJECT_STORES = (S3_SERVER, GCS_SERVER)
"""Servers for the protocols of S3 and Google Cloud Storage."""
GRPCURL = Part(
    name="grpcurl",
    version=versions.GRPCURL,
    module="github.com/fullstorydev/grpcurl",
    package="github.com/fullstorydev/grpcurl/cmd/grpcurl",
)

CONTROL_PLANE = (KUBE, ETCD)
NODE = (*CONTROL_PLANE, COREDNS, PAUSE)
ALL = {part.name: part for part in (*NODE, HELM, KWOK, COSCHEDULING, KUEUE, TRAINING_OPERATOR, *OBJECT_STORES, GRPCURL)}
