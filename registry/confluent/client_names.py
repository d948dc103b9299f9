"""The options of Confluent's own client, by their names there, as ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from distributary.errors import ConfigError
from distributary.registry.confluent.options import RegistryOptions

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
