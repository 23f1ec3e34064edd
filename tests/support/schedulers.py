"""Schedulers of others on a cluster of the tests: built from their Go modules, run with the manifests in them."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from devcluster import build, parts
from devcluster.client import Client
from devcluster.images import BUSYBOX
from devcluster.parts import Part
from devcluster.pki import Authority

Object = dict[str, Any]
SCHEDULER = "scheduler-plugins-scheduler"
KUEUE, SYSTEM = "kueue-webhook-service", "kueue-system"
ACCOUNT = f"system:serviceaccount:{SYSTEM}:default"
PATIENCE = 180.0


@contextmanager
def coscheduling(client: Client, folder: Path) -> Iterator[None]:
    """The coscheduling scheduler of scheduler-plugins beside the cluster's own, as a process of this machine."""
    client.apply(*documents(parts.COSCHEDULING, "manifests/coscheduling/crd.yaml"))
    plugins = {
        "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
        "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
    }
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(client.kubeconfig)},
        "profiles": [{"schedulerName": SCHEDULER, "plugins": plugins}],
    }
    (folder / "scheduler.json").write_text(json.dumps(config))
    program = build.binaries(parts.COSCHEDULING) / "coscheduling"
    log = folder / "scheduler.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [str(program), f"--config={folder / 'scheduler.json'}", "--secure-port=0"],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
        assert process.poll() is None, log.read_text()[-4000:]
    finally:
        process.kill()
        process.wait()


def run_kueue(client: Client, folder: Path) -> None:
    """Kueue with its webhooks, in a pod, from its own manifests."""
    client.kubectl("create", "namespace", SYSTEM)
    bases = build.module(parts.KUEUE) / "config" / "components" / "crd" / "bases"
    # Some of them are longer than the annotation that a plain `apply` would write.
    client.kubectl("apply", "--server-side", "-f", str(bases), timeout=PATIENCE)
    authority = Authority(folder / "pki")
    certificate, key = authority.issue("kueue", "kueue", hosts=[f"{KUEUE}.{SYSTEM}.svc"])
    client.kubectl("create", "secret", "tls", "certificates", "-n", SYSTEM, f"--cert={certificate}", f"--key={key}")
    client.kubectl("create", "clusterrolebinding", "kueue", "--clusterrole=cluster-admin", f"--user={ACCOUNT}")
    client.apply(*kueue_objects(build.binaries(parts.KUEUE)), namespace=SYSTEM)
    client.kubectl("wait", "pod/kueue", "-n", SYSTEM, "--for=condition=Ready", "--timeout=170s", timeout=PATIENCE)
    client.apply(*kueue_webhooks(base64.b64encode(authority.certificate.read_bytes()).decode()))


def kueue_objects(programs: Path) -> list[Object]:
    config = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta1",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"port": 9443},
        "internalCertManagement": {"enable": False},
        "featureGates": {"VisibilityOnDemand": False},
        "integrations": {"frameworks": ["kubeflow.org/tfjob"]},
    }
    mounts = {"config": "/config", "programs": str(programs), "metrics": "/etc/kueue/metrics/certs"}
    mounts["webhooks"] = "/tmp/k8s-webhook-server/serving-certs"
    secret = {"secret": {"secretName": "certificates"}}
    container = {
        "name": "kueue",
        "image": BUSYBOX,
        "imagePullPolicy": "IfNotPresent",
        "command": [str(programs / "kueue"), "--config=/config/kueue.json", "--zap-log-level=2"],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8081}, "periodSeconds": 2},
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in mounts.items()],
    }
    volumes = [
        {"name": "config", "configMap": {"name": "kueue"}},
        {"name": "programs", "hostPath": {"path": str(programs)}},
        {"name": "metrics", **secret},
        {"name": "webhooks", **secret},
    ]
    labels = {"app": "kueue"}
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kueue"},
            "data": {"kueue.json": json.dumps(config)},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": KUEUE},
            "spec": {"selector": labels, "ports": [{"port": 443, "targetPort": 9443}]},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "kueue", "labels": labels},
            "spec": {"containers": [container], "volumes": volumes},
        },
    ]


def kueue_webhooks(authority: str) -> list[Object]:
    """Those of its own kinds and of TFJob; the others would judge jobs and pods of everybody."""
    found = documents(parts.KUEUE, "config/components/webhook/manifests.yaml")
    for one in found:
        one["metadata"]["name"] = f"kueue-{one['metadata']['name']}"
        one["webhooks"] = [hook for hook in one["webhooks"] if concerns_us(hook)]
        for hook in one["webhooks"]:
            hook["clientConfig"]["caBundle"] = authority
            hook["clientConfig"]["service"] |= {"name": KUEUE, "namespace": SYSTEM}
    return found


def concerns_us(hook: Object) -> bool:
    return all("tfjobs" in rule["resources"] or "kueue.x-k8s.io" in rule["apiGroups"] for rule in hook["rules"])


def documents(part: Part, path: str) -> list[Object]:
    """A manifest that comes with a part."""
    return [one for one in yaml.safe_load_all((build.module(part) / path).read_text()) if one]
