"""Credential plugins: real small programs, as cloud providers ship them."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from support.golden import check_golden
from support.kube.api_server import ApiServer, refuse, reply
from support.kube.kube_files import Authority, kubeconfig
from tfjob.durations import VARIABLE
from tfjob.kube.access import config
from tfjob.kube.access.config import Access
from tfjob.kube.access.errors import ConfigError
from tfjob.kube.client.client import Client

GOLDEN = Path(__file__).parents[3] / "support" / "data" / "kube" / "golden"
V1, V1BETA1 = "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"

PROGRAM = """#!/bin/sh
cd "$(dirname "$0")"
count=$(( $(cat count 2>/dev/null || echo 0) + 1 ))
echo $count > count
echo "$KUBERNETES_EXEC_INFO" > info
echo "$* $EXTRA" > arguments
sed "s/COUNT/$count/" answer
"""


class Program:
    """A plugin that prints the content of `answer`, and counts its runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "plugin"
        self.write(PROGRAM)

    def write(self, text: str) -> None:
        self.path.write_text(text)
        self.path.chmod(0o755)

    def answer(self, version: str = V1, **status: Any) -> None:
        answer = {"apiVersion": version, "kind": "ExecCredential", "status": status}
        (self.folder / "answer").write_text(json.dumps(answer))

    @property
    def runs(self) -> int:
        count = self.folder / "count"
        return int(count.read_text()) if count.exists() else 0

    def read(self, name: str) -> str:
        return (self.folder / name).read_text().strip()


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def access(
    program: Program, *, server: str = "http://127.0.0.1:1", version: str = V1, seconds: float = 60, **plugin: Any
) -> Access:
    settings = {"command": "./plugin", "apiVersion": version, "interactiveMode": "Never", **plugin}
    file = kubeconfig(program.folder / "config", cluster={"server": server}, user={"exec": settings})
    durations = json.dumps({"credential_margin": 0.5, "credential_program": seconds})
    return config.load(None, {"KUBECONFIG": str(file), "PATH": os.environ["PATH"], VARIABLE: durations})


def in_an_hour() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))


def header(access: Access) -> str | None:
    async def run() -> str | None:
        await access.credential.renew()
        return access.credential.header()

    assert access.credential.header() is None
    return asyncio.run(run())


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_a_plugin_prints_a_token(program: Program, version: str) -> None:
    program.answer(version, token="secret-COUNT")
    made = access(program, version=version, args=["get", "--token"], env=[{"name": "EXTRA", "value": "more"}])
    assert header(made) == "Bearer secret-1"
    assert program.read("arguments") == "get --token more"
    assert json.loads(program.read("info")) == {
        "apiVersion": version,
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }


def test_a_plugin_may_ask_which_cluster_it_is_for(program: Program) -> None:
    program.answer(token="secret")
    (program.folder / "ca.crt").write_text("pem")
    cluster = {
        "server": "https://api.example",
        "certificate-authority": "ca.crt",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}],
    }
    plugin = {"command": "./plugin", "apiVersion": V1, "interactiveMode": "Never", "provideClusterInfo": True}
    file = kubeconfig(program.folder / "config", cluster=cluster, user={"exec": plugin})
    header(config.load(None, {"KUBECONFIG": str(file), "PATH": os.environ["PATH"]}))
    assert json.loads(program.read("info"))["spec"]["cluster"] == {
        "server": "https://api.example",
        "certificate-authority-data": "cGVt",
        "config": {"audience": "x"},
    }


def test_a_token_is_kept_until_it_expires(program: Program) -> None:
    async def run() -> None:
        async with ApiServer() as server:
            server.answers += [reply({})] * 10
            async with Client(access(program, server=f"http://127.0.0.1:{server.port}")) as client:
                await asyncio.gather(*(client.request("POST", "/") for _ in range(3)))
                assert program.runs == 1
                program.answer(token="secret-COUNT", expirationTimestamp="2020-01-01T00:00:00Z")
                server.answers.appendleft(refuse(401, "Unauthorized"))
                await client.request("POST", "/")
                assert program.runs == 2
                await asyncio.sleep(0.6)
                program.answer(token="secret-COUNT", expirationTimestamp=in_an_hour())
                await asyncio.gather(*(client.request("POST", "/") for _ in range(3)))
                assert program.runs == 3
            shown = [seen.headers["Authorization"].removeprefix("Bearer secret-") for seen in server.seen]
            assert shown == ["1", "1", "1", "1", "2", "3", "3", "3"]

    program.answer(token="secret-COUNT", expirationTimestamp=in_an_hour())
    asyncio.run(run())


def test_a_plugin_may_print_a_certificate(program: Program) -> None:
    me = Authority(program.folder).sign("me")
    program.answer(clientCertificateData=me.certificate.decode(), clientKeyData=me.key.decode())
    made = access(program)
    assert header(made) == ""
    shown = made.credential.certificate()
    assert shown is not None
    assert (shown.chain, shown.key) == (me.certificate, me.key)


@pytest.mark.parametrize(
    ("name", "program_text", "keyword"),
    [
        ("complains", "#!/bin/sh\necho first >&2; echo log in first >&2; exit 3", "first\n    log in first"),
        ("fails", "#!/bin/sh\nexit 1", "exit code 1"),
        ("prints-text", "#!/bin/sh\necho hello", "ExecCredential"),
        ("hangs", "#!/bin/sh\nsleep 600", "1 s"),
        (
            "other-version",
            '#!/bin/sh\necho \'{"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential"}\'',
            V1BETA1,
        ),
        (
            "empty",
            '#!/bin/sh\necho \'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}\'',
            "token",
        ),
    ],
)
def test_a_plugin_that_fails_is_named_with_the_reason(
    program: Program, name: str, program_text: str, keyword: str
) -> None:
    program.write(program_text)
    with pytest.raises(ConfigError) as error:
        header(access(program, seconds=1 if name == "hangs" else 60))
    assert keyword in str(error.value)
    check_golden(GOLDEN / f"plugin-{name}.txt", str(error.value).replace(str(program.folder), "FOLDER") + "\n")


def test_a_missing_plugin_is_reported_with_its_hint(program: Program) -> None:
    made = access(program, command="no-such-plugin", installHint="Install it from example.com.\n")
    with pytest.raises(ConfigError) as error:
        header(made)
    assert str(error.value).endswith("\nInstall it from example.com.")
    check_golden(GOLDEN / "plugin-missing.txt", f"{error.value}\n")


def test_an_interactive_plugin_needs_a_terminal(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as nobody, monkeypatch.context() as patch:
        patch.setattr("sys.stdin", nobody)
        with pytest.raises(ConfigError, match="terminal") as error:
            header(access(program, interactiveMode="Always"))
    check_golden(GOLDEN / "plugin-needs-terminal.txt", str(error.value).replace(str(program.folder), "FOLDER") + "\n")
