"""How to reach a store, as obstore and as delta-rs are told, and what does not go together."""

# ruff: noqa: S106
from __future__ import annotations

import pickle
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from distributary.errors import ConfigError
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place
from distributary.ingest.storage.s3_options import ROLE_OF_ONE
from distributary.values import MASK, wrong_by

BUCKET = Place.parse("s3://lake/tables")
CONTAINER = Place.parse("abfss://lake@account.dfs.core.windows.net/tables")
GOOGLE = Place.parse("gs://lake/tables")

KEYS = {"access_key_id": "AKIA", "secret_access_key": "hush", "session_token": "until noon"}


def s3(**given: Any) -> StorageOptions:
    return StorageOptions.model_validate({"s3": given})


def azure(**given: Any) -> StorageOptions:
    return StorageOptions.model_validate({"azure": given})


def gcs(**given: Any) -> StorageOptions:
    return StorageOptions.model_validate({"gcs": given})


def http(**given: Any) -> StorageOptions:
    return StorageOptions.model_validate({"http": given})


# Options, where, as obstore's configuration, as delta-rs' options beside those of HTTP.
RENDERED: list[tuple[StorageOptions, Place, dict[str, Any], dict[str, str]]] = [
    (
        StorageOptions(),
        BUCKET,
        {"virtual_hosted_style_request": False},
        {"AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false"},
    ),
    (
        s3(endpoint="http://127.0.0.1:9000/", region="eu-central-1", login=KEYS),
        BUCKET,
        {
            "endpoint": "http://127.0.0.1:9000",
            "region": "eu-central-1",
            "virtual_hosted_style_request": False,
            **KEYS,
        },
        {
            "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
            "AWS_REGION": "eu-central-1",
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
            "AWS_ACCESS_KEY_ID": "AKIA",
            "AWS_SECRET_ACCESS_KEY": "hush",
            "AWS_SESSION_TOKEN": "until noon",
            "allow_http": "true",
        },
    ),
    (
        s3(endpoint="https://s3.example.com", path_style=False, requester_pays=True),
        BUCKET,
        {
            "endpoint": "https://lake.s3.example.com",
            "virtual_hosted_style_request": True,
            "request_payer": True,
        },
        {
            "AWS_ENDPOINT_URL": "https://lake.s3.example.com",
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
            "AWS_REQUEST_PAYER": "true",
        },
    ),
    (
        s3(encryption={"kind": "aws:kms", "kms_key_id": "arn:key", "bucket_key": True}),
        BUCKET,
        {
            "virtual_hosted_style_request": False,
            "server_side_encryption": "aws:kms",
            "sse_kms_key_id": "arn:key",
            "sse_bucket_key_enabled": True,
        },
        {
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
            "AWS_SERVER_SIDE_ENCRYPTION": "aws:kms",
            "AWS_SSE_KMS_KEY_ID": "arn:key",
            "AWS_SSE_BUCKET_KEY_ENABLED": "true",
        },
    ),
    (
        s3(login={"role_arn": "arn:role", "web_identity_token_file": "/token"}),
        BUCKET,
        {
            "virtual_hosted_style_request": False,
            "role_arn": "arn:role",
            "role_session_name": "distributary",
            "web_identity_token_file": "/token",
        },
        {
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
            "AWS_ROLE_ARN": "arn:role",
            "AWS_ROLE_SESSION_NAME": "distributary",
            "AWS_WEB_IDENTITY_TOKEN_FILE": "/token",
        },
    ),
    (
        azure(account_key="a2V5"),
        CONTAINER,
        {"account_name": "account", "account_key": "a2V5"},
        {"AZURE_STORAGE_ACCOUNT_NAME": "account", "AZURE_STORAGE_ACCOUNT_KEY": "a2V5"},
    ),
    (
        azure(account="mine", sas_token="sv=1&sig=2"),
        Place.parse("az://lake/tables"),
        {"account_name": "mine", "sas_key": "sv=1&sig=2"},
        {"AZURE_STORAGE_ACCOUNT_NAME": "mine", "AZURE_STORAGE_SAS_KEY": "sv=1&sig=2"},
    ),
    (
        azure(tenant_id="t", client_id="c", federated_token_file="/token"),
        CONTAINER,
        {
            "account_name": "account",
            "tenant_id": "t",
            "client_id": "c",
            "federated_token_file": "/token",
        },
        {
            "AZURE_STORAGE_ACCOUNT_NAME": "account",
            "AZURE_STORAGE_TENANT_ID": "t",
            "AZURE_STORAGE_CLIENT_ID": "c",
            "AZURE_FEDERATED_TOKEN_FILE": "/token",
        },
    ),
    (StorageOptions(), GOOGLE, {}, {}),
    (
        gcs(service_account_file="/account.json", endpoint="http://127.0.0.1:4443"),
        GOOGLE,
        {"service_account": "/account.json", "base_url": "http://127.0.0.1:4443"},
        {
            "GOOGLE_SERVICE_ACCOUNT": "/account.json",
            "GOOGLE_BASE_URL": "http://127.0.0.1:4443",
            "allow_http": "true",
        },
    ),
]


