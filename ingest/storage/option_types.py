"""What the options of all stores are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator

from distributary.ingest.storage.place import Kind
from distributary.values import EmptyIsNone

if TYPE_CHECKING:
    from distributary.ingest.storage.aws_credentials import AwsCredentials

Config: TypeAlias = dict[str, str | bool]

"""Options by the crate's own names, such as `region`."""


def _web_address(text: str | None) -> str | None:
    if text is None:
        return None
    parts = urlsplit(text)
    if "@" in text:
        # Not quoted: before the @ there may be a secret.
        raise ValueError("addresses get logged: take user and password out of it")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("it is no http or https address; write for example https://storage.example.com:9000")
    return text.rstrip("/")


Text = Annotated[str | None, EmptyIsNone]

Address = Annotated[Text, AfterValidator(_web_address)]


def given(**options: str | bool | None) -> Config:
    """Those of these options that have a value."""
    return {name: value for name, value in options.items() if value is not None}


def at_odds(environment: Mapping[str, str], *names: str) -> Iterator[str]:
    """Which of these variables say something: the crate would take it beside what the settings say, of somebody or something else."""
    return (name for name in names if environment.get(name, "").lower() not in ("", "0", "false"))


@dataclass(frozen=True, slots=True)
class ForObstore:
    """What obstore takes to open a store."""

    config: Mapping[str, Any]
    client: Mapping[str, Any]
    retry: Mapping[str, Any]
    credentials: AwsCredentials | None


_DELTA_PREFIX: Mapping[Kind, str] = {"s3": "AWS_", "azure": "AZURE_STORAGE_", "gcs": "GOOGLE_"}


def delta_name(kind: Kind, name: str) -> str:
    """delta-rs' name for one of the crate's options of a kind of store."""
    if name == "federated_token_file":
        return "AZURE_FEDERATED_TOKEN_FILE"
    # By this name alone delta-rs knows that it does not speak to AWS.
    return "AWS_ENDPOINT_URL" if (kind, name) == ("s3", "endpoint") else _DELTA_PREFIX[kind] + name.upper()


def delta_time(seconds: float) -> str:
    """A time as delta-rs reads it."""
    # It reads no exponent.
    return f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"


def delta_text(value: str | bool) -> str:
    """A value as delta-rs reads it."""
    return str(value).lower() if isinstance(value, bool) else value
