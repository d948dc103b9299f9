"""Which import names of a Protobuf schema may become files: those that stay inside the folder they are put in."""

from __future__ import annotations

from distributary.errors import BadSchema

_LONGEST_NAME = 1024
_LONGEST_PART = 255
_MOST_PARTS = 32


def checked_import_name(name: str) -> str:
    """The name itself, if it is a plain relative path with forward slashes; raises BadSchema otherwise.

    protoc takes no other names either, so nothing that compiles elsewhere is refused here.
    """
    trouble = _trouble(name)
    if trouble:
        raise BadSchema(f"import name {name[:100]!r} {trouble}; an import must be a plain relative path")
    return name


def _trouble(name: str) -> str:
    parts = name.split("/")
    if not name.isprintable() or "\\" in name:
        return "holds a backslash or an unprintable character"
    if "" in parts:
        return "is empty, absolute, or has an empty part"
    if "." in parts or ".." in parts:
        return "has a part '.' or '..'"
    if ":" in parts[0]:
        return "looks like a drive or an address"
    encoded = [len(part.encode()) for part in parts]
    if max(encoded) > _LONGEST_PART or sum(encoded) > _LONGEST_NAME or len(parts) > _MOST_PARTS:
        return "is too long"
    return ""
