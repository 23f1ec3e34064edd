"""Who tells a pod who it is: the metadata servers of GCE and of EKS, AWS's token service, a Google service account."""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from support.board.guarded_store import Keys, listening
from support.kube.kube_files import Authority

TOKEN = "a-token-of-the-pod"
KEYS = Keys("id", "secret")
SESSION_KEYS = Keys("session-id", "session-secret", "a-session")
ROLE = "arn:aws:iam::123456789012:role/reader"
SCOPES = {f"https://www.googleapis.com/auth/{name}" for name in ("cloud-platform", "devstorage.read_only")}
"""Any of which lets an account read objects."""


@contextmanager
def metadata() -> Iterator[tuple[str, list[str]]]:
    """The metadata servers of GCE and of EKS in one: its address, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            google = "computeMetadata" in self.path
            # Google's wants a header that no web page can make a browser send, that of EKS the token of the pod.
            knows = self.headers["Metadata-Flavor"] == "Google" if google else self.headers["Authorization"] == TOKEN
            if not knows:
                self.send_error(403)
                return
            if google:
                body: dict[str, object] = {"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"}
            else:
                body = {"AccessKeyId": SESSION_KEYS.id, "SecretAccessKey": SESSION_KEYS.secret}
                body |= {"Token": SESSION_KEYS.session, "Expiration": _in_an_hour()}
            _answer(self, "application/json", json.dumps(body).encode())

        def log_message(self, *_: object) -> None:
            pass

    with listening(Handler) as address:
        yield address, asked


@contextmanager
def token_service(folder: Path) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """AWS's STS: keys for a role, for whoever shows the pod's token; its URL, and what it was asked.

    It is reached over TLS alone; its authority is `ca.crt` in `folder`.
    """
    asked: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
            words = {**parse_qs(urlsplit(self.path).query), **parse_qs(form)}
            request = {name: values[0] for name, values in words.items()}
            asked.append(request)
            wanted = {"Action": "AssumeRoleWithWebIdentity", "RoleArn": ROLE, "WebIdentityToken": TOKEN}
            if not wanted.items() <= request.items():
                self.send_error(403)
                return
            keys = f"<AccessKeyId>{SESSION_KEYS.id}</AccessKeyId>"
            keys += f"<SecretAccessKey>{SESSION_KEYS.secret}</SecretAccessKey>"
            keys += f"<SessionToken>{SESSION_KEYS.session}</SessionToken><Expiration>{_in_an_hour()}</Expiration>"
            name = "AssumeRoleWithWebIdentity"
            result = f"<{name}Result><Credentials>{keys}</Credentials></{name}Result>"
            text = f'<{name}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/">{result}</{name}Response>'
            _answer(self, "text/xml", text.encode())

        def log_message(self, *_: object) -> None:
            pass

    own = Authority(folder).sign("sts", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.certificate_file, own.key_file)
    with listening(Handler, context) as address:
        yield f"https://{address}", asked


class ServiceAccount:
    """An account of Google's with a key of its own, and the store's look at a token that it signed."""

    email = "reader@project.iam.gserviceaccount.com"

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(65537, 2048)

    def key_file(self) -> str:
        """The file that Google hands out once for each key, as far as it says who the account is."""
        pem = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        account = {"type": "service_account", "client_email": self.email, "private_key_id": "1"}
        return json.dumps({**account, "private_key": pem.decode(), "token_uri": "https://oauth2.googleapis.com/token"})

    def signed(self, token: str) -> bool:
        """Whether a token is one of this account, for reading objects, now."""
        head, _, signature = token.rpartition(".")
        try:
            self._key.public_key().verify(_decoded(signature), head.encode(), padding.PKCS1v15(), hashes.SHA256())
        except (InvalidSignature, ValueError):
            return False
        said = json.loads(_decoded(head.partition(".")[2]))
        in_time = said["iat"] - 60 < time.time() < said["exp"] <= said["iat"] + 3600
        return said["iss"] == self.email and said["scope"] in SCOPES and in_time


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _in_an_hour() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))


def _answer(handler: BaseHTTPRequestHandler, kind: str, content: bytes) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)
