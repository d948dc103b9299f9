"""A subject's version as a user names it."""

from __future__ import annotations

from collections.abc import Sequence

from distributary.errors import ConfigError, SchemaNotFound
from distributary.registry.base import SubjectVersion


def find(versions: Sequence[SubjectVersion], subject: str, wanted: str) -> SubjectVersion:
    """The version that a user means: `latest` is the newest that is not deleted, a number may be a deleted one's."""
    if wanted == "latest":
        living = [version for version in versions if not version.deleted]
        if not living:
            raise SchemaNotFound(f"all versions of subject {subject!r} are deleted; name one by its number")
        return living[-1]
    if not (wanted.isascii() and wanted.isdigit()):
        raise ConfigError(f"a version is a number or `latest`, not {wanted!r}")
    for version in versions:
        if version.version == int(wanted):
            return version
    known = ", ".join(str(version.version) for version in versions)
    raise SchemaNotFound(f"subject {subject!r} has no version {wanted}; it has {known}")
