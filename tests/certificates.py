"""Certificates that nobody but a test knows."""

from __future__ import annotations

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
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    now = datetime.now(timezone.utc)
    unsigned = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    )
    if names:
        unsigned = unsigned.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return key, unsigned.sign(key, hashes.SHA256())
