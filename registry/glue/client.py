"""Single questions to AWS Glue, by boto3, without any patience: every failure as one of our errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from distributary.errors import (
    BadSchema,
    ConfigError,
    CredentialsRefused,
    DistributaryError,
    RegistryBusy,
    RegistryFault,
    RegistryUnavailable,
    SchemaNotFound,
)
from distributary.registry.glue.options import GlueAccess

V = TypeVar("V")

# https://docs.aws.amazon.com/glue/latest/webapi/CommonErrors.html, and the errors that each call lists.
_REFUSED = {
    "AccessDeniedException",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "NotAuthorized",
    "OptInRequired",
    "UnrecognizedClientException",
}

_BUSY = {
    "ConcurrentModificationException",
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
}

# Whatever is called so, it says nothing of what was asked for.
_BUSY_STATUS = 429

# Names of botocore's own errors, for what keeps a question from being asked at all.
_NO_SETTING = {
    "NoCredentialsError",
    "NoRegionError",
    "PartialCredentialsError",
    "ProfileNotFound",
    "InvalidRegionError",
    "InvalidConfigError",
}


class GlueClient(Protocol):
    """What is asked of boto3's client for Glue."""

    def get_schema_version(self, **asked: Any) -> dict[str, Any]:
        """A version of a schema, with its definition."""

    def get_schema_by_definition(self, **asked: Any) -> dict[str, Any]:
        """The version of a schema that has this definition."""

    def list_schema_versions(self, **asked: Any) -> dict[str, Any]:
        """A page of a schema's versions."""

    def list_schemas(self, **asked: Any) -> dict[str, Any]:
        """A page of a registry's schemas."""

    def create_schema(self, **asked: Any) -> dict[str, Any]:
        """Make a schema, with its first version."""

    def register_schema_version(self, **asked: Any) -> dict[str, Any]:
        """Add a version to a schema."""

    def close(self) -> None:
        """Close the connections."""


def boto3_client(access: GlueAccess, seconds: float) -> GlueClient:
    """boto3's client, which waits no longer for an answer and repeats nothing. Raises ConfigError."""
    try:
        import boto3  # noqa: PLC0415 - nobody needs it whose registry is another
        from botocore.config import Config  # noqa: PLC0415
    except ImportError:
        raise ConfigError("registry.type glue takes boto3; install distributary[aws]") from None
    config = Config(connect_timeout=seconds, read_timeout=seconds, retries={"total_max_attempts": 1})
    try:
        session = boto3.Session(profile_name=access.profile, region_name=access.region)
        client: GlueClient = session.client("glue", endpoint_url=access.endpoint, config=config)
    except Exception as error:  # noqa: BLE001 - of files that AWS's tools read, and of what stands in them
        raise ConfigError(
            f"registry.glue: the client cannot be set up ({type(error).__name__}); check region, profile and endpoint"
        ) from None
    return client


class Questions:
    """A client with our errors. They name what was asked for and the registry, never a secret."""

    def __init__(self, client: GlueClient, where: str) -> None:
        self.client, self.where = client, where

    def call(self, what: str, question: Callable[[GlueClient], V]) -> V:
        """The answer to one question; `what` says what is asked for, in messages.

        Raises SchemaNotFound, RegistryUnavailable, CredentialsRefused or ConfigError.
        """
        try:
            return question(self.client)
        except DistributaryError:
            raise
        except Exception as error:  # noqa: BLE001 - a client fed odd answers fails in ways nobody lists
            raise translated(error, what, self.where) from None

    def pages(
        self, what: str, page: Callable[[GlueClient, dict[str, Any]], dict[str, Any]]
    ) -> Iterator[dict[str, Any]]:
        """What all pages of a list hold."""
        more: dict[str, Any] = {}
        while True:
            answer = self.call(what, lambda client: page(client, more))  # noqa: B023 - called at once
            yield from answer.get("Schemas", ())
            if not answer.get("NextToken"):
                return
            if answer["NextToken"] == more.get("NextToken"):
                raise RegistryFault(
                    f"the {self.where} answers with the same page again and again, asked for {what}"
                )
            more = {"NextToken": answer["NextToken"]}


def translated(error: Exception, what: str, where: str) -> DistributaryError:
    """The error to raise instead. Whatever is not plainly Glue's "no" is RegistryUnavailable, so that no record is blamed for it."""
    response = getattr(error, "response", None)
    told = response.get("Error", {}) if isinstance(response, dict) else {}
    code, name = str(told.get("Code", "")), type(error).__name__
    if name in _NO_SETTING:
        return ConfigError(
            f"registry.glue: {name}, asked for {what}; check region and profile, or AWS's own variables"
        )
    if code in _REFUSED:
        return CredentialsRefused(
            f"the {where} does not accept who asks for {what} ({code}); give the role or user glue:GetSchemaVersion, "
            "glue:ListSchemaVersions and glue:ListSchemas"
        )
    if code == "EntityNotFoundException":
        return SchemaNotFound(f"the {where} does not know {what}")
    if code in _BUSY or _status(response) == _BUSY_STATUS:
        return RegistryBusy(f"the {where} has too much to do, asked for {what} ({code})")
    if code:
        return RegistryFault(f"the {where} fails at {what} ({code})")
    return RegistryUnavailable(
        f"the {where} does not answer, asked for {what} ({name}); check registry.glue and the network"
    )


def _status(response: Any) -> Any:
    told = response.get("ResponseMetadata") if isinstance(response, dict) else None
    return told.get("HTTPStatusCode") if isinstance(told, dict) else None


def refused(error: Exception, what: str) -> BadSchema | None:
    """That Glue does not take a schema, if that is what the error says."""
    response = getattr(error, "response", None)
    told = response.get("Error", {}) if isinstance(response, dict) else {}
    taken = ("InvalidInputException", "AlreadyExistsException", "ResourceNumberLimitExceededException")
    return BadSchema(f"Glue refuses {what} ({told['Code']})") if told.get("Code") in taken else None
