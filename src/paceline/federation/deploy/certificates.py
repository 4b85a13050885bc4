"""A private authority, the server's certificate, and a key pair for each node.

The ``cryptography`` package comes with Flower. Nodes' keys are as ``ssh-keygen -t ecdsa -b 384`` makes them: Flower
reads no other form.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from paceline.federation.deploy.names import address_of

AUTHORITY_DAYS, SERVER_DAYS = 3650, 825
SLACK = datetime.timedelta(hours=1)
"""Certificates begin to hold a little before now, for machines whose clock is behind."""


_USES = [
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
]


class Pair(NamedTuple):
    """A private key, and what the world may see of it: a certificate or a public key."""

    private: bytes
    public: bytes


class Authority(NamedTuple):
    """Who signs certificates of servers."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    def pair(self) -> Pair:
        """Return the authority's key and certificate as files hold them."""
        return Pair(_pem(self.key), self.certificate.public_bytes(serialization.Encoding.PEM))


def make_authority(name: str) -> Authority:
    """A new private authority, which signs servers and no other authorities."""
    key = ec.generate_private_key(ec.SECP384R1())
    subject = _named(f"{name} authority")
    built = (
        _begun(subject, subject, key.public_key(), AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return Authority(key, built.sign(key, hashes.SHA384()))


def make_server(authority: Authority, name: str, hosts: Sequence[str]) -> Pair:
    """A certificate for a server that is reached under any of these names and addresses."""
    key, signer = ec.generate_private_key(ec.SECP384R1()), authority.key
    built = (
        _begun(_named(f"{name} server"), authority.certificate.subject, key.public_key(), SERVER_DAYS)
        .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    return Pair(_pem(key), built.sign(signer, hashes.SHA384()).public_bytes(serialization.Encoding.PEM))


def make_node_keys(name: str) -> Pair:
    """A key pair in the form of OpenSSH; the name is a remark in it."""
    key = ec.generate_private_key(ec.SECP384R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return Pair(private, public + f" {name}\n".encode())


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SLACK)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _named(words: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, words)])


def _alternative(host: str) -> x509.GeneralName:
    found = address_of(host)
    return x509.DNSName(host) if found is None else x509.IPAddress(found)


def _usage(**said: bool) -> x509.KeyUsage:
    return x509.KeyUsage(**dict.fromkeys(_USES, False) | said)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
