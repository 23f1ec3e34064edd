from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from support.golden import Wording
from support.kube.kube_files import b64, kubeconfig
from tfjob.kube.access import config
from tfjob.kube.access.config import Access, proxy_for
from tfjob.kube.access.credentials import REREAD_SECONDS, TokenFile
from tfjob.kube.access.errors import ConfigError
from tfjob.kube.access.tls import Certificate, Trust


def load(*files: Path, context: str | None = None, **environ: str) -> Access:
    return config.load(context, {"KUBECONFIG": ":".join(map(str, files)), **environ}, Path("/nonexistent"))


BOMB = "a0: &a0 x\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))


def refused(*files: Path, context: str | None = None) -> str:
    with pytest.raises(ConfigError) as error:
        load(*files, context=context)
    return str(error.value)


def test_the_current_context_selects_server_user_and_namespace(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path / "config", user={"token": "secret"}, context={"namespace": "team"})
    access = load(file)
    assert (access.server, access.namespace, access.context) == ("https://api.example:6443", "team", "lab")
    assert access.credential.header() == "Bearer secret"
    assert "secret" not in repr(access)


def test_without_KUBECONFIG_the_file_in_the_home_folder_is_used(tmp_path: Path) -> None:  # noqa: N802
    kubeconfig(tmp_path / ".kube" / "config")
    access = config.load(None, {"HOME": str(tmp_path)}, Path("/nonexistent"))
    assert (access.namespace, access.context) == ("default", "lab")


def test_the_first_file_that_sets_a_value_wins(tmp_path: Path) -> None:
    first = kubeconfig(tmp_path / "1", name="a", cluster={"server": "https://first"}, current="")
    second = kubeconfig(tmp_path / "2", name="a", cluster={"server": "https://second"}, current="b")
    third = kubeconfig(tmp_path / "3", name="b", cluster={"server": "https://third"}, current="a")
    missing = tmp_path / "missing"
    assert load(first, missing, second, third).server == "https://third"
    assert load(first, missing, second, third, context="a").server == "https://first"


def test_a_context_may_use_a_user_of_another_file(tmp_path: Path) -> None:
    one = kubeconfig(tmp_path / "1", context={"user": "other"})
    other = kubeconfig(tmp_path / "2", name="other", user={"token": "t"})
    assert load(one, other).credential.header() == "Bearer t"


def test_paths_start_at_the_folder_of_their_file(tmp_path: Path) -> None:
    file = kubeconfig(
        tmp_path / "sub" / "config",
        cluster={"certificate-authority": "pki/ca.crt"},
        user={"client-certificate": "pki/me.crt", "client-key": str(tmp_path / "me.key")},
    )
    (tmp_path / "sub" / "pki").mkdir()
    (tmp_path / "sub" / "pki" / "me.crt").write_text("chain")
    (tmp_path / "me.key").write_text("key")
    access = load(file)
    assert access.trust.authority_file == str(tmp_path / "sub" / "pki" / "ca.crt")
    assert access.credential.certificate() == Certificate(b"chain", b"key")


def test_data_wins_over_a_file(tmp_path: Path) -> None:
    file = kubeconfig(
        tmp_path / "config",
        cluster={"certificate-authority": "no-file", "certificate-authority-data": b64(b"ca")},
        user={
            "client-certificate-data": b64(b"chain"),
            "client-certificate": "no-file",
            "client-key-data": b64(b"key"),
        },
    )
    access = load(file)
    assert access.trust.authority == b"ca"
    assert access.credential.certificate() == Certificate(b"chain", b"key")


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({}, ""),
        ({"token": "t"}, "Bearer t"),
        ({"username": "u", "password": "p:q"}, f"Basic {base64.b64encode(b'u:p:q').decode()}"),
        ({"username": "u", "password": "p", "token": "t"}, "Bearer t"),
        ({"token": "t", "exec": {"command": "never-run", "apiVersion": "client.authentication.k8s.io/v1"}}, "Bearer t"),
    ],
)
def test_the_header_of_a_user(tmp_path: Path, user: dict[str, Any], header: str) -> None:
    assert load(kubeconfig(tmp_path / "config", user=user)).credential.header() == header


