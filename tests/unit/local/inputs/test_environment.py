"""The environment of a container, case by case as a cluster would make it."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from support.golden import Wording
from tfjob.api.objects import ObjectMeta, Pod, PodStatus
from tfjob.local.inputs import environment
from tfjob.local.inputs.references import MissingReference, Node, References
from tfjob.local.state.errors import Refusal

CONFIG_MAPS: dict[str, Any] = {
    "settings": {
        "data": {"epochs": "3", "lr": "0.1", "with=sign": "skipped", "with\0end": "skipped"},
        "binaryData": {"blob": "/w=="},
    }
}
SECRETS: dict[str, Any] = {
    "login": {
        "data": {"user": base64.b64encode(b"ada").decode(), "raw": base64.b64encode(b"\xff").decode()},
        "stringData": {"password": "s3cret"},
    }
}
NODE = Node("laptop", "192.0.2.1", cpus=8, memory=16 * 1024**3)
POD = Pod(
    metadata=ObjectMeta(
        name="mnist-worker-0",
        namespace="team",
        uid="u-1",
        labels={"replica-type": "worker"},
        annotations={"note": 'a "b"', "odd": "a\0b"},
    ),
    spec={"containers": []},
    status=PodStatus(pod_ip="127.77.0.9"),
)


def resolved(container: dict[str, Any], environ: dict[str, str] | None = None) -> environment.Environment:
    return environment.resolve(
        container,
        POD,
        references=References(CONFIG_MAPS.get, SECRETS.get),
        node=NODE,
        environ=environ or {},
        path_prefix=[Path("/venv/bin")],
        image={"FROM_IMAGE": "1", "PYTHONUNBUFFERED": "0"},
    )


def declared(*env: dict[str, Any], env_from: list[dict[str, Any]] | None = None, **rest: Any) -> dict[str, str]:
    return dict(resolved({"name": "tensorflow", "env": list(env), "envFrom": env_from, **rest}).declared)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)z", "x1y2z"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$$$(A)", "$$(A)"),
        ("$$$$$$$(A)", "$$$1"),
        ("$(MISSING)", "$(MISSING)"),
        ("$(A", "$(A"),
        ("$A ${A}", "$A ${A}"),
        ("$", "$"),
        ("$$", "$"),
        ("$$$", "$$"),
        ("$()", "$()"),
        ("$(A$(B))", "$(A$(B))"),
        ("a$b$(A)", "a$b1"),
        ("", ""),
    ],
)
def test_references_expand_as_kubernetes_expands_them(text: str, expected: str) -> None:
    assert environment.expand(text, {"A": "1", "B": "2"}) == expected


def test_only_the_documented_variables_come_from_the_host() -> None:
    host = {
        "PATH": "/usr/bin",
        "HOME": "/home/ada",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "TMPDIR": "/var/tmp",
        "https_proxy": "http://proxy.example:3128",
        "NO_PROXY": "localhost",
        "CUDA_VISIBLE_DEVICES": "0",
        "NVIDIA_DRIVER_CAPABILITIES": "all",
        "AWS_SECRET_ACCESS_KEY": "no",
        "PYTHONPATH": "/no",
        "TF_CONFIG": "no",
    }
    kept = {
        key: value for key, value in host.items() if key not in ("AWS_SECRET_ACCESS_KEY", "PYTHONPATH", "TF_CONFIG")
    }
    assert environment.from_host(host, [Path("/links"), Path("/venv/bin")]) == {
        **kept,
        "PATH": "/links:/venv/bin:/usr/bin",
        "PYTHONUNBUFFERED": "1",
    }


def test_the_manifest_stands_over_the_image_and_the_image_over_the_host() -> None:
    made = resolved({"env": [{"name": "HOME", "value": "/root"}]}, {"HOME": "/home/ada"}).variables()
    assert (made["HOME"], made["FROM_IMAGE"], made["PYTHONUNBUFFERED"]) == ("/root", "1", "0")
    assert made["HOSTNAME"] == "mnist-worker-0"


def test_a_reference_sees_what_was_declared_before_it_and_nothing_of_the_host() -> None:
    env = [{"name": name, "value": value} for name, value in (("B", "$(A)"), ("A", "1"), ("C", "$(A)-$(HOME)"))]
    assert declared(*env) == {"B": "$(A)", "A": "1", "C": "1-$(HOME)"}


def test_env_from_comes_first_with_its_prefix_and_env_overrides_it() -> None:
    made = declared(
        {"name": "P_lr", "value": "$(P_epochs)0"},
        env_from=[
            {"configMapRef": {"name": "missing", "optional": True}},
            {"prefix": "P_", "configMapRef": {"name": "settings"}},
        ],
    )
    assert made == {"P_epochs": "3", "P_lr": "30"}


def test_a_variable_may_come_from_a_key_of_a_config_map_or_secret() -> None:
    made = declared(
        {"name": "E", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "epochs"}}},
        {"name": "U", "valueFrom": {"secretKeyRef": {"name": "login", "key": "user"}}},
        {"name": "O", "valueFrom": {"secretKeyRef": {"name": "login", "key": "none", "optional": True}}},
        {"name": "M", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "x", "optional": True}}},
    )
    assert made == {"E": "3", "U": "ada"}


def test_what_a_secret_reached_is_marked_and_not_shown() -> None:
    made = resolved(
        {
            "env": [
                {"name": "PW", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}},
                {"name": "URL", "value": "db://ada:$(PW)@host"},
                {"name": "OPEN", "value": "$$(PW)"},
            ]
        }
    )
    assert made.secret == {"PW", "URL"}
    assert made.variables()["URL"] == "db://ada:s3cret@host"
    assert "s3cret" not in str(made.shown())
    assert made.shown()["OPEN"] == "$(PW)"


@pytest.mark.parametrize(
    ("origin", "keyword"),
    [
        ({"configMapKeyRef": {"name": "none", "key": "x"}}, "ConfigMap 'none'"),
        ({"secretKeyRef": {"name": "login", "key": "x"}}, "Secret 'login'"),
    ],
)
def test_a_missing_reference_is_named(origin: dict[str, Any], keyword: str, wording: Wording) -> None:
    with pytest.raises(MissingReference) as caught:
        declared({"name": "X", "valueFrom": origin})
    assert keyword in caught.value.message
    wording(caught.value.message)


def test_a_missing_source_of_env_from_is_named(wording: Wording) -> None:
    with pytest.raises(MissingReference, match="Secret 'none'") as caught:
        declared(env_from=[{"secretRef": {"name": "none"}}])
    wording(caught.value.message)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "mnist-worker-0"),
        ("metadata.namespace", "team"),
        ("metadata.uid", "u-1"),
        ("metadata.labels['replica-type']", "worker"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['note']", 'a "b"'),
        ("spec.nodeName", "laptop"),
        ("spec.serviceAccountName", "default"),
        ("status.podIP", "127.77.0.9"),
        ("status.hostIP", "192.0.2.1"),
    ],
)
def test_a_field_of_the_pod_becomes_a_variable(path: str, expected: str) -> None:
    assert declared({"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}) == {"X": expected}


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ({"resource": "limits.cpu"}, "2"),
        ({"resource": "limits.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "requests.cpu", "divisor": "0"}, "1"),
        ({"resource": "limits.memory", "divisor": "1Mi"}, str(16 * 1024)),
        ({"resource": "requests.memory", "divisor": "1Mi"}, "100"),
    ],
)
def test_a_resource_becomes_a_whole_number_of_its_divisor(reference: dict[str, str], expected: str) -> None:
    resources = {"limits": {"cpu": "1500m"}, "requests": {"cpu": 1, "memory": "100Mi"}}
    made = declared({"name": "X", "valueFrom": {"resourceFieldRef": reference}}, resources=resources)
    assert made == {"X": expected}


@pytest.mark.parametrize(
    "origin",
    [
        {"fieldRef": {"fieldPath": "spec.none"}},
        {"fieldRef": {"fieldPath": "metadata.labels"}},
        {"fieldRef": {"fieldPath": "metadata.annotations['odd']"}},
        {"resourceFieldRef": {"resource": "limits.cpus"}},
        {"resourceFieldRef": {"resource": "limits.cpu", "containerName": "other"}},
        {"secretKeyRef": {"name": "login", "key": "raw"}},
        {"fileKeyRef": {"key": "x"}},
    ],
)
def test_what_cannot_become_a_variable_is_refused(origin: dict[str, Any]) -> None:
    with pytest.raises(Refusal):
        declared({"name": "X", "valueFrom": origin})