@pytest.mark.parametrize(("options", "place", "obstore", "delta"), RENDERED)
def test_both_are_told_the_same_in_their_own_words(
    options: StorageOptions, place: Place, obstore: dict[str, Any], delta: dict[str, str]
) -> None:
    rendered = options.for_obstore(place)
    assert rendered.config == obstore
    assert rendered.credentials is None
    assert options.for_delta(place) == {**delta, "timeout": "60s", "retry_timeout": "60s"}
    assert rendered.client["allow_http"] is ("allow_http" in delta)


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (BUCKET, "AWS_ENDPOINT_URL"),
        (BUCKET, "AWS_ENDPOINT"),
        (BUCKET, "AWS_ENDPOINT_URL_S3"),
        (CONTAINER, "AZURE_STORAGE_ENDPOINT"),
        (GOOGLE, "GOOGLE_BASE_URL"),
    ],
)
def test_an_address_without_tls_is_one_wherever_it_is_said(
    monkeypatch: pytest.MonkeyPatch, place: Place, name: str
) -> None:
    """Said by the environment it was refused by the clients, and taken for a store that does not answer."""
    monkeypatch.setenv(name, "http://127.0.0.1:9000")
    assert StorageOptions().for_obstore(place).client["allow_http"] is True
    assert StorageOptions().for_delta(place)["allow_http"] == "true"
    if name != "AWS_ENDPOINT_URL_S3":
        by_tls = StorageOptions.model_validate({place.kind: {"endpoint": "https://store.example.com"}})
        assert by_tls.for_obstore(place).client["allow_http"] is False
    monkeypatch.setenv(name, "https://127.0.0.1:9000")
    assert StorageOptions().for_obstore(place).client["allow_http"] is False


def test_a_folder_needs_no_options_and_hdfs_takes_its_own() -> None:
    options = StorageOptions.model_validate({"hdfs": {"dfs.client.use.datanode.hostname": "true"}})
    assert options.for_delta(Place.parse("/lake")) == {}
    assert options.for_delta(Place.parse("hdfs://node/lake")) == {"dfs.client.use.datanode.hostname": "true"}


def test_proxies_patience_and_authorities(tmp_path: Path) -> None:
    authorities = tmp_path / "ca.pem"
    authorities.write_bytes(b"-----BEGIN CERTIFICATE-----")
    options = http(
        proxy="http://proxy:3128",
        no_proxy="127.0.0.1",
        ca_file=authorities,
        timeout_seconds=5,
        retry_seconds=7,
    )
    # Behind the first those whom a machine asks for its own keys: a proxy was told them, or gave its own.
    around = "127.0.0.1,169.254.0.0/16,fd00:ec2::/32,metadata.google.internal"
    rendered = options.for_obstore(BUCKET)
    assert rendered.client == {
        "allow_http": False,
        "timeout": timedelta(seconds=5),
        "proxy_url": "http://proxy:3128",
        "proxy_excludes": around,
        "root_certificate": b"-----BEGIN CERTIFICATE-----",
    }
    assert rendered.retry == {"retry_timeout": timedelta(seconds=7)}
    delta, names = options.for_delta(BUCKET), ("timeout", "retry_timeout", "proxy_url", "proxy_excludes")
    assert [delta[name] for name in names] == ["5s", "7s", "http://proxy:3128", around]


