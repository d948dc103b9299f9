"""Keys of S3 that have to be asked for, of a profile and of a role, asked of a server that speaks STS."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from importlib.util import find_spec
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from types import SimpleNamespace
from typing import Any

import pytest
from tests.ingest.storage.stores import s3_store

from distributary.errors import ConfigError
from distributary.ingest.storage import aws_credentials, s3_options
from distributary.ingest.storage.answers.errors import NO_KEYS_YET
from distributary.ingest.storage.aws_credentials import AwsCredentials
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place

PLACE = Place.parse("s3://lake/tables")

BOTO3 = pytest.mark.skipif(
    find_spec("boto3") is None,
    reason="boto3 is not there: it needs an older python-dateutil than the lock has (make test-heavy)",
)

ROLE = "arn:aws:iam::123456789012:role/lake"


@pytest.fixture(scope="module")
def sts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with s3_store(tmp_path_factory.mktemp("sts"), "moto") as moto:
        yield moto.port


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
    s3_options._credentials.cache_clear()
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


@BOTO3
def test_files_are_asked_for_by_the_keys_of_a_role(sts: int) -> None:
    """boto3 says until when they are good by this machine's clock, and obstore takes no time but UTC's."""
    login = {"access_key_id": "AKIAME", "secret_access_key": "hush", "role_arn": ROLE}
    at = {"login": login, "endpoint": f"http://127.0.0.1:{sts}"}
    files = open_files(Place.parse("s3://lake/role"), StorageOptions.model_validate({"s3": at}))
    files.put("one", b"1")
    assert files.read("one") == b"1"


@BOTO3
@pytest.mark.parametrize(
    ("environment", "asked"),
    [({}, "eu-central-1"), ({"AWS_REGION": "eu-west-1"}, "eu-west-1"), ({"AWS_DEFAULT_REGION": "us-west-2"}, "us-west-2")],
)  # fmt: skip
def test_a_role_is_asked_for_in_the_region_that_is_said(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], asked: str
) -> None:
    """Without one boto3 asks AWS's first region, which a subnet without a way out does not reach, and whose keys newer regions do not take."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_STS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    hosts: list[str] = []

    def send(_: object, request: Any) -> None:
        hosts.append(request.url)
        raise EndpointConnectionError(endpoint_url=request.url)

    from botocore.exceptions import EndpointConnectionError  # noqa: PLC0415
    from botocore.httpsession import URLLib3Session  # noqa: PLC0415

    monkeypatch.setattr(URLLib3Session, "send", send)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    login = {"profile": "me", "role_arn": ROLE}
    given = StorageOptions.model_validate({"s3": {"login": login, "region": "eu-central-1"}})
    with pytest.raises(ConnectionError):
        given.for_delta(PLACE)
    assert hosts == [f"https://sts.{asked}.amazonaws.com/"]


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
@pytest.mark.parametrize(
    "way",
    [
        "credential_process = /no/such/program",
        "credential_process = echo hello",
        'credential_process = printf \'{"Version": 1, "AccessKeyId": "AKIA", "SecretAccessKey": "hush", "SessionToken": "t", "Expiration": "2020-01-01T00:00:00Z"}\'',
        f"role_arn = {ROLE}\nweb_identity_token_file = /no/token",
    ],
    ids=["no program", "garbage", "expired", "no token"],
)
def test_a_profile_s_program_or_file_that_gives_no_keys_is_no_table_that_is_missing_or_broken(
    tmp_path: Path, way: str
) -> None:
    """Nor does a moment of it count while the keys of before are good."""
    config = tmp_path / "config"
    config.write_text(f"[profile other]\n{way}\n")
    with pytest.raises(PermissionError, match=r"storage\.s3\.login: AWS gives no keys: .+") as told:
        options(profile="other").for_delta(PLACE)
    assert "hush" not in str(told.value)
    config.write_text(
        '[profile other]\ncredential_process = printf \'{"Version": 1, "AccessKeyId": "AKIA", "SecretAccessKey": "hush"}\'\n'
    )
    s3_options._credentials.cache_clear()
    credentials = options(profile="other").for_obstore(PLACE).credentials
    assert credentials is not None
    last = credentials()
    config.write_text(f"[profile other]\n{way}\n")
    last["expires_at"] = datetime.now(timezone.utc) + timedelta(minutes=1)
    assert credentials() is last


