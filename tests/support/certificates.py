"""Certificates of an authority of the test's own, for a server on loopback and its clients."""

from __future__ import annotations

from pathlib import Path

import trustme


class Certificates:
    """Files in a folder.

    Attributes:
        ca: of the authority.
        server, client: certificate and key; the server's is for 127.0.0.1, by no other name.
    """

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        self.ca = folder / "ca.pem"
        authority.cert_pem.write_to_path(str(self.ca))
        self.server = self._pair(authority, folder / "server", "127.0.0.1")
        self.client = self._pair(authority, folder / "client", "client.example")

    def _pair(self, authority: trustme.CA, path: Path, *names: str) -> tuple[Path, Path]:
        issued = authority.issue_cert(*names)
        certificate, key = path.with_suffix(".pem"), path.with_suffix(".key")
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        certificate.write_bytes(chain)
        issued.private_key_pem.write_to_path(str(key))
        return certificate, key

    @property
    def query(self) -> str:
        """The part of a URL that names a client's files."""
        certificate, key = self.client
        return f"?ssl_ca_certs={self.ca}&ssl_certfile={certificate}&ssl_keyfile={key}"
