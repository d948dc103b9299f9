"""How to reach a registry: addresses, credentials, TLS, patience and caches, checked before the first call."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from distributary.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class RegistryOptions:
    """Where a registry is and how to talk to it; raises ConfigError for what cannot work.

    `url` may name several addresses of one registry, separated by commas. Times are seconds.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    bearer_token: str | None = field(default=None, repr=False)
    bearer_logical_cluster: str = ""
    bearer_identity_pool: str | None = None
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    timeout_seconds: float = 10.0
    retry_seconds: float = 15.0
    latest_cache_seconds: float = 30.0
    unknown_id_wait_seconds: float = 3.0
    unknown_id_cache_seconds: float = 300.0
    cached_schemas: int = 10_000

    def __post_init__(self) -> None:
        _check_urls(self.urls)
        self._check_credentials()
        self._check_files()
        self._check_numbers()

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses, each without a slash at its end."""
        return tuple(part.strip().rstrip("/") for part in self.url.split(","))

    def client_settings(self) -> dict[str, object]:
        """What confluent-kafka's SchemaRegistryClient takes.

        Its own retries are off, since they know no common deadline and take every 404 for final.
        """
        settings: dict[str, object] = {
            "url": ",".join(self.urls),
            "timeout": self.timeout_seconds,
            "max.retries": 0,
            "cache.capacity": 1,
            "cache.latest.ttl.sec": self.latest_cache_seconds,
        }
        return settings | self._credentials() | self._tls()

    def masked(self, text: str) -> str:
        """The text with every secret of these options blotted out."""
        for secret in (self.password, self.bearer_token, self.key_password):
            if secret:
                text = text.replace(secret, "***")
        return text

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

    def _tls(self) -> dict[str, object]:
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

    def _check_credentials(self) -> None:
        if self.user is not None and self.bearer_token is not None:
            raise ConfigError("registry: both user and bearer_token are set; keep one of them")
        if self.user is None and self.password is not None:
            raise ConfigError("registry.password is set without registry.user; set both")
        if self.user is not None and ":" in self.user:
            raise ConfigError("registry.user holds a colon, which basic authentication cannot carry")
        if self.bearer_token is not None and not _fits_a_header(self.bearer_token):
            raise ConfigError(
                "registry.bearer_token is empty or holds a space, a line break or non-ASCII text"
            )

    def _check_files(self) -> None:
        if self.certificate_file is None and (self.key_file or self.key_password):
            raise ConfigError("registry.key_file and key_password need registry.certificate_file")
        for name in ("certificate_file", "key_file"):
            path = getattr(self, name)
            if path is not None and not Path(path).is_file():
                raise ConfigError(f"registry.{name}: there is no file {path}")
        if self.ca_file is not None and not Path(self.ca_file).exists():
            raise ConfigError(f"registry.ca_file: there is no file or folder {self.ca_file}")

    def _check_numbers(self) -> None:
        if not (math.isfinite(self.timeout_seconds) and self.timeout_seconds > 0):
            raise ConfigError(f"registry.timeout_seconds is {self.timeout_seconds}; it must be above 0")
        for name in (
            "retry_seconds",
            "latest_cache_seconds",
            "unknown_id_wait_seconds",
            "unknown_id_cache_seconds",
        ):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ConfigError(f"registry.{name} is {value}; it must be 0 or more")
        if self.cached_schemas < 1:
            raise ConfigError(f"registry.cached_schemas is {self.cached_schemas}; it must be 1 or more")


def _fits_a_header(token: str) -> bool:
    return token.isascii() and token.isprintable() and token != "" and " " not in token


def _check_urls(urls: tuple[str, ...]) -> None:
    """Refuse what is no plain http(s) address; nothing of a refused one is quoted, as it may hold a secret."""
    for url in urls:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
            parts = urlsplit("")
        if "@" in url:
            raise ConfigError(
                "registry.url holds credentials; put them into registry.user and registry.password"
            )
        if not usable:
            raise ConfigError('registry.url must look like "http://host:8081" (several: separated by commas)')
        if parts.query or parts.fragment:
            raise ConfigError(
                "registry.url has a query or a fragment; give the plain address of the registry"
            )


PREFIX = "confluent.schema.registry."

_SAME_AS = {
    "basic.auth.user.info": "basic",
    "schema.registry.basic.auth.user.info": "basic",
    "bearer.auth.token": "bearer_token",
    "bearer.auth.logical.cluster": "bearer_logical_cluster",
    "bearer.auth.identity.pool.id": "bearer_identity_pool",
    "ssl.ca.location": "ca_file",
    "ssl.truststore.location": "ca_file",
    "ssl.certificate.location": "certificate_file",
    "ssl.keystore.location": "certificate_file",
    "ssl.key.location": "key_file",
    "ssl.key.password": "key_password",
    "ssl.keystore.password": "key_password",
}

# What only says how the other options are meant; the ways named here are those that we have.
_ALLOWED = {
    "basic.auth.credentials.source": {"USER_INFO"},
    "bearer.auth.credentials.source": {"STATIC_TOKEN"},
    "ssl.truststore.type": {"PEM", "JKS", "PKCS12"},
    "ssl.keystore.type": {"PEM", "JKS", "PKCS12"},
}

# Java needs it to open a truststore; a PEM file of certificates has no password.
_UNUSED = {"ssl.truststore.password"}

_STORES = ("ssl.truststore.location", "ssl.keystore.location")


def registry_options(url: str, client: Mapping[str, str]) -> RegistryOptions:
    """How to reach the registry at this address with these options of Confluent's client, given without `PREFIX`.

    Raises ConfigError for an option that is not known here: one that is left out may be what keeps a secret.
    """
    chosen: dict[str, Any] = {}
    for name, value in client.items():
        if name in _ALLOWED:
            _check_allowed(name, value)
        elif name in _SAME_AS:
            chosen |= _option(name, value)
        elif name not in _UNUSED:
            known = ", ".join(sorted({*_SAME_AS, *_ALLOWED}))
            raise ConfigError(f"{PREFIX}{name} is not an option that is known here; there are: {known}")
    return RegistryOptions(url=url, **chosen)


def _option(name: str, value: str) -> dict[str, str]:
    if name in _STORES:
        _check_pem(name, value)
    if _SAME_AS[name] != "basic":
        return {_SAME_AS[name]: value}
    user, colon, password = value.partition(":")
    if not colon:
        raise ConfigError(f"{PREFIX}{name} must be a user (or key), a colon and a password (or secret)")
    return {"user": user, "password": password}


def _check_allowed(name: str, value: str) -> None:
    if value.upper() not in _ALLOWED[name]:
        ways = " or ".join(sorted(_ALLOWED[name]))
        raise ConfigError(f"{PREFIX}{name} is {value!r}, but only {ways} can be used")


def _check_pem(name: str, path: str) -> None:
    try:
        start = Path(path).read_bytes()[:64]
    except OSError as error:
        raise ConfigError(f"{PREFIX}{name}: cannot read {path}: {error.strerror}") from None
    if b"-----BEGIN" not in start and not start.lstrip().startswith((b"#", b"Bag")):
        raise ConfigError(
            f"{PREFIX}{name}: {path} is no PEM file; export it: keytool -importkeystore -srckeystore {path} "
            "-destkeystore store.p12 -deststoretype PKCS12, then openssl pkcs12 -in store.p12 -nodes -out store.pem"
        )