def test_times_of_any_length_are_told_as_delta_rs_reads_them() -> None:
    """Which knows no exponents, and said of the store that its settings cannot be read."""
    delta = http(timeout_seconds=0.25, retry_seconds=2_592_000).for_delta(BUCKET)
    assert (delta["timeout"], delta["retry_timeout"]) == ("0.25s", "2592000s")


def test_authorities_that_are_gone_by_the_time_they_are_needed_are_named(tmp_path: Path) -> None:
    authorities = tmp_path / "gone.pem"
    authorities.touch()
    options = http(ca_file=authorities)
    authorities.unlink()
    with pytest.raises(ConfigError, match=r"storage\.http\.ca_file: .*cannot be read"):
        options.for_obstore(BUCKET)


def test_what_delta_rs_reads_from_the_environment_alone() -> None:
    options, environment = s3(login={"role_arn": "arn:role", "web_identity_token_file": "/token"}), {"A": "b"}
    options.tell(GOOGLE, environment)
    StorageOptions().tell(BUCKET, environment)
    assert environment == {"A": "b"}
    options.tell(BUCKET, environment)
    assert environment == {
        "A": "b",
        "AWS_WEB_IDENTITY_TOKEN_FILE": "/token",
        "AWS_ROLE_ARN": "arn:role",
        "AWS_ROLE_SESSION_NAME": "distributary",
        ROLE_OF_ONE: "true",
    }


def test_who_asks_by_a_token_has_delta_rs_told_the_region() -> None:
    """Of AWS's token service, which it asks in the region that the environment says, and in none else."""
    told = {"AWS_WEB_IDENTITY_TOKEN_FILE": "/token", "AWS_ROLE_ARN": "arn:role"}
    for given in (s3(region="eu-central-1"), s3(region="eu-central-1", login=BY_TOKEN)):
        environment = {} if given.s3.login.role_arn else dict(told)
        given.tell(BUCKET, environment)
        assert environment["AWS_DEFAULT_REGION"] == "eu-central-1"
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
            said = {**environment, "AWS_DEFAULT_REGION": "", name: "us-west-2"}
            before = dict(said)
            given.tell(BUCKET, said)
            assert said == before
    # Where the settings say none, either, other programs' region would be guessed as well.
    for given in (
        s3(),
        *(s3(region="eu-central-1", login=login) for login in (KEYS, {"profile": "lake"})),
        s3(region="eu-central-1", endpoint="http://127.0.0.1:9000"),
    ):
        environment = dict(told)
        given.tell(BUCKET, environment)
        assert environment == told


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"s3": {"login": {"access_key_id": "AKIA"}}}, "access_key_id", "go together"),
    ({"s3": {"login": {"secret_access_key": "hush"}}}, "access_key_id", "go together"),
    ({"s3": {"login": {"session_token": "hush"}}}, "session_token", "needs its key"),
    ({"s3": {"login": {**KEYS, "profile": "me"}}}, "profile", "choose one"),
    ({"s3": {"login": {"web_identity_token_file": "/token"}}}, "web_identity_token_file", "needs its role"),
    ({"s3": {"encryption": {"kind": "AES256", "kms_key_id": "k"}}}, "kind", "KMS"),
    ({"s3": {"endpoint": "minio:9000"}}, "", "no http or https address"),
    ({"s3": {"endpoint": "https://me:hush@minio"}}, "", "take user and password out"),
    ({"s3": {"secret": "hush"}}, "", "no setting is called so"),
    ({"azure": {"account_key": "hush", "sas_token": "hush"}}, "sas_token", "choose one"),
    ({"azure": {"client_secret": "hush"}}, "client_secret", "tenant_id and client_id"),
    ({"azure": {"federated_token_file": "/t", "client_id": "c"}}, "federated_token_file", "tenant_id"),
    (
        {"gcs": {"service_account_key": "hush", "service_account_file": "/f"}},
        "service_account_key",
        "choose one",
    ),
    ({"http": {"proxy": "proxy:3128"}}, "", "no http or https address"),
]


