"""Our image of TensorBoard, alone in its root file system: it reads S3 and Google Cloud Storage."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from board.serving import call, running, scalars, serving
from devcluster import build, parts
from event_files import write_scalar
from operating import free_port

# The first time, the servers are built and the image is made.
pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(600)]

TAG = "cross_entropy"
TOKEN = "a-token-of-the-pod"


@pytest.fixture
def event_file(tmp_path: Path) -> Path:
    return write_scalar(tmp_path / "logs" / "train", TAG, [2.0, 1.0, 0.5])


def shown(log_dir: str, env: dict[str, str], volume: Path) -> dict[str, dict[str, object]]:
    """The scalars that the image finds in a folder, by run; `volume` is mounted at /tmp/volume."""
    with serving(volume, f"--logdir {log_dir}", env) as (url, _):
        return scalars(url)


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


@pytest.fixture
def s3(event_file: Path) -> Iterator[str]:
    """A server of S3 with the event file in it."""
    url = f"http://127.0.0.1:{free_port()}"
    program = build.binaries(parts.S3_SERVER) / "gofakes3"
    command = [str(program), "-backend", "memory", "-host", url.removeprefix("http://"), "-initialbucket", "bucket"]
    with running(command, url):
        data = event_file.read_bytes()
        call(f"{url}/bucket/runs/train/{event_file.name}", data, "PUT", "application/octet-stream")
        yield url


@pytest.mark.parametrize("endpoint", ["AWS_ENDPOINT_URL", "S3_ENDPOINT"])
def test_s3_with_credentials_of_the_environment(s3: str, endpoint: str, empty: Path) -> None:
    env = {endpoint: s3, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}
    assert list(shown("s3://bucket/runs", env, empty)["train"]) == [TAG]


@pytest.fixture
def gcs(event_file: Path) -> Iterator[str]:
    """A server of Google Cloud Storage with the event file in it."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    program = build.binaries(parts.GCS_SERVER) / "fake-gcs-server"
    command = [str(program), "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    with running([*command, "-external-url", url, "-public-host", f"127.0.0.1:{port}"], f"{url}/storage/v1/b"):
        call(f"{url}/storage/v1/b", b'{"name": "bucket"}', "POST")
        where = f"{url}/upload/storage/v1/b/bucket/o?uploadType=media&name=runs/train/{event_file.name}"
        call(where, event_file.read_bytes(), "POST", "application/octet-stream")
        yield url


class Identity(BaseHTTPRequestHandler):
    """The metadata servers of GCE and of EKS, which give a pod its identity."""

    asked: list[str] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if "computeMetadata" in self.path:
            body: dict[str, object] = {"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"}
        else:
            until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
            body = {"AccessKeyId": "id", "SecretAccessKey": "secret", "Token": TOKEN, "Expiration": until}
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def identity() -> Iterator[str]:
    """A metadata server."""
    Identity.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Identity)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_google_cloud_storage_with_the_identity_of_the_pod(gcs: str, identity: str, empty: Path) -> None:
    env = {"GOOGLE_BASE_URL": gcs, "GCE_METADATA_HOST": identity}
    assert list(shown("gs://bucket/runs", env, empty)["train"]) == [TAG]
    assert any("service-accounts/default/token" in path for path in Identity.asked), Identity.asked


def test_s3_with_the_identity_of_the_pod(s3: str, identity: str, empty: Path) -> None:
    """As EKS gives it to a pod: an address to ask, and a token to ask with."""
    (empty / "token").write_text(TOKEN)
    env = {
        "AWS_ENDPOINT_URL": s3,
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://{identity}/v1/credentials",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/tmp/volume/token",
    }
    assert list(shown("s3://bucket/runs", env, empty)["train"]) == [TAG]
    assert Identity.asked, "nobody asked who the pod is"
