from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from distributary.errors import ConfigError, RegistryUnavailable
from distributary.registry.confluent.options import RegistryOptions

if TYPE_CHECKING:
    from tests.registry.conftest import AnswerServer, Connect

URL = "http://127.0.0.1:8081"
SECRET = "hunter2-hunter2"  # noqa: S105


def test_addresses_are_split_and_trimmed() -> None:
    assert RegistryOptions(url="http://a:1/, https://b/x/").urls == ("http://a:1", "https://b/x")


def test_a_time_out_is_always_set() -> None:
    assert RegistryOptions(url=URL).client_settings()["timeout"] == 10.0


def test_secrets_stay_out_of_the_repr() -> None:
    basic = RegistryOptions(
        url=URL, user="u", password=SECRET, certificate_file=__file__, key_password=SECRET
    )
    assert SECRET not in repr(basic)
    assert SECRET not in repr(RegistryOptions(url=URL, bearer_token=SECRET))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8081",
        "ftp://a",
        "mock://a",
        "http://",
        "http://a:b",
        "http://a:99999",
        "http://[::1",
        "http://a,",
        f"http://u:{SECRET}@a",
        f"http://a,http://{SECRET}@b",
        f"http://a?token={SECRET}",
        f"http://a#{SECRET}",
    ],
)
def test_an_address_that_cannot_work_or_holds_a_secret_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(ConfigError, match=r"registry\.url") as caught:
        RegistryOptions(url=url)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        ({"user": "u", "bearer_token": SECRET}, "bearer_token"),
        ({"password": SECRET}, r"registry\.user"),
        ({"user": "a:b", "password": SECRET}, "colon"),
        ({"bearer_token": ""}, "bearer_token"),
        ({"bearer_token": f"{SECRET}\r\nX: y"}, "bearer_token"),
        ({"bearer_token": f"{SECRET}ü"}, "bearer_token"),
        ({"key_file": "/no/such"}, "certificate_file"),
        ({"certificate_file": "/no/such"}, "/no/such"),
        ({"certificate_file": __file__, "key_file": "/no/such"}, "/no/such"),
        ({"ca_file": "/no/such"}, "/no/such"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"timeout_seconds": float("inf")}, "timeout_seconds"),
        ({"retry_seconds": -1}, "retry_seconds"),
        ({"latest_cache_seconds": float("nan")}, "latest_cache_seconds"),
        ({"unknown_id_wait_seconds": -0.1}, "unknown_id_wait_seconds"),
        ({"unknown_id_cache_seconds": float("inf")}, "unknown_id_cache_seconds"),
        ({"cached_schemas": 0}, "cached_schemas"),
    ],
)
def test_what_cannot_work_is_named_and_no_secret_with_it(options: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError, match=setting) as caught:
        RegistryOptions(url=URL, **options)
    assert SECRET not in str(caught.value)


def test_everything_that_cannot_work_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        RegistryOptions(url=URL, timeout_seconds=0, retry_seconds=-1)
    assert str(caught.value).splitlines() == [
        "registry.timeout_seconds: write a number greater than 0.0",
        "registry.retry_seconds: write a number of at least 0.0",
    ]


def test_an_empty_key_password_and_no_logical_cluster_count_as_not_given() -> None:
    given: dict[str, Any] = {"key_password": "", "bearer_logical_cluster": None}
    assert RegistryOptions(url=URL, **given).client_settings() == RegistryOptions(url=URL).client_settings()


def test_an_option_that_does_not_exist_is_named() -> None:
    wrong: dict[str, Any] = {"time_out": 3}
    with pytest.raises(ConfigError, match=r"registry\.time_out: no setting is called so"):
        RegistryOptions(url=URL, **wrong)


@pytest.mark.parametrize(("password", "sent"), [("p:w ü", "u:p:w ü"), (None, "u:")])
def test_basic_authentication_is_sent(
    server: AnswerServer, connect: Connect, password: str | None, sent: str
) -> None:
    server.on("/schemas/ids/7", server.json({"schema": '"int"'}))
    connect(server.url, user="u", password=password).by_ref(7)
    assert server.seen[0][2]["authorization"] == "Basic " + base64.b64encode(sent.encode()).decode()


def test_a_bearer_token_is_sent_with_what_confluent_cloud_asks_for(
    server: AnswerServer, connect: Connect
) -> None:
    server.on("/schemas/ids/7", server.json({"schema": '"int"'}))
    connect(server.url, bearer_token=SECRET).by_ref(7)
    named = {"bearer_logical_cluster": "lsrc-1", "bearer_identity_pool": "pool-2"}
    connect(server.url, bearer_token=SECRET, **named).by_ref(7)
    plain, cloud = server.seen[0][2], server.seen[1][2]
    assert plain["authorization"] == cloud["authorization"] == f"Bearer {SECRET}"
    assert (cloud["target-sr-cluster"], cloud["confluent-identity-pool-id"]) == ("lsrc-1", "pool-2")
    assert "confluent-identity-pool-id" not in plain


def test_a_secret_that_the_server_echoes_is_masked(server: AnswerServer, connect: Connect) -> None:
    server.on("/schemas/ids/7", server.raw(f"cannot use {SECRET}".encode(), 500))
    with pytest.raises(RegistryUnavailable, match=r"cannot use \*\*\*"):
        connect(server.url, user="u", password=SECRET).by_ref(7)
