"""Certificates that nobody but a test knows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def self_signed(
    common_name: str, *names: x509.GeneralName
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """A key, and the certificate of an authority that signs itself, good for two days; `names` are those of its server."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(common_name)
    unsigned = _unsigned(subject, subject, key, names).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    return key, unsigned.sign(key, hashes.SHA256())


def signed_by(
    key: ec.EllipticCurvePrivateKey, authority: x509.Certificate, common_name: str, *names: x509.GeneralName
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """A key, and the certificate that this authority gives a server of these names, good for as long."""
    own = ec.generate_private_key(ec.SECP256R1())
    unsigned = _unsigned(_name(common_name), authority.subject, own, names).add_extension(
        x509.BasicConstraints(ca=False, path_length=None), critical=True
    )
    return own, unsigned.sign(key, hashes.SHA256())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _unsigned(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    names: Sequence[x509.GeneralName],
) -> x509.CertificateBuilder:
    now = datetime.now(timezone.utc)
    unsigned = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
    )
    return unsigned.add_extension(x509.SubjectAlternativeName(names), critical=False) if names else unsigned
