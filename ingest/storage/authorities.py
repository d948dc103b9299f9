"""Authorities that stores' certificates are checked against, beside those that the system trusts."""

from __future__ import annotations

import atexit
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

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


@dataclass(slots=True)
class _Beside:
    """The file of this process that is trusted in the place of the system's.

    within  what it has, by the path of what was trusted before, and by those that settings name
    """

    path: Path
    within: dict[str, bytes]


_beside: _Beside | None = None

_lock = Lock()

# A child that is forked while another thread looks would wait for it for ever.
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


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


def trust(ca_file: str) -> str:
    """Have who reads `SSL_CERT_FILE` trust these authorities, as they are now; the file that it names from here on. Raises ConfigError where they cannot be read.

    Whoever reads it trusts nobody else: not delta-rs alone does, but the client of the registry, too. So what was trusted before is in it, and
    the authorities of every other store of this process.
    """
    global _beside  # noqa: PLW0603 - a process has one such variable
    authorities_of(ca_file)
    with _lock:
        if _beside is None:
            _beside = _Beside(_new_file(), {_systems(): b""})
        elif not _beside.path.is_file():
            # Tidied away; or it went with the process that this one was forked from.
            _beside = _Beside(_new_file(), dict.fromkeys(_beside.within, b""))
        within = {path: authorities_of(path) for path in (*_beside.within, ca_file)}
        if within != _beside.within:
            replace(_beside.path, b"\n".join(within.values()))
            _beside.within = within
        os.environ["SSL_CERT_FILE"] = str(_beside.path)
        return str(_beside.path)


def _new_file() -> Path:
    folder = TemporaryFolder("distributary-authorities-")
    atexit.register(folder.close)
    return folder.path / "authorities.pem"


def keep_trusted(ca_file: str) -> None:
    """Have the same file as it is to be now, where somebody was given it."""
    if _beside is not None and ca_file in _beside.within:
        trust(ca_file)


def _systems() -> str:
    """The file with the authorities that are trusted where nobody says otherwise."""
    known = ssl.get_default_verify_paths()
    # Debian's Python knows of a folder alone, and delta-rs of the file in there.
    found = Path(known.capath, "ca-certificates.crt") if known.capath else None
    return known.cafile or (str(found) if found is not None and found.is_file() else certifi.where())
