"""One registry over HTTP: single questions without any patience, every failure as one of our errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka.schema_registry import SchemaRegistryClient

from distributary.errors import ConfigError, NotOffered, RegistryUnavailable
from distributary.registry.bounded_cache import BoundedCache
from distributary.registry.client_errors import is_refused_method, is_uncoded_404, translated
from distributary.registry.options import RegistryOptions

V = TypeVar("V")


class Connection:
    """confluent-kafka's client with our errors. They name what was asked for and the address, never a secret."""

    def __init__(self, options: RegistryOptions) -> None:
        self.options = options
        self.where = ", ".join(options.urls)
        self._client = _client(options)
        self._speaks: BoundedCache[str, bool] = BoundedCache(1, options.latest_cache_seconds)

    def call(self, what: str, question: Callable[[Any], V], *, registering: bool = False) -> V:
        """The answer to one question; `what` says what is asked for, in messages.

        Raises NotOffered, SchemaNotFound, RegistryUnavailable or ConfigError; BadSchema only if `registering`.
        """
        try:
            return question(self._client)
        except Exception as error:  # noqa: BLE001 - a client fed odd answers fails in ways nobody lists
            if is_uncoded_404(error):
                raise self._meaning_of_404(what) from None
            if registering and is_refused_method(error):
                raise NotOffered(f"the registry at {self.where} does not offer {what}") from None
            meaning = translated(error, what, self.where, registering=registering)
            raise type(meaning)(self.options.masked(str(meaning))) from None
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

    def close(self) -> None:
        """Close the connections; nothing can be asked afterwards."""
        self._client.close()

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


def _client(options: RegistryOptions) -> Any:
    try:
        return SchemaRegistryClient(options.client_settings())
    except (OSError, ValueError, TypeError) as error:
        # Certificates and keys are read here: not PEM, not belonging together, a wrong password.
        raise ConfigError(
            f"registry: the client cannot be set up ({options.masked(str(error))}); "
            "check registry.ca_file, certificate_file, key_file and key_password"
        ) from None
