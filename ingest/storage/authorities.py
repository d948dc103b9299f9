"""Authorities that stores' certificates are checked against, beside those that the system trusts."""

from __future__ import annotations

import atexit
import ssl
from dataclasses import dataclass
from pathlib import Path

import certifi

from distributary.errors import ConfigError
from distributary.files import TemporaryFolder, replace, tag_of


@dataclass(frozen=True, slots=True)
class _Held:
    """What a file has in it, and what told it from others when it was read; None of what came from another machine."""

    authorities: bytes
    tag: tuple[int, int, int] | None


# By the path that the settings name. What came from another machine stands for a file that this one need not have.
_held: dict[str, _Held] = {}

# The files of this process with these authorities and the system's, and the former as they are in there.
_beside: dict[str, tuple[Path, bytes]] = {}


def authorities_of(ca_file: str) -> bytes:
    """The authorities in the file that the settings name, as it is now: they are replaced while runs go on.

    While it is cut off or cannot be read they are those of before. Raises ConfigError where there are none.
    """
    held = _held.get(ca_file)
    if held is not None and held.tag in (None, tag_of(ca_file)):
        return held.authorities
    tag = tag_of(ca_file)
    try:
        found = Path(ca_file).read_bytes()
    except OSError as error:
        if held is None:
            raise ConfigError(f"storage.http.ca_file: {ca_file} cannot be read: {error.strerror}") from None
        return held.authorities
    if tag is None:
        # It came between the two looks. Remembered without a tag it would stay for ever.
        return found if held is None else held.authorities
    if held is not None and (found == held.authorities or not _are_whole(found)):
        found = held.authorities
    _held[ca_file] = _Held(found, tag)
    return found


def _are_whole(authorities: bytes) -> bool:
    begun = authorities.count(b"-----BEGIN ")
    return begun > 0 and begun == authorities.count(b"-----END ")


def bring(ca_file: str, authorities: bytes) -> None:
    """Take what the file of that path holds on the machine that the settings come from."""
    held = _held.get(ca_file)
    if held is None or (held.tag is None and held.authorities != authorities):
        _held[ca_file] = _Held(authorities, None)


def beside_the_systems(ca_file: str) -> str:
    """A file of this process with these authorities, as they are now, and the system's. Raises ConfigError where they cannot be read.

    Whoever reads `SSL_CERT_FILE` trusts nobody else: not delta-rs alone does, but the client of the registry, too.
    """
    given = authorities_of(ca_file)
    if ca_file not in _beside:
        folder = TemporaryFolder("distributary-authorities-")
        atexit.register(folder.close)
        _beside[ca_file] = folder.path / "authorities.pem", b""
    path, there = _beside[ca_file]
    if given is not there:
        systems = Path(ssl.get_default_verify_paths().cafile or certifi.where()).read_bytes()
        replace(path, systems + b"\n" + given)
        _beside[ca_file] = path, given
    return str(path)


def keep_beside(ca_file: str) -> None:
    """Have the same file as it is to be now, where somebody was given it."""
    if ca_file in _beside:
        beside_the_systems(ca_file)
