"""What an error of confluent-kafka's registry client means to us."""

from __future__ import annotations

import ssl

from confluent_kafka.schema_registry.error import SchemaRegistryError

from distributary.errors import (
    BadSchema,
    ConfigError,
    DistributaryError,
    RegistryUnavailable,
    SchemaNotFound,
)

_LONGEST_QUOTE = 500
_REFUSED = (400, 409, 413, 422)


def is_uncoded_404(error: Exception) -> bool:
    """Whether this 404 lacks a registry's error code: a wrong address answers so, and a call that is not offered."""
    return _status(error) == 404 and not _says_not_found(error)


def is_refused_method(error: Exception) -> bool:
    """Whether the server knows the path but not what was to be done there."""
    return _status(error) in (405, 501)


def translated(error: Exception, what: str, where: str, *, registering: bool) -> DistributaryError:
    """The error to raise instead: `what` was asked for, `where` is the registry's address.

    Whatever is not plainly the registry's "no" is RegistryUnavailable, so that no record is blamed for it.
    """
    said = f"{what} at {where}: {_quoted(error)}"
    status = _status(error)
    if status in (401, 403):
        return ConfigError(
            f"the registry refuses these credentials, asked for {said}; "
            "check registry.user and registry.password, or registry.bearer_token, and what they may read"
        )
    if _untrusted(error):
        return ConfigError(
            f"the registry's certificate is not trusted, asked for {said}; "
            "set registry.ca_file to the authority that signed it, and check the host name in registry.url"
        )
    if registering and status in _REFUSED:
        return BadSchema(f"the registry refuses {said}; correct the schema, or the subject's compatibility")
    if status == 404:
        return SchemaNotFound(
            f"the registry does not know {said}; it was never registered there, or was deleted"
        )
    return RegistryUnavailable(
        f"the registry gave no usable answer for {said}; check that it runs and that registry.url is right"
    )


def _status(error: Exception) -> int | None:
    return int(error.http_status_code) if isinstance(error, SchemaRegistryError) else None


def _says_not_found(error: Exception) -> bool:
    """Registries say which thing is missing by a code of five digits: 40401 a subject, 40403 a schema."""
    code = str(getattr(error, "error_code", ""))
    return len(code) == 5 and code.startswith("404")


def _quoted(error: Exception) -> str:
    """The error in one line; messages of registries may be lists, empty, or whole HTML pages."""
    if not isinstance(error, SchemaRegistryError):
        return " ".join(f"{type(error).__name__} {error}".split())[:_LONGEST_QUOTE]
    message = error.error_message
    text = "; ".join(str(part) for part in message) if isinstance(message, list) else str(message or "")
    return f"HTTP {error.http_status_code} {' '.join(text.split())}".strip()[:_LONGEST_QUOTE]


def _untrusted(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False
