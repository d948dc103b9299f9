"""The client's options by the names of Databricks notebooks."""

from __future__ import annotations

from pathlib import Path

import pytest

from distributary.errors import ConfigError
from distributary.registry.confluent.client_names import registry_options

URL = "https://registry.test:8081"


def test_basic_authentication() -> None:
    options = registry_options(
        URL, {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "key:se:cret"}
    )
    assert (options.user, options.password) == ("key", "se:cret")
    assert "se:cret" not in repr(options)


def test_a_token_and_pem_files(tmp_path: Path) -> None:
    store = tmp_path / "store.pem"
    store.write_text("-----BEGIN CERTIFICATE-----\n")
    options = registry_options(
        URL,
        {
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": "t0ken",
            "ssl.truststore.location": str(store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.password": "unused",
            "ssl.keystore.location": str(store),
            "ssl.key.password": "pw",
        },
    )
    assert (options.bearer_token, options.ca_file, options.certificate_file) == (
        "t0ken",
        str(store),
        str(store),
    )
    assert options.key_password == "pw"  # noqa: S105


@pytest.mark.parametrize(
    ("client", "message"),
    [
        ({"basic.auth.user.info": "secret-without-a-colon"}, "must be a user"),
        ({"basic.auth.credentials.source": "URL"}, "only USER_INFO can be used"),
        ({"rest.id": "x"}, "rest.id is not an option that is known here"),
        ({"ssl.truststore.location": "/not/there.jks"}, "cannot read"),
    ],
)
def test_what_cannot_be_kept_is_refused_without_a_secret(client: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        registry_options(URL, client)
    assert "secret-without" not in str(refused.value)


def test_a_java_keystore_is_refused_with_the_way_to_a_pem_file(tmp_path: Path) -> None:
    store = tmp_path / "store.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    with pytest.raises(ConfigError, match="is no PEM file; export it: keytool"):
        registry_options(URL, {"ssl.truststore.location": str(store)})
