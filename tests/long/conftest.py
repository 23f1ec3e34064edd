"""A Kubernetes of a module's own."""

from __future__ import annotations

from support.own_clusters import own_cluster as own_cluster
