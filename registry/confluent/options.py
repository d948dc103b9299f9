"""How to reach a registry: addresses, credentials, TLS, waits and caches, checked before the first call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, ValidationError, field_validator

from distributary.errors import ConfigError
from distributary.registry.waits import Waits
from distributary.values import (
    EmptyIsNone,
    Group,
    OptionalFile,
    Secret,
    Wrong,
    dotted,
    without_logins,
    wrong_by,
)


class Address(Group):
    """Where a registry is."""

    url: Annotated[str | None, EmptyIsNone] = None
    """Needed by every format whose records name their schema. The registry's address, with the path of its Confluent-compatible API if it has one; several addresses of one registry separated by commas."""

    @field_validator("url")
    @classmethod
    def _plain_http(cls, url: str | None) -> str | None:
        if url is None:
            return None
        addresses = [address.strip().rstrip("/") for address in url.split(",")]
        # Nothing of a refused one is quoted, as it may hold a secret.
        if "@" in url:
            raise ValueError(
                "addresses get logged: take user and password out of it and write registry.user and .password"
            )
        if not all(map(_is_web_address, addresses)):
            raise ValueError(
                "it is no http or https address, or has a query; write for example http://127.0.0.1:8081"
            )
        return ",".join(addresses)

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses, each without a slash at its end."""
        return tuple(self.url.split(",")) if self.url else ()


def _none_is_empty(value: Any) -> Any:
    return "" if value is None else value


class Login(Group):
    """Who asks: a user, or the bearer of a token."""

    user: Annotated[str | None, EmptyIsNone] = None
    """User for basic authentication."""
    password: Secret = None
    """Password for basic authentication; only through `${VAR}`."""
    bearer_token: Secret = None
    """A static bearer token in place of user and password; only through `${VAR}`."""
    bearer_logical_cluster: Annotated[str, BeforeValidator(_none_is_empty)] = ""
    """The logical cluster that goes along with the token, such as `lsrc-1a2b3`; Confluent Cloud asks for it."""
    bearer_identity_pool: Annotated[str | None, EmptyIsNone] = None
    """The identity pool that goes along with the token, where Confluent Cloud asks for one."""

    def _credentials(self) -> dict[str, object]:
        if self.user is not None:
            return {"basic.auth.user.info": f"{self.user}:{self.password or ''}"}
        if self.bearer_token is None:
            return {}
        bearer: dict[str, object] = {
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": self.bearer_token,
            # The client refuses a token without it, though only Confluent Cloud reads it.
            "bearer.auth.logical.cluster": self.bearer_logical_cluster,
        }
        if self.bearer_identity_pool is not None:
            bearer["bearer.auth.identity.pool.id"] = self.bearer_identity_pool
        return bearer

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together, here and in the groups that this one is put together with."""
        yield from super().wrong()
        if self.password is not None and self.user is None:
            yield ("password",), "a password needs a user; write registry.user as well"
        if self.bearer_token is not None and (self.user is not None or self.password is not None):
            yield ("bearer_token",), "choose one: the token, or user and password"
        elif self.bearer_token is not None and not _fits_a_header(self.bearer_token):
            yield ("bearer_token",), "it is empty or holds a space, a line break or non-ASCII text; check it"
        if self.user is not None and ":" in self.user:
            yield ("user",), "it holds a colon, which basic authentication cannot carry; choose another user"