@pytest.mark.parametrize(("given", "where", "said"), WRONG)
def test_what_does_not_go_together_is_told_without_its_secrets(
    given: dict[str, Any], where: str, said: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        StorageOptions.model_validate(given)
    found = [wrong for error in caught.value.errors() for wrong in wrong_by(error)]
    assert [keys for keys, _ in found] == [(where,) if where else ()]
    assert said in found[0][1]
    assert "hush" not in found[0][1] + str(caught.value)


def test_secrets_are_neither_shown_nor_dumped_and_masked_in_texts() -> None:
    options = s3(login=KEYS)
    assert "hush" not in repr(options) + str(options.model_dump()) + options.model_dump_json()
    assert options.masked("the key hush, until noon") == "the key ***, ***"
    assert azure(sas_token="sv=1&sig=2").masked("?sv=1&sig=2") == "?***"


def test_secrets_of_hadoops_client_are_not_shown_either() -> None:
    options = StorageOptions.model_validate(
        {"hdfs": {"ssl.client.keystore.password": "hush", "dfs.block.access.token.enable": True}}
    )
    shown = repr(options) + str(options.model_dump()) + options.model_dump_json()
    assert "hush" not in shown
    assert "ssl.client.keystore.password" in shown
    assert options.masked("it was hush") == f"it was {MASK}"
    assert options.for_delta(Place.parse("hdfs://node/lake"))["ssl.client.keystore.password"] == "hush"
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301


def test_options_go_to_the_workers_with_their_secrets() -> None:
    options = s3(login=KEYS)
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301


def test_none_is_what_an_environment_variable_without_a_value_leaves() -> None:
    login = {"access_key_id": "", "secret_access_key": "", "session_token": ""}
    options = StorageOptions.model_validate({"s3": {"endpoint": "", "login": login}}, context={})
    assert options == StorageOptions()


SAS = "sv=1&sig=hush"
PRINCIPAL = {"tenant_id": "t", "client_id": "c", "client_secret": "hush"}
STATIC = {"access_key_id": "AKIA", "secret_access_key": "hush"}
BY_TOKEN = {"role_arn": "arn:aws:iam::1:role/lake", "web_identity_token_file": "/token"}


@pytest.mark.parametrize(
    ("given", "place", "name"),
    [
        (s3(login=STATIC), BUCKET, "AWS_SESSION_TOKEN"),
        (s3(login=STATIC), BUCKET, "AWS_SKIP_SIGNATURE"),
        (s3(login={"profile": "lake"}), BUCKET, "AWS_SKIP_SIGNATURE"),
        (s3(login=BY_TOKEN), BUCKET, "AWS_ACCESS_KEY_ID"),
        (s3(endpoint="http://127.0.0.1:9000"), BUCKET, "AWS_ENDPOINT_URL_S3"),
        (azure(sas_token=SAS), CONTAINER, "AZURE_STORAGE_ACCOUNT_KEY"),
        (azure(sas_token=SAS), CONTAINER, "AZURE_STORAGE_TOKEN"),
        (azure(sas_token=SAS), CONTAINER, "AZURE_CLIENT_SECRET"),
        (azure(**PRINCIPAL), CONTAINER, "AZURE_STORAGE_ACCESS_KEY"),
        (azure(account_key="aHVzaA=="), CONTAINER, "AZURE_SKIP_SIGNATURE"),
        (gcs(service_account_file="/key.json"), GOOGLE, "GOOGLE_SERVICE_ACCOUNT_KEY"),
        (gcs(service_account_key="{}"), GOOGLE, "GOOGLE_SERVICE_ACCOUNT"),
        # obstore is that one, and delta-rs is not.
        (gcs(service_account_key="{}"), GOOGLE, "SERVICE_ACCOUNT"),
        (gcs(), GOOGLE, "SERVICE_ACCOUNT"),
        (azure(**PRINCIPAL), CONTAINER, "AZURE_FEDERATED_TOKEN_FILE"),
    ],
)
def test_who_asks_is_never_made_of_what_the_settings_and_the_environment_say(
    monkeypatch: pytest.MonkeyPatch, given: StorageOptions, place: Place, name: str
) -> None:
    monkeypatch.setenv(name, "planted")
    with pytest.raises(ConfigError, match=f"storage: {name} in the environment would be taken") as caught:
        given.for_obstore(place)
    assert "planted" not in str(caught.value)


IDS = ("AZURE_CLIENT_ID", "AZURE_TENANT_ID")


@pytest.mark.parametrize(
    ("names", "two"),
    [
        (("AZURE_STORAGE_SAS_TOKEN", "AZURE_FEDERATED_TOKEN_FILE", *IDS), True),
        (("AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE", *IDS), False),
        (("AZURE_STORAGE_SAS_TOKEN", "AZURE_CLIENT_SECRET", *IDS), True),
        (("AZURE_STORAGE_TOKEN", "AZURE_STORAGE_ACCOUNT_KEY"), True),
        (("AZURE_STORAGE_TOKEN", "AZURE_STORAGE_SAS_TOKEN"), True),
        (("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_FEDERATED_TOKEN_FILE", *IDS), False),
        (("AZURE_STORAGE_SAS_TOKEN", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_CLIENT_ID"), False),
        (("AZURE_FEDERATED_TOKEN_FILE", *IDS), False),
        (("AZURE_STORAGE_SAS_TOKEN",), False),
    ],
)
def test_tables_are_not_opened_as_another_one_than_files_are_where_azures_variables_name_two(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], two: bool
) -> None:
    """obstore takes a pod's identity before a signature, and delta-rs a signature before that. A token and a secret are of one client."""
    for name in names:
        monkeypatch.setenv(name, "planted")
    given = azure(account="games")
    given.for_obstore(CONTAINER)  # what has no tables is asked for by one of them alone
    if not two:
        given.for_delta(CONTAINER)
        return
    with pytest.raises(ConfigError, match=f"{names[1]}.* are two who would ask") as caught:
        given.for_delta(CONTAINER)
    assert names[0] in str(caught.value) and "planted" not in str(caught.value)


def test_a_signature_is_refused_where_obstore_alone_would_be_the_pods_identity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where Azure's webhook for workload identities has told the pod who it is."""
    for name in ("AZURE_FEDERATED_TOKEN_FILE", "AZURE_CLIENT_ID", "AZURE_TENANT_ID"):
        monkeypatch.setenv(name, "planted")
    with pytest.raises(ConfigError, match="storage: AZURE_FEDERATED_TOKEN_FILE in the environment"):
        azure(sas_token=SAS).for_obstore(CONTAINER)
    # By these both are the same, or what is said wins.
    same = dict.fromkeys(("client_id", "tenant_id", "client_secret"), "planted")
    for given in (azure(), azure(account_key="aHVzaA=="), azure(**same)):
        given.for_obstore(CONTAINER)
    with pytest.raises(ConfigError, match="AZURE_FEDERATED_TOKEN_FILE"):
        azure(**same | {"client_id": "other"}).for_obstore(CONTAINER)


@pytest.mark.parametrize(
    ("given", "place", "names"),
    [
        (s3(), BUCKET, ("AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL_S3")),
        (s3(login=KEYS), BUCKET, ("AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID", "AZURE_STORAGE_TOKEN")),
        (azure(), CONTAINER, ("AZURE_STORAGE_ACCOUNT_KEY", "AWS_SESSION_TOKEN")),
        (azure(account_key="aHVzaA=="), CONTAINER, ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_CLIENT_SECRET")),
        (gcs(), GOOGLE, ("GOOGLE_SERVICE_ACCOUNT",)),
        (gcs(service_account_file="/key.json"), GOOGLE, ("SERVICE_ACCOUNT",)),
        (gcs(), GOOGLE, ("SERVICE_ACCOUNT", "GOOGLE_APPLICATION_CREDENTIALS")),
        (gcs(), GOOGLE, ("SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT")),
        # Without its client and its tenant a token is nobody's.
        (azure(sas_token=SAS), CONTAINER, ("AZURE_FEDERATED_TOKEN_FILE", "AZURE_CLIENT_ID")),
    ],
)
def test_what_the_environment_says_of_other_matters_is_no_one_s_concern(
    monkeypatch: pytest.MonkeyPatch, given: StorageOptions, place: Place, names: tuple[str, ...]
) -> None:
    for name in names:
        monkeypatch.setenv(name, "planted")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "false")
    given.for_obstore(place)
