"""Keys of S3 that have to be asked for, of a profile and of a role, asked of a server that speaks STS."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.ingest.storage.stores import moto

from distributary.errors import ConfigError
from distributary.ingest.storage import aws_credentials
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place

PLACE = Place.parse("s3://lake/tables")

BOTO3 = pytest.mark.skipif(
    find_spec("boto3") is None,
    reason="boto3 is not there: it needs an older python-dateutil than the lock has",
)

ROLE = "arn:aws:iam::123456789012:role/lake"


@pytest.fixture(scope="module")
def sts() -> Iterator[int]:
    with moto() as port:
        yield port


@pytest.fixture(autouse=True)
def _own_aws_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sts: int) -> None:
    (tmp_path / "credentials").write_text(
        "[me]\naws_access_key_id = AKIAME\naws_secret_access_key = hush\n[nobody]\nregion = eu-central-1\n"
    )
    (tmp_path / "config").write_text("")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{sts}")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    # Nobody else's keys, and no machine is asked who it is.
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def options(**login: str) -> StorageOptions:
    return StorageOptions.model_validate({"s3": {"login": login}})


@BOTO3
def test_a_profile_s_keys_go_to_both() -> None:
    given = options(profile="me")
    credentials = given.for_obstore(PLACE).credentials
    assert credentials is not None
    keys = credentials()
    assert (keys["access_key_id"], keys["secret_access_key"], keys["token"]) == ("AKIAME", "hush", None)
    assert keys["expires_at"] > datetime.now(timezone.utc)
    delta = given.for_delta(PLACE)
    assert (delta["AWS_ACCESS_KEY_ID"], delta["AWS_SECRET_ACCESS_KEY"]) == ("AKIAME", "hush")
    assert "AWS_SESSION_TOKEN" not in delta
    assert "access_key_id" not in given.for_obstore(PLACE).config


@BOTO3
@pytest.mark.parametrize(
    "login",
    [{"profile": "me"}, {"access_key_id": "AKIAME", "secret_access_key": "hush"}],
    ids=["profile", "key"],
)
def test_a_role_is_taken_on_by_a_profile_or_a_key(login: dict[str, str]) -> None:
    given = options(**login, role_arn=ROLE)
    credentials = given.for_obstore(PLACE).credentials
    assert credentials is not None
    keys = credentials()
    assert keys["access_key_id"] != "AKIAME" and keys["token"]
    assert keys["expires_at"] > datetime.now(timezone.utc)
    delta = given.for_delta(PLACE)
    assert delta["AWS_ACCESS_KEY_ID"] != "AKIAME" and delta["AWS_SESSION_TOKEN"]
    assert "role_arn" not in given.for_obstore(PLACE).config


def test_a_role_by_a_token_is_left_to_obstore() -> None:
    given = options(role_arn=ROLE, web_identity_token_file="/token")  # noqa: S106
    assert given.for_obstore(PLACE).credentials is None
    assert given.for_obstore(PLACE).config["role_arn"] == ROLE


@BOTO3
def test_a_profile_that_is_not_there_is_told() -> None:
    with pytest.raises(ConfigError, match=r"storage\.s3\.login: .*\(them\)"):
        options(profile="them").for_obstore(PLACE)


@BOTO3
def test_a_profile_without_keys_is_told() -> None:
    credentials = options(profile="nobody").for_obstore(PLACE).credentials
    assert credentials is not None
    with pytest.raises(PermissionError, match="has no keys"):
        credentials()


@BOTO3
def test_a_role_that_nobody_gives_is_told() -> None:
    credentials = options(profile="me", role_arn="no role").for_obstore(PLACE).credentials
    assert credentials is not None
    with pytest.raises(PermissionError, match="AWS gives no keys"):
        credentials()


def test_without_boto3_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aws_credentials, "boto3", None)
    with pytest.raises(ConfigError, match=r"install distributary\[aws\]"):
        options(profile="me").for_obstore(PLACE)