@BOTO3
def test_a_role_that_nobody_gives_is_told() -> None:
    credentials = options(profile="me", role_arn="no role").for_obstore(PLACE).credentials
    assert credentials is not None
    with pytest.raises(PermissionError, match="AWS gives no keys"):
        credentials()


@BOTO3
@pytest.mark.parametrize("port", ["nobody", "refusing"])
def test_who_gives_keys_may_be_away_as_a_store_may(
    monkeypatch: pytest.MonkeyPatch, sts: int, port: str
) -> None:
    """It is waited for then, and not once somebody has said that there are none."""
    at = f"http://127.0.0.1:{sts if port == 'refusing' else 9}"
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", at)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    login = {"profile": "me", "role_arn": ROLE if port == "nobody" else "no role"}
    told = ConnectionError if port == "nobody" else PermissionError
    given = StorageOptions.model_validate({"s3": {"login": login, "endpoint": "http://127.0.0.1:9"}})
    with pytest.raises(told, match="AWS gives no keys"):
        given.for_delta(PLACE)
    with pytest.raises(told, match="AWS gives no keys"):
        open_files(PLACE, given).read("a")


@BOTO3
@pytest.mark.parametrize("code", NO_KEYS_YET)
def test_who_gives_keys_to_too_many_at_once_is_waited_for(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """As many clusters may share the account that is counted; AWS answers with status 400, which is that of what is refused."""
    from botocore.exceptions import ClientError  # noqa: PLC0415

    def refused(**_: str) -> None:
        told: Any = {"Error": {"Code": code, "Message": "Rate exceeded"}}
        raise ClientError({**told, "ResponseMetadata": {"HTTPStatusCode": 400}}, "AssumeRole")

    sts = SimpleNamespace(assume_role=refused)
    session = SimpleNamespace(client=lambda _, region_name: sts, region_name=None)
    credentials = AwsCredentials({}, "me", ROLE, "tests")
    monkeypatch.setattr(credentials, "_session", session)
    with pytest.raises(ConnectionError, match=f"AWS gives no keys.*{code}"):
        credentials()
    assert credentials.away


def test_a_role_is_taken_on_anew_only_shortly_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    good_for = [timedelta(hours=1), timedelta(minutes=4), timedelta(hours=1)]
    taken: list[str] = []

    class Sts:
        """Gives keys that are good for a while."""

        region_name = None

        def __init__(self, **given: object) -> None: ...

        def client(self, service: str, region_name: str | None) -> Sts:
            return self

        def get_credentials(self) -> None: ...

        def assume_role(self, **asked: str) -> dict[str, dict[str, object]]:
            until = datetime.now(timezone.utc) + good_for[len(taken)]
            taken.append(asked["RoleArn"])
            keys = {"AccessKeyId": f"key {len(taken)}", "SecretAccessKey": "hush", "SessionToken": "token"}
            return {"Credentials": {**keys, "Expiration": until}}

    monkeypatch.setattr(aws_credentials, "boto3", SimpleNamespace(Session=Sts))
    given = options(profile="me", role_arn=ROLE)
    assert [given.for_delta(PLACE)["AWS_ACCESS_KEY_ID"] for _ in range(3)] == ["key 1"] * 3
    credentials = given.for_obstore(PLACE).credentials
    assert credentials is not None and credentials()["access_key_id"] == "key 1"
    credentials._last = None
    assert [credentials()["access_key_id"] for _ in range(3)] == ["key 2", "key 3", "key 3"]
    assert taken == [ROLE] * 3


def test_keys_that_are_still_good_do_while_nobody_gives_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[timedelta | None] = []
    answers = [timedelta(minutes=4), None, None, timedelta(hours=1)]

    def given(self: AwsCredentials) -> dict[str, Any]:
        asked.append(good_for := answers[len(asked)])
        if good_for is None:
            raise PermissionError("AWS gives no keys")
        until = datetime.now(timezone.utc) + good_for
        return {"access_key_id": f"key {len(asked)}", "expires_at": until}

    monkeypatch.setattr(aws_credentials, "boto3", SimpleNamespace(Session=lambda **_: None))
    monkeypatch.setattr(AwsCredentials, "_asked", given)
    credentials = AwsCredentials({}, "me", ROLE, "tests")
    assert [credentials()["access_key_id"] for _ in range(5)] == ["key 1"] * 5
    assert len(asked) == 2, "whoever does not answer is not asked for each request"
    assert credentials._last is not None
    credentials._last["expires_at"] = credentials._again = datetime.now(timezone.utc)
    with pytest.raises(PermissionError):
        credentials()
    assert [credentials()["access_key_id"] for _ in range(2)] == ["key 4"] * 2


def test_threads_that_need_keys_at_once_ask_for_them_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """boto3 told some of them "Infinite loop in credential configuration detected", of a profile with a role, and the tables of those failed."""
    met = Barrier(2)

    def given(self: AwsCredentials) -> dict[str, Any]:
        with suppress(BrokenBarrierError):
            met.wait(0.3)
            pytest.fail("two ask at once")
        return {"access_key_id": "key", "expires_at": datetime.now(timezone.utc) + timedelta(hours=1)}

    monkeypatch.setattr(aws_credentials, "boto3", SimpleNamespace(Session=lambda **_: None))
    monkeypatch.setattr(AwsCredentials, "_asked", given)
    credentials = AwsCredentials({}, "me", None, "tests")
    with ThreadPoolExecutor(4) as threads:
        found = [threads.submit(credentials) for _ in range(4)]
    assert [one.result()["access_key_id"] for one in found] == ["key"] * 4


class Keys(SimpleNamespace):
    """Keys of a session that was opened so many others later."""

    def get_frozen_credentials(self) -> SimpleNamespace:
        return SimpleNamespace(access_key=f"key {self.number}", secret_key="hush", token=None)  # noqa: S106


@pytest.mark.parametrize(
    ("renewing", "asked"), [({}, ["key 1", "key 2"]), ({"refresh_needed": 1}, ["key 1"] * 2)]
)
def test_keys_that_a_tool_writes_into_a_file_are_read_again_and_those_that_renew_themselves_are_kept(
    monkeypatch: pytest.MonkeyPatch, renewing: dict[str, int], asked: list[str]
) -> None:
    opened: list[object] = []

    def session(**_: object) -> SimpleNamespace:
        keys = Keys(number=len(opened) + 1, **renewing)
        opened.append(keys)
        return SimpleNamespace(get_credentials=lambda: keys)

    monkeypatch.setattr(aws_credentials, "boto3", SimpleNamespace(Session=session))
    monkeypatch.setattr(aws_credentials, "_BELIEVED", timedelta(0))
    given = options(profile="me")
    assert [given.for_delta(PLACE)["AWS_ACCESS_KEY_ID"] for _ in range(2)] == asked


def test_a_profile_is_not_asked_for_its_keys_at_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []

    def session(**_: object) -> SimpleNamespace:
        opened.append(object())
        return SimpleNamespace(get_credentials=lambda: Keys(number=len(opened)))

    monkeypatch.setattr(aws_credentials, "boto3", SimpleNamespace(Session=session))
    credentials = AwsCredentials({}, "me", None, "tests")
    found = [credentials() for _ in range(3)]
    assert [one["access_key_id"] for one in found] == ["key 1"] * 3
    # obstore takes keys that end within five minutes for those that have ended.
    assert found[-1]["expires_at"] - datetime.now(timezone.utc) > timedelta(minutes=5)


@BOTO3
def test_keys_in_a_file_of_aws_that_were_replaced_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aws_credentials, "_BELIEVED", timedelta(0))
    given = options(profile="me")
    assert given.for_delta(PLACE)["AWS_ACCESS_KEY_ID"] == "AKIAME"
    file = tmp_path / "credentials"
    file.write_text(file.read_text().replace("AKIAME", "AKIANEW"))
    assert given.for_delta(PLACE)["AWS_ACCESS_KEY_ID"] == "AKIANEW"


def test_without_boto3_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aws_credentials, "boto3", None)
    with pytest.raises(ConfigError, match=r"install distributary\[aws\]"):
        options(profile="me").for_obstore(PLACE)
