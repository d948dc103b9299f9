"""Where files are, as users write it: a folder's absolute path, or the URL of a place in an object store or in HDFS."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["posix", "s3", "azure", "gcs", "hdfs"]

"""Who answers for the files there."""

# What a URL may begin with; two words of one line mean the same store.
SCHEMES: dict[str, Kind] = {
    "s3": "s3",
    "s3a": "s3",
    "az": "azure",
    "abfs": "azure",
    "abfss": "azure",
    "gs": "gcs",
    "hdfs": "hdfs",
}

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/]*)(?P<path>/.*)?", re.DOTALL)

_AZURE = re.compile(r"(?P<container>[^@]+)@(?P<account>[^.@]+)\.(?P<host>dfs|blob)\.(?P<domain>[^@]+)")

# delta-rs takes % for the start of an escape; ? and # end a URL's path. A folder may be called as it likes.
_UNUSABLE = re.compile(r"[%?#\\\x00-\x1f\x7f]")

_EXAMPLES = "write an absolute path, or for example s3://bucket/lake"


@dataclass(frozen=True, slots=True)
class Place:
    """A place for files.

    kind       who answers for them
    scheme     what the URL begins with; empty for a path
    authority  the bucket, `container@account.dfs.core.windows.net`, or HDFS's name node; empty for a path
    key        where it is in there, no slash at either end; for a path all of it but its first slash
    """

    kind: Kind
    scheme: str
    authority: str
    key: str

    @classmethod
    def parse(cls, text: str) -> Place:
        """The place that a text means. Raises ValueError, with what to write instead."""
        found = _URL.fullmatch(text)
        if found is None:
            return cls("posix", "", "", checked_path(_absolute(text)))
        kind = SCHEMES.get(found["scheme"].lower())
        if kind is None:
            raise ValueError(
                f"{found['scheme']}:// is not supported; there are a path, {', '.join(f'{one}://' for one in SCHEMES)}"
            )
        place = cls(kind, found["scheme"].lower(), found["authority"], "")
        # First, as nothing is quoted that may be a login.
        _check_authority(place)
        return cls(kind, place.scheme, place.authority, _key(str(place), (found["path"] or "").strip("/")))

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}/{self.key}".rstrip("/") if self.scheme else f"/{self.key}"

    def __fspath__(self) -> str:
        """A folder's path. Raises ValueError for a store, of which no path tells how to get there."""
        return str(self.path)

    def __truediv__(self, below: str) -> Place:
        """A place in this one. Raises ValueError for one that could lead out of it."""
        key = below.strip("/")
        key = checked_path(key) if self.kind == "posix" else _key(repr(below), key)
        return Place(self.kind, self.scheme, self.authority, f"{self.key}/{key}".strip("/"))

    @property
    def path(self) -> Path:
        """The folder of a place that is one. Raises ValueError for a store."""
        if self.kind != "posix":
            raise ValueError(f"{self} is no folder of a POSIX file system")
        return Path(str(self))

    @property
    def bucket(self) -> str:
        """The bucket, or Azure's container."""
        return self.authority.partition("@")[0]

    @property
    def account(self) -> str | None:
        """Azure's account, where the URL names it."""
        found = _AZURE.fullmatch(self.authority)
        return found["account"] if self.kind == "azure" and found else None

    @property
    def is_of_another_cloud(self) -> bool:
        """Whether the URL names an account that is not in Azure's public cloud: clients pass over where it is, and ask the one of that name there, whoever has it."""
        found = _AZURE.fullmatch(self.authority)
        return self.kind == "azure" and found is not None and found["domain"].lower() != "core.windows.net"

    def overlaps(self, other: Place) -> bool:
        """Whether one of both is the other, or in it: then what one holds another might sweep."""
        if not self.shares_store(other):
            return False
        mine, others = self._parts(), other._parts()
        common = min(len(mine), len(others))
        return mine[:common] == others[:common]

    def shares_store(self, other: Place) -> bool:
        """Whether both are in one bucket, or container, or of one name node, or are folders."""
        if self.kind != "azure" or other.kind != "azure":
            return (self.kind, self.authority) == (other.kind, other.authority)
        # `az://` leaves the account to the options: it may be any.
        return self.bucket == other.bucket and (
            None in (self.account, other.account) or self.account == other.account
        )

    def _parts(self) -> tuple[str, ...]:
        return tuple(self.key.split("/")) if self.key else ()


def checked_path(path: str) -> str:
    """A file's or folder's path in a place, as it is. Raises ValueError for one that could lead out of it."""
    if path and any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError(
            f"{path!r} is no path in a place: its parts stand between single slashes, none is . or .."
        )
    return path


def is_name(folder: str) -> bool:
    """Whether a place in a store may be called so. What else is there, as another program's escaped values, is nothing of ours."""
    return folder not in ("", ".", "..") and not _UNUSABLE.search(folder)


def _absolute(text: str) -> str:
    if not text.startswith("/"):
        raise ValueError(f"{text!r} is no absolute path and no URL; {_EXAMPLES}")
    return text.strip("/")


def _key(where: str, key: str) -> str:
    """The key, if it is one. It is not quoted: behind a ? there may be a signature."""
    if _UNUSABLE.search(key):
        raise ValueError(
            f"the path in {where} holds a %, ?, #, backslash or control character; choose another name, and leave a query out"
        )
    return checked_path(key)


def _check_authority(place: Place) -> None:
    """Raises ValueError. What may be a login is not quoted: before an @, behind a colon that parts no port, or either escaped."""
    named = _AZURE.fullmatch(place.authority) is not None
    if place.scheme == "az" and "@" in place.authority:
        raise ValueError(
            "az:// takes a container alone, as az://container/lake; the account goes into `storage`"
        )
    if place.kind == "azure" and place.scheme != "az" and not named:
        raise ValueError(f"write {place.scheme}://container@account.dfs.core.windows.net/lake")
    if (place.kind != "azure" and "@" in place.authority) or (
        place.kind != "hdfs" and ":" in place.authority
    ):
        raise ValueError(
            f"{place.scheme}://... holds an @ or a colon; take user and password out of it, they go into `storage`"
        )
    if not place.authority or _UNUSABLE.search(place.authority):
        raise ValueError(f"{place.scheme}://... names no bucket, container or name node; {_EXAMPLES}")