def test_settings_of_a_cluster(tmp_path: Path) -> None:
    cluster = {
        "server": "https://10.0.0.1:6443/k8s/clusters/c-1/",
        "tls-server-name": "kubernetes",
        "insecure-skip-tls-verify": True,
        "proxy-url": "http://proxy:3128",
    }
    access = load(kubeconfig(tmp_path / "config", cluster=cluster))
    assert access.server == "https://10.0.0.1:6443/k8s/clusters/c-1"
    assert access.trust == Trust(server_name="kubernetes", insecure=True)
    assert access.proxy == "http://proxy:3128"


def test_impersonation(tmp_path: Path) -> None:
    user = {"as": "jane", "as-uid": "7", "as-groups": ["dev", "ops"], "as-user-extra": {"example.com/x": ["1"]}}
    assert load(kubeconfig(tmp_path / "config", user=user)).impersonation == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Extra-example.com%2Fx", "1"),
    )


def test_names_may_look_like_numbers_and_values_may_be_null(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(
        "current-context: 2024\npreferences: {}\n"
        "contexts: [{name: 2024, context: {cluster: yes, user: 1.5, namespace: null}}]\n"
        "clusters: [{name: yes, cluster: {server: 'http://h', insecure-skip-tls-verify: true}}]\n"
        "users: [{name: 1.5, user: {token: 0123, exec: null}}, {name: unused, user: null}]\n"
    )
    access = load(file)
    assert (access.context, access.namespace, access.credential.header()) == ("2024", "default", "Bearer 0123")


def test_errors_name_the_file_and_the_problem(tmp_path: Path, wording: Wording) -> None:
    file = kubeconfig(tmp_path / "config")
    none = kubeconfig(tmp_path / "b", current="")
    absent, unknown, no_current = refused(tmp_path / "none"), refused(file, context="labb"), refused(none)
    assert str(tmp_path / "none") in absent
    assert "KUBECONFIG" in absent
    assert unknown.startswith(f"{file}: ")
    assert "labb" in unknown
    assert no_current.startswith(f"{none}: ")
    wording(absent, unknown, no_current)


@pytest.mark.parametrize(
    ("content", "place"),
    [
        pytest.param(b"a: [1\nb: 2", "line 2", id="no YAML"),
        pytest.param(b"contexts: text", "$.contexts", id="wrong type"),
        pytest.param(BOMB.encode(), "line 7", id="bomb of aliases"),
        pytest.param(b"users: &a\n- name: x\n  user: *a", "line 3", id="alias of itself"),
        pytest.param(b"a:\n  " + b"[" * 120 + b"]" * 120, "line 2", id="nested too deeply"),
        pytest.param(b"users: []\ncontexts: \xff", "line 2", id="no text"),
        pytest.param(b"just words", "line 1", id="no mapping"),
    ],
)
def test_a_file_that_is_not_a_kubeconfig_is_named_with_the_place(
    tmp_path: Path, content: bytes, place: str, wording: Wording
) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(content)
    message = refused(broken)
    assert message.startswith(str(broken))
    assert place in message
    wording(message)


def test_a_folder_is_not_a_kubeconfig(tmp_path: Path) -> None:
    assert refused(tmp_path) == f"cannot read the kubeconfig {tmp_path}: Is a directory"


@pytest.mark.parametrize(
    ("changes", "keyword"),
    [
        ({"cluster": {"server": "api.example"}}, "api.example"),
        (
            {"cluster": {"server": "https://me:hunter2@api.example"}},
            "cluster lab",
        ),
        ({"context": {"cluster": "nope"}}, "cluster 'nope'"),
        ({"context": {"user": "nope"}}, "user 'nope'"),
        ({"cluster": {"certificate-authority-data": "a"}}, "certificate-authority-data"),
        (
            {"user": {"client-certificate-data": b64(b"x")}},
            "user lab",
        ),
        ({"user": {"token": "a\nb"}}, "token"),
        ({"cluster": {"proxy-url": "socks5://proxy:1080"}}, "socks5://proxy"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "gcp"),
        (
            {"user": {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}},
            "client.authentication.k8s.io/v1alpha1",
        ),
    ],
)
def test_unusable_values_are_named(tmp_path: Path, changes: dict[str, Any], keyword: str, wording: Wording) -> None:
    message = refused(kubeconfig(tmp_path / "config", **changes))
    assert keyword in message
    assert "hunter2" not in message
    wording(message)


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("one\n")
    (folder / "namespace").write_text("team")
    (folder / "ca.crt").write_text("pem")
    return folder


@pytest.mark.parametrize(
    ("host", "server"), [("10.96.0.1", "https://10.96.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_inside_a_pod_the_service_account_is_used(tmp_path: Path, pod: Path, host: str, server: str) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443", "HOME": str(tmp_path)}
    access = config.load(None, environ, pod)
    assert (access.server, access.namespace, access.context) == (server, "team", "")
    assert access.credential.header() == "Bearer one"
    assert access.trust == Trust(authority_file=str(pod / "ca.crt"))


def test_a_kubeconfig_wins_over_the_pod(tmp_path: Path, pod: Path) -> None:
    file = kubeconfig(tmp_path / "config")
    environ = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBECONFIG": str(file)}
    assert config.load(None, environ, pod).context == "lab"


def test_a_token_in_a_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    now = 0.0
    file = tmp_path / "token"
    file.write_text("one")
    credential = TokenFile(file, clock=lambda: now)
    assert credential.header() == "Bearer one"
    file.write_text("two")
    now = REREAD_SECONDS - 1
    assert credential.header() == "Bearer one"
    now = REREAD_SECONDS + 1
    assert credential.header() == "Bearer two"
    file.unlink()
    now = 3 * REREAD_SECONDS
    assert credential.header() == "Bearer two"


def test_a_token_file_that_is_missing_or_empty_is_named(tmp_path: Path, wording: Wording) -> None:
    credential = load(kubeconfig(tmp_path / "config", user={"tokenFile": "token"})).credential
    with pytest.raises(ConfigError, match=str(tmp_path / "token")) as missing:
        credential.header()
    (tmp_path / "token").write_text("\n")
    with pytest.raises(ConfigError, match=str(tmp_path / "token")) as empty:
        credential.header()
    wording(missing.value, empty.value)


@pytest.mark.parametrize(
    ("server", "environ", "proxy"),
    [
        ("https://api.example", {}, ""),
        ("https://api.example", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://api.example", {"https_proxy": "p:1"}, "http://p:1"),
        ("https://api.example", {"HTTP_PROXY": "http://p:1"}, ""),
        ("http://api.example", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://p:1"}, ""),
        ("https://localhost:6443", {"HTTPS_PROXY": "http://p:1"}, ""),
        ("https://[::1]:6443", {"HTTPS_PROXY": "http://p:1"}, ""),
    ],
)
def test_the_environment_selects_a_proxy(server: str, environ: dict[str, str], proxy: str) -> None:
    assert proxy_for(server, environ) == proxy


@pytest.mark.parametrize(
    ("server", "exceptions", "direct"),
    [
        ("https://api.example", "other, example", True),
        ("https://api.example", ".example", True),
        ("https://api.example", "*.example", True),
        ("https://api.example", "api.example:443", True),
        ("https://api.example", "api.example:6443", False),
        ("https://api.example", "*", True),
        ("https://myexample", "example", False),
        ("https://10.1.2.3:6443", "10.0.0.0/8", True),
        ("https://10.1.2.3:6443", "10.1.2.3", True),
        ("https://10.1.2.3:6443", "10.1.2.3:6443", True),
        ("https://10.1.2.3:6443", "192.168.0.0/16", False),
        ("https://[fd00::1]:6443", "fd00::/8", True),
    ],
)
def test_no_proxy_selects_exceptions(server: str, exceptions: str, direct: bool) -> None:
    assert (proxy_for(server, {"HTTPS_PROXY": "http://p:1", "NO_PROXY": exceptions}) == "") is direct
