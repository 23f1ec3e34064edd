"""The cluster's certificate authority, and kubeconfigs with certificates of it."""

from __future__ import annotations

import datetime
import ipaddress
import json
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

LIFETIME = datetime.timedelta(days=365)


class Authority:
    """Signs certificates into a folder: NAME.crt and NAME.key."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        folder.mkdir(exist_ok=True, mode=0o700)
        self.folder = folder
        self.certificate = folder / f"{name}.crt"
        self.key = folder / f"{name}.key"
        self._key = _new_key()
        self._name = _subject(f"tfjob-devcluster-{name}", "")
        _write(self.key, _pem_key(self._key))
        _write(self.certificate, _pem(self._sign(self._name, self._key, [], authority=True)))

    def issue(self, name: str, user: str, group: str = "", hosts: Sequence[str] = ()) -> tuple[Path, Path]:
        """A certificate for a client and, if it names hosts, for a server; the paths of certificate and key."""
        key = _new_key()
        certificate, secret = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        _write(certificate, _pem(self._sign(_subject(user, group), key, hosts, authority=False)))
        _write(secret, _pem_key(key))
        return certificate, secret

    def kubeconfig(self, path: Path, server: str, user: str, group: str = "") -> Path:
        """Writes a kubeconfig for a user; JSON is YAML."""
        certificate, secret = self.issue(path.stem, user, group)
        cluster = {"server": server, "certificate-authority-data": _inline(self.certificate)}
        client = {"client-certificate-data": _inline(certificate), "client-key-data": _inline(secret)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "devcluster", "cluster": cluster}],
            "users": [{"name": user, "user": client}],
            "contexts": [{"name": "devcluster", "context": {"cluster": "devcluster", "user": user}}],
            "current-context": "devcluster",
        }
        _write(path, json.dumps(config, indent=1).encode())
        return path

    def _sign(
        self, subject: x509.Name, key: EllipticCurvePrivateKey, hosts: Sequence[str], *, authority: bool
    ) -> x509.Certificate:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.x509.oid import ExtendedKeyUsageOID

        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + LIFETIME)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if not authority:
            usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([_host(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def token_key(folder: Path) -> tuple[Path, Path]:
    """The pair that signs and checks service account tokens; the paths of the private and the public key."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = _new_key()
    private, public = folder / "tokens.key", folder / "tokens.pub"
    _write(private, _pem_key(key))
    _write(public, key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _subject(user: str, group: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    fields = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
    if group:
        fields.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(fields)


def _host(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _pem_key(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def _inline(path: Path) -> str:
    return b64encode(path.read_bytes()).decode()


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
