"""Our image of TensorBoard, alone in its root file system: it reads S3 and Google Cloud Storage.

The stores refuse whoever does not sign, or bear a token, with what the test gave to the pod.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import build, parts
from support.board.event_files import write_scalar
from support.board.guarded_store import Door, bearing, guarded, signed_with
from support.board.identities import KEYS, ROLE, SESSION_KEYS, TOKEN, ServiceAccount, metadata, token_service
from support.board.serving import call, running, scalars, serving
from support.ports import free_port
from support.running import wait_until

# The first time, the servers are built and the image is made.
pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(600)]

TAG = "cross_entropy"


@pytest.fixture
def event_file(tmp_path: Path) -> Path:
    return write_scalar(tmp_path / "logs" / "train", TAG, [2.0, 1.0, 0.5])


def assert_shown(log_dir: str, door: Door, env: dict[str, str], volume: Path) -> None:
    """Checks that the image shows the scalar, and was let in at once; `volume` is mounted at /tmp/volume."""
    with serving(volume, f"--logdir {log_dir}", env) as (url, _):
        assert list(scalars(url)["train"]) == [TAG]
    assert door.passed
    assert not door.refused


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    folder = tmp_path / "volume"
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


@pytest.mark.parametrize("endpoint", ["AWS_ENDPOINT_URL", "S3_ENDPOINT"])
def test_s3_with_credentials_of_the_environment(s3: str, endpoint: str, volume: Path) -> None:
    with guarded(s3, signed_with(KEYS)) as door:
        env = {endpoint: door.url, "AWS_ACCESS_KEY_ID": KEYS.id, "AWS_SECRET_ACCESS_KEY": KEYS.secret}
        assert_shown("s3://bucket/runs", door, env, volume)


def test_s3_with_the_identity_of_the_pod(s3: str, volume: Path) -> None:
    """As EKS gives it to a pod: an address to ask, and a token to ask with."""
    (volume / "token").write_text(TOKEN)
    with guarded(s3, signed_with(SESSION_KEYS)) as door, metadata() as (address, asked):
        env = {
            "AWS_ENDPOINT_URL": door.url,
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://{address}/v1/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/tmp/volume/token",
        }
        assert_shown("s3://bucket/runs", door, env, volume)
    assert set(asked) == {"/v1/credentials"}


def test_s3_with_the_web_identity_of_the_service_account(s3: str, volume: Path) -> None:
    """As EKS gives it to a service account with a role: a token, for which AWS's token service has keys of the role."""
    (volume / "token").write_text(TOKEN)
    with guarded(s3, signed_with(SESSION_KEYS)) as door, token_service(volume) as (service, asked):
        env = {
            "AWS_ENDPOINT_URL": door.url,
            "AWS_ENDPOINT_URL_STS": service,
            "AWS_ROLE_ARN": ROLE,
            "AWS_WEB_IDENTITY_TOKEN_FILE": "/tmp/volume/token",
            "SSL_CERT_FILE": "/tmp/volume/ca.crt",
        }
        assert_shown("s3://bucket/runs", door, env, volume)
    assert {(one["RoleArn"], one["WebIdentityToken"]) for one in asked} == {(ROLE, TOKEN)}


def test_google_cloud_storage_with_the_identity_of_the_pod(gcs: str, volume: Path) -> None:
    with guarded(gcs, bearing(TOKEN.__eq__)) as door, metadata() as (address, asked):
        env = {"GOOGLE_BASE_URL": door.url, "GCE_METADATA_HOST": address}
        assert_shown("gs://bucket/runs", door, env, volume)
    assert any("service-accounts/default/token" in path for path in asked), asked


def test_google_cloud_storage_with_the_key_file_of_a_service_account(gcs: str, volume: Path) -> None:
    """The reader signs its tokens itself, as AIP-4111 of Google's has it, and asks nobody for others."""
    account = ServiceAccount()
    (volume / "key.json").write_text(account.key_file())
    with guarded(gcs, bearing(account.signed)) as door:
        env = {"GOOGLE_BASE_URL": door.url, "GOOGLE_APPLICATION_CREDENTIALS": "/tmp/volume/key.json"}
        assert_shown("gs://bucket/runs", door, env, volume)


def assert_refused(log_dir: str, door: Door, env: dict[str, str], volume: Path) -> None:
    with serving(volume, f"--logdir {log_dir}", env):
        wait_until(lambda: door.refused > 0, 90, lambda: "it never asked")
    assert not door.passed


def test_who_has_another_key_is_not_let_in(s3: str, gcs: str, volume: Path) -> None:
    """Without which the tests above would show nothing."""
    with guarded(s3, signed_with(KEYS)) as door:
        env = {"AWS_ENDPOINT_URL": door.url, "AWS_ACCESS_KEY_ID": KEYS.id, "AWS_SECRET_ACCESS_KEY": "another"}
        assert_refused("s3://bucket/runs", door, env, volume)
    (volume / "key.json").write_text(ServiceAccount().key_file())
    with guarded(gcs, bearing(ServiceAccount().signed)) as door:
        env = {"GOOGLE_BASE_URL": door.url, "GOOGLE_APPLICATION_CREDENTIALS": "/tmp/volume/key.json"}
        assert_refused("gs://bucket/runs", door, env, volume)
