"""The cluster's certificate authority, and kubeconfigs with its certificates."""

from __future__ import annotations

import datetime
import ipaddress
import json
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=365)


class Authority:
    """Issues certificates as NAME.crt and NAME.key in a folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        folder.mkdir(exist_ok=True, mode=0o700)
        self.folder = folder
        self.certificate = folder / f"{name}.crt"
        self.key = folder / f"{name}.key"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject(f"tfjob-devcluster-{name}", "")
        _write(self.key, _pem_key(self._key))
        _write(self.certificate, self._sign(self._name, self._key, [], authority=True))

    def issue(self, name: str, user: str, group: str = "", hosts: Sequence[str] = ()) -> tuple[Path, Path]:
        """Issue a certificate for a client and, if hosts are given, a server; return the paths of both files."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate, secret = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        _write(certificate, self._sign(_subject(user, group), key, hosts, authority=False))
        _write(secret, _pem_key(key))
        return certificate, secret

    def kubeconfig(self, path: Path, server: str, user: str, group: str = "") -> Path:
        """Write a kubeconfig for a user, as JSON, which is valid YAML."""
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
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, hosts: Sequence[str], *, authority: bool
    ) -> bytes:
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
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)


def token_key(folder: Path) -> tuple[Path, Path]:
    """Create the key pair for service account tokens; return the paths of the private and the public key."""
    key = ec.generate_private_key(ec.SECP256R1())
    private, public = folder / "tokens.key", folder / "tokens.pub"
    _write(private, _pem_key(key))
    _write(public, key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


def _subject(user: str, group: str) -> x509.Name:
    fields = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
    if group:
        fields.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(fields)


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def _inline(path: Path) -> str:
    return b64encode(path.read_bytes()).decode()


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
