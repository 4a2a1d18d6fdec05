"""Keys and certificates with which programs sign their Celery messages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID


class Signer:
    """One program's key and certificate, as files; the certificate lies in the folder of accepted.

    Args:
        accepted: the folder; one whose certificate is not to be accepted gives another.
    """

    def __init__(self, folder: Path, name: str, accepted: Path) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .sign(key, hashes.SHA256())
        )
        self.accepted = accepted
        self.key, self.cert = folder / f"{name}.key", accepted / f"{name}.pem"
        accepted.mkdir(exist_ok=True)
        self.cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        self.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )

    @property
    def env(self) -> dict[str, str]:
        """The settings of a program that signs with it."""
        return {
            "STEPKEEPER_SIGNING_KEY": str(self.key),
            "STEPKEEPER_SIGNING_CERT": str(self.cert),
            "STEPKEEPER_SIGNING_CERT_STORE": str(self.accepted),
        }
