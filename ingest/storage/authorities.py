"""Authorities that stores' certificates are checked against, beside those that the system trusts."""

from __future__ import annotations

import atexit
import ssl
from functools import lru_cache
from pathlib import Path

import certifi

from distributary.errors import ConfigError
from distributary.files import TemporaryFolder

# By the path that the settings name. What came from another machine stands for a file that this one need not have.
_held: dict[str, bytes] = {}


def authorities_of(ca_file: str) -> bytes:
    """The authorities in the file that the settings name, as it was when they were first asked for.

    Raises ConfigError where it cannot be read.
    """
    if ca_file not in _held:
        try:
            _held[ca_file] = Path(ca_file).read_bytes()
        except OSError as error:
            raise ConfigError(f"storage.http.ca_file: {ca_file} cannot be read: {error.strerror}") from None
    return _held[ca_file]


def bring(ca_file: str, authorities: bytes) -> None:
    """Take what the file of that path holds on the machine that the settings come from."""
    _held.setdefault(ca_file, authorities)


@lru_cache
def beside_the_systems(ca_file: str) -> str:
    """A file of this process with these authorities and the system's. Raises ConfigError where they cannot be read.

    Whoever reads `SSL_CERT_FILE` trusts nobody else: not delta-rs alone does, but the client of the registry, too.
    """
    given = authorities_of(ca_file)
    systems = Path(ssl.get_default_verify_paths().cafile or certifi.where()).read_bytes()
    folder = TemporaryFolder("distributary-authorities-")
    atexit.register(folder.close)
    path = folder.path / "authorities.pem"
    path.write_bytes(systems + b"\n" + given)
    return str(path)