class Tls(Group):
    """The certificates of both sides."""

    ca_file: OptionalFile = None
    """PEM file with the authorities that the registry's certificate is checked against."""
    certificate_file: OptionalFile = None
    """PEM file with this client's certificate, for mutual TLS."""
    key_file: OptionalFile = None
    """PEM file with the key of `certificate_file`."""
    key_password: Secret = None
    """Password of `key_file`; only through `${VAR}`."""

    def require_files(self) -> None:
        """Raises ConfigError for a file that is not there."""
        for name, path in (("certificate_file", self.certificate_file), ("key_file", self.key_file)):
            if path is not None and not Path(path).is_file():
                raise ConfigError(f"registry.{name}: there is no file {path}")
        if self.ca_file is not None and not Path(self.ca_file).exists():
            raise ConfigError(f"registry.ca_file: there is no file or folder {self.ca_file}")

    def _certificates(self) -> dict[str, object]:
        tls: dict[str, object] = {}
        if self.ca_file is not None:
            tls["ssl.ca.location"] = self.ca_file
        if self.certificate_file is not None:
            tls["ssl.certificate.location"] = self.certificate_file
            # Without any password OpenSSL would ask for one on the terminal and wait there for ever.
            tls["ssl.key.password"] = self.key_password or ""
        if self.key_file is not None:
            tls["ssl.key.location"] = self.key_file
        return tls

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together, here and in the groups that this one is put together with."""
        yield from super().wrong()
        for name, given in (("key_file", self.key_file), ("key_password", self.key_password)):
            if given and self.certificate_file is None:
                what = name.replace("_", " ").removesuffix(" file")
                yield (name,), f"a {what} needs its certificate; write certificate_file as well"


class Dialect(Group):
    """What a registry may have lost of a schema."""

    map_entries: Literal["marked", "named"] = "marked"
    """Which Protobuf messages are the entries of maps: `marked`, those that say so; `named`, also those that are named as protoc names them, for a registry that loses the word, as Karapace does of what a serializer registered as a descriptor. Such a field is `array<struct<key, value>>` otherwise, which loses nothing: two entries of one key stay two. Choose it when a pipeline's tables are new."""


class RegistryAccess(Dialect, Waits, Tls, Login, Address):
    """Where a registry is and how to talk to it, in a pipeline's settings and in Python alike."""

    def client_settings(self) -> dict[str, object]:
        """What confluent-kafka's SchemaRegistryClient takes. Raises ConfigError for a file that is not there.

        Its own retries are off, since they know no common deadline and take every 404 for final.
        """
        self.require_files()
        settings: dict[str, object] = {
            "url": ",".join(self.urls),
            "timeout": self.timeout_seconds,
            "max.retries": 0,
            "cache.capacity": 1,
            "cache.latest.ttl.sec": self.latest_cache_seconds,
        }
        return settings | self._credentials() | self._certificates()

    def masked(self, text: str) -> str:
        """The text with every secret of these options blotted out."""
        for secret in (self.password, self.bearer_token, self.key_password):
            if secret:
                text = text.replace(secret, "***")
        return without_logins(text)


class RegistryOptions(RegistryAccess):
    """How to reach a registry, as keyword arguments by the names of the settings' section `registry`.

    Only `url` is needed; docs/reference/registry.md has all of them. `url` may name several addresses of one registry,
    separated by commas; times are seconds. Raises one ConfigError for all that cannot work.

    >>> distributary.RegistryOptions(url="http://127.0.0.1:8081").retry_seconds
    15.0
    """

    if not TYPE_CHECKING:  # which knows the arguments from the fields

        def __init__(self, **given: Any) -> None:
            try:
                super().__init__(**given)
            except ValidationError as error:
                raise ConfigError("\n".join(_sentences(error))) from None
            self.require_files()

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together, or is missing."""
        if self.url is None:
            yield ("url",), "it is missing; write for example http://127.0.0.1:8081"
        yield from super().wrong()


def _sentences(error: ValidationError) -> Iterator[str]:
    for one in error.errors(include_url=False, include_input=False):
        for keys, message in wrong_by(one):
            yield f"{dotted(('registry', *one['loc'], *keys))}: {message}"


def _fits_a_header(token: str) -> bool:
    return token.isascii() and token.isprintable() and token != "" and " " not in token


def _is_web_address(address: str) -> bool:
    try:
        parts = urlsplit(address)
        plain = not parts.query and not parts.fragment
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and plain
    except ValueError:
        return False
