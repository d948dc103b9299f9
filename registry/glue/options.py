"""Which of an account's Glue registries is asked, and how it is reached."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from distributary.values import EmptyIsNone, Group

_NAME = r"^[A-Za-z0-9$_#.-]+$"


class GlueAccess(Group):
    """Which of an account's Glue registries is asked, and how it is reached; who asks is what AWS's own tools go by."""

    registry: Annotated[str, Field(pattern=_NAME, max_length=255)] = "default-registry"
    """The registry's name in Glue, in which the subjects are names of schemas; Glue's serializers have the same default."""
    region: Annotated[str | None, EmptyIsNone] = None
    """The region that it is in; by default what `AWS_DEFAULT_REGION` or the profile says."""
    profile: Annotated[str | None, EmptyIsNone] = None
    """The profile of AWS's own files whose keys are taken; by default those of the environment, of the machine or of its role, as AWS's tools find them."""
    endpoint: Annotated[str | None, EmptyIsNone] = None
    """Another address than AWS's own, such as that of a private endpoint."""

    @field_validator("endpoint")
    @classmethod
    def _web_address(cls, endpoint: str | None) -> str | None:
        if endpoint is None:
            return None
        # Nothing of a refused one is quoted, as it may hold a secret.
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in endpoint or parts.query:
            raise ValueError(
                "it is no http or https address, or has a user or a query; write for example https://glue.example.com"
            )
        return endpoint.rstrip("/")

    @property
    def where(self) -> str:
        """What tells it apart from other registries, in messages and where answers are kept."""
        place = self.endpoint or self.region
        return f"Glue registry {self.registry}" + (f" ({place})" if place else "")
