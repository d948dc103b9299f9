"""One registry over HTTP: single questions without any patience, every failure as one of our errors.

Which error, is told from the client's own: a plain "no" of the registry, or something that no record may be blamed for.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from distributary.errors import (
    BadSchema,
    ConfigError,
    CredentialsRefused,
    DistributaryError,
    NotOffered,
    RegistryBusy,
    RegistryFault,
    RegistryUnavailable,
    SchemaNotFound,
)
from distributary.files import tag_of
from distributary.registry.bounded_cache import BoundedCache
from distributary.registry.confluent.bounds import WAITS, bounded
from distributary.registry.confluent.options import RegistryAccess

V = TypeVar("V")


class Connection:
    """confluent-kafka's client with our errors. They name what was asked for and the address, never a secret."""

    def __init__(self, options: RegistryAccess) -> None:
        self.options = options
        self.where = ", ".join(options.urls)
        self._read = self._files()
        self._client = self._before = _client(options)
        self._met = False
        self._speaks: BoundedCache[str, bool] = BoundedCache(1, options.latest_cache_seconds)

    def call(self, what: str, question: Callable[[Any], V], *, registering: bool = False) -> V:
        """The answer to one question; `what` says what is asked for, in messages.

        Raises NotOffered, SchemaNotFound, RegistryUnavailable or ConfigError; BadSchema only if `registering`. ConfigError is for a
        certificate that is not trusted, as long as nothing was answered before.
        """
        try:
            answer = question(self._renewed())
        except Exception as error:  # noqa: BLE001 - a client fed odd answers fails in ways nobody lists
            self._met = self._met or _status(error) is not None
            if is_uncoded_404(error):
                raise self._meaning_of_404(what) from None
            if registering and is_refused_method(error):
                raise NotOffered(f"the registry at {self.where} does not offer {what}") from None
            meaning = translated(error, what, self.where, registering=registering)
            if self._met and _untrusted(error):
                # Who was trusted before is so again once the certificate is renewed, or a clock is right: an outage.
                meaning = RegistryUnavailable(str(meaning))
            raise type(meaning)(self.options.masked(str(meaning))) from None
        else:
            self._met = True
            return answer
        finally:
            # The client's own caches have neither bound nor end; those of our callers do.
            self._client.clear_caches()

    def get(self, what: str, path: str, query: Mapping[str, object] | None = None) -> Any:
        """The JSON at a path, which must be percent-encoded; for what the client's own calls leave out."""
        return self.call(what, lambda client: client._rest_client.get(path, dict(query or {})))

    def post(self, what: str, path: str, body: Mapping[str, object]) -> Any:
        """The JSON that comes back for a body; a body that is refused is a BadSchema."""
        return self.call(what, lambda client: client._rest_client.post(path, dict(body)), registering=True)

    def put(self, what: str, path: str, body: Mapping[str, object]) -> None:
        """Sets what is at a path."""
        self.call(what, lambda client: client._rest_client.put(path, dict(body)))

    def delete(self, what: str, path: str) -> None:
        """Takes away what is at a path."""
        self.call(what, lambda client: client._rest_client.delete(path))

    def answers(self) -> bool:
        """Whether the registry answers a question about what it holds, whichever."""
        return self._subjects() is not None

    def shows_any(self) -> bool:
        """Whether the registry lets these credentials see any subject; some list none to who may see none."""
        return bool(self._subjects())

    def _files(self) -> list[object]:
        """What tells the files that a client reads when it is made from those that take their place."""
        named = (self.options.ca_file, self.options.certificate_file, self.options.key_file)
        return [None if path is None else tag_of(path) for path in named]

    def _renewed(self) -> Any:
        """The client; another one once a file was replaced that it had read: runs outlive certificates."""
        if (now := self._files()) != self._read:
            self._read = now
            # What is being replaced may not be whole yet, and then is another one soon.
            with suppress(ConfigError):
                renewed = _client(self.options)
                # Another thread may just be asking by the one before.
                if self._before is not self._client:
                    self._before.close()
                self._before, self._client = self._client, renewed
        return self._client

    def _subjects(self) -> list[object] | None:
        try:
            listed = self.get("a subject", "subjects", {"offset": 0, "limit": 1})
        except DistributaryError:
            return None
        return listed if isinstance(listed, list) else None

    def close(self) -> None:
        """Close the connections; nothing can be asked afterwards."""
        self._client.close()
        self._before.close()

    def _meaning_of_404(self, what: str) -> NotOffered | RegistryUnavailable:
        """What a 404 without a registry's error code means: a call that is not offered, or no registry at all."""
        if self._is_a_registry():
            return NotOffered(f"the registry at {self.where} does not offer {what}")
        return RegistryUnavailable(
            f"{self.where} answers 404 as if there were no registry, asked for {what}; check the address (Apicurio's ends in "
            "/apis/ccompat/v7)"
        )

    def _is_a_registry(self) -> bool:
        """Whether the address lists schema types, which everything that speaks this API does."""
        if self._speaks.get(self.where) is None:
            try:
                listed = isinstance(self._client.get_schema_types(), list)
            except Exception:  # noqa: BLE001 - as above; the question that led here is the one to report
                listed = False
            if not listed:
                return False
            self._speaks.put(self.where, True)
        return True


def _client(options: RegistryAccess) -> Any:
    settings = options.client_settings()
    try:
        client = SchemaRegistryClient(settings)
    except (OSError, ValueError, TypeError) as error:
        # Certificates and keys are read here: not PEM, not belonging together, a wrong password.
        raise ConfigError(
            f"registry: the client cannot be set up ({options.masked(str(error))}); "
            "check registry.ca_file, certificate_file, key_file and key_password"
        ) from None
    bounded(client._rest_client.session, WAITS * options.timeout_seconds)
    return client


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

    Whatever is not plainly the registry's "no" is RegistryUnavailable, so that no record is blamed for it; RegistryFault where somebody
    was there, as others then may be answered.
    """
    said = f"{what} at {where}: {_quoted(error)}"
    status = _status(error)
    if status in (401, 403):
        return CredentialsRefused(
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
    return _trouble(error, status)(
        f"the registry gave no usable answer for {said}; check that it runs and that registry.url is right"
    )


def _status(error: Exception) -> int | None:
    return int(error.http_status_code) if isinstance(error, SchemaRegistryError) else None


# Too slow, too many questions: it may pass by itself, unless it is always this question.
_BUSY = (408, 425, 429)


# What the client's own client raises before a server has its question.
_NOT_REACHED = ("ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "WriteError", "WriteTimeout")


def _trouble(error: Exception, status: int | None) -> type[RegistryUnavailable]:
    """What it is called: a server may have been reached that answered not as a registry should, or did not answer this question."""
    if status is not None:
        return RegistryBusy if status in _BUSY else RegistryFault
    reached = type(error).__name__ not in _NOT_REACHED and not isinstance(error, OSError)
    return RegistryFault if reached else RegistryUnavailable


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
