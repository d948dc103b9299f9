"""AWS's own files, and variables, by which delta-rs would be another one than all else is."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.ingest.pipelines import settings

from distributary.errors import ConfigError
from distributary.ingest.derived.refresh import derive
from distributary.ingest.pipeline import open_pipeline
from distributary.ingest.quarantine.chosen import Chosen
from distributary.ingest.quarantine.contents import contents, records
from distributary.ingest.quarantine.purging import Wish, purge
from distributary.ingest.rebuild.dry import lacking
from distributary.ingest.replay.bring_back import bring_back
from distributary.ingest.settings.model import Settings
from distributary.ingest.storage.object_store import ObjectFiles
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.options import Http, StorageOptions
from distributary.ingest.storage.place import Place
from distributary.ingest.table_versions import versions_at
from distributary.ingest.tables.handle import opened
from distributary.ingest.upkeep.maintain import maintain
from distributary.producer_sim.verify.lake import Lake

BUCKET = Place.parse("s3://lake/tables")

KEYS = {"access_key_id": "AKIA", "secret_access_key": "hush"}


def s3(**given: Any) -> StorageOptions:
    return StorageOptions.model_validate({"s3": given})


# What AWS's own files say by default, of a named profile, and in the form that its second file has.
FILES_OF_AWS = [
    ("credentials", "[default]\naws_access_key_id = AKIA\naws_secret_access_key = hush\n", {}),
    (
        "credentials",
        "[lake]\naws_access_key_id = AKIA\naws_secret_access_key = hush\n",
        {"AWS_PROFILE": "lake"},
    ),
    ("config", "[default]\nsso_session = us\n", {}),
    ("config", "[profile lake]\ncredential_process = keys\n", {"AWS_PROFILE": "lake"}),
    ("config", "[profile default]\nsso_session = us\n[default]\nregion = eu-central-1\n", {}),
    ("credentials", "[ lake ]\naws_access_key_id = AKIA\n", {"AWS_PROFILE": "lake"}),
    ("mine", "[default]\naws_access_key_id = AKIA\n", {"AWS_SHARED_CREDENTIALS_FILE": "~/.aws/mine"}),
]


@pytest.mark.parametrize(("name", "text", "environment"), FILES_OF_AWS)
def test_a_role_by_a_token_is_refused_where_delta_rs_would_take_the_keys_of_a_profile(
    tmp_path: Path, name: str, text: str, environment: dict[str, str]
) -> None:
    """It asked as that one, and all else as the settings say."""
    (tmp_path / ".aws").mkdir()
    file = tmp_path / ".aws" / name
    file.write_text(text)
    options = s3(login={"role_arn": "arn:role", "web_identity_token_file": "/token"})
    with pytest.raises(ConfigError, match=f"{file} .*AWS_SHARED_CREDENTIALS_FILE") as caught:
        options.require_delta_alike(BUCKET, {"HOME": str(tmp_path), **environment})
    assert "hush" not in str(caught.value)
    file.write_text("[default]\nregion = eu-central-1\n[profile other]\nsso_session = us\n")
    options.require_delta_alike(BUCKET, {"HOME": str(tmp_path), **environment})
    file.write_text("no section\n")
    options.require_delta_alike(BUCKET, {"HOME": str(tmp_path), **environment})
    file.write_text(text)
    elsewhere = dict.fromkeys(("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"), "/dev/null")
    options.require_delta_alike(BUCKET, {"HOME": str(tmp_path), **environment, **elsewhere})


@pytest.mark.parametrize(("name", "text", "environment"), FILES_OF_AWS)
def test_who_names_nobody_is_refused_where_delta_rs_would_take_the_keys_of_a_profile(
    tmp_path: Path, name: str, text: str, environment: dict[str, str]
) -> None:
    """All else asks with the role of the machine, of the container or of the pod."""
    (tmp_path / ".aws").mkdir()
    file = tmp_path / ".aws" / name
    file.write_text(text)
    told = {"HOME": str(tmp_path), **environment}
    with pytest.raises(ConfigError, match=f"{file} .*AWS_SHARED_CREDENTIALS_FILE"):
        StorageOptions().require_delta_alike(BUCKET, dict(told))
    with pytest.raises(ConfigError, match="would take before the role"):
        StorageOptions().require_delta_alike(
            BUCKET, {**told, "AWS_ROLE_ARN": "r", "AWS_WEB_IDENTITY_TOKEN_FILE": "/token"}
        )
    # What is told wins, and stores that are not AWS's it asks with that alone.
    for options in (s3(login=KEYS), s3(login={"role_arn": "r"}), s3(endpoint="http://127.0.0.1:9000")):
        options.require_delta_alike(BUCKET, dict(told))
    keys = {"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "hush"}
    for more in (keys, {"AWS_ENDPOINT_URL": "https://minio.example.com"}, {"AWS_SKIP_SIGNATURE": "true"}):
        StorageOptions().require_delta_alike(BUCKET, {**told, **more})


@pytest.mark.parametrize("name", ["AWS_IAM_ROLE_ARN", "AWS_S3_ASSUME_ROLE_ARN"])
def test_who_names_nobody_is_refused_where_delta_rs_would_take_on_a_role_of_its_own(name: str) -> None:
    """All else asks by the keys that the environment has, with which delta-rs takes it on."""
    told = {name: "arn:role", "AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "hush"}
    with pytest.raises(ConfigError, match=rf"{name} .*storage\.s3\.login\.role_arn"):
        StorageOptions().require_delta_alike(BUCKET, dict(told))
    StorageOptions().require_delta_alike(BUCKET, {**told, "AWS_ENDPOINT_URL": "https://minio.example.com"})


@pytest.mark.parametrize(
    ("text", "environment"),
    [
        # The longer title of the default profile wins, and a variable that is empty names no file.
        ("[profile default]\nregion = eu-central-1\n[default]\nsso_session = us\n", {}),
        ("[default]\nsso_session = us\n", {"AWS_CONFIG_FILE": ""}),
    ],
)
def test_keys_that_delta_rs_does_not_take_are_no_reason_to_refuse_a_run(
    tmp_path: Path, text: str, environment: dict[str, str]
) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text(text)
    StorageOptions().require_delta_alike(BUCKET, {"HOME": str(tmp_path), **environment})


def test_a_pods_role_that_a_profile_says_as_well_is_nobody_else(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("[default]\nrole_arn = r\nweb_identity_token_file = /token\n")
    told = {"AWS_CONFIG_FILE": str(file), "AWS_ROLE_ARN": "r", "AWS_WEB_IDENTITY_TOKEN_FILE": "/token"}
    StorageOptions().require_delta_alike(BUCKET, told)


def test_a_profile_that_says_the_same_role_by_the_same_token_is_nobody_else(tmp_path: Path) -> None:
    """As where AWS's other tools on the machine are told of it by their file."""
    login = {"role_arn": "arn:role", "web_identity_token_file": "/token"}
    file = tmp_path / "config"
    file.write_text("[default]\nrole_arn = arn:role\nweb_identity_token_file = /token\n")
    environment = {"AWS_CONFIG_FILE": str(file)}
    s3(login=login).require_delta_alike(BUCKET, environment)
    s3(login=login).tell(BUCKET, environment)
    assert environment["AWS_ROLE_ARN"] == "arn:role"
    for other in ({**login, "role_arn": "arn:other"}, {**login, "web_identity_token_file": "/other"}):
        with pytest.raises(ConfigError, match="would take before the role"):
            s3(login=other).require_delta_alike(BUCKET, {"AWS_CONFIG_FILE": str(file)})


@pytest.mark.parametrize(
    ("given", "name"),
    [(s3(login=KEYS), "AWS_IAM_ROLE_ARN"), (s3(login={"profile": "lake"}), "AWS_S3_ASSUME_ROLE_ARN")],
)
def test_a_role_is_refused_that_delta_rs_would_take_on_before_it_looks_at_the_keys_that_it_is_given(
    given: StorageOptions, name: str
) -> None:
    with pytest.raises(ConfigError, match=f"storage: {name} in the environment would be taken"):
        given.require_delta_alike(BUCKET, {name: "arn:role"})


OWN = {"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "hush"}


@pytest.mark.parametrize(
    ("given", "environment", "name"),
    [
        # It would be told to the store, which knows of no such token, whatever it is for.
        (s3(login=KEYS, endpoint="http://127.0.0.1:9000"), {}, "TOKEN"),
        (s3(), {**OWN, "AWS_SESSION_TOKEN": "until noon"}, "TOKEN"),
        (s3(), OWN, "SESSION_TOKEN"),
        (s3(), {"SECRET_ACCESS_KEY": "hush"}, "ACCESS_KEY_ID"),
        # The tables would be looked for there, and all else where the settings say.
        (s3(login=KEYS), {}, "ENDPOINT"),
        (s3(), {}, "ENDPOINT_URL"),
    ],
)
def test_what_delta_rs_would_take_for_a_variable_of_aws_is_refused(
    monkeypatch: pytest.MonkeyPatch, given: StorageOptions, environment: dict[str, str], name: str
) -> None:
    for variable, value in {**environment, name: "planted"}.items():
        monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=f"delta-rs would take {name} in the environment") as caught:
        given.for_delta(BUCKET)
    assert "planted" not in str(caught.value)


def test_what_delta_rs_does_not_take_for_a_variable_of_aws_is_no_ones_concern(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("TOKEN", "ENDPOINT", "AWS_ENDPOINT_URL", "ACCESS_KEY_ID"):
        monkeypatch.setenv(name, "http://127.0.0.1:9000")
    with_token = {**KEYS, "session_token": "until noon"}
    for given in (s3(), s3(endpoint="http://127.0.0.1:9000"), s3(login=with_token)):
        given.for_delta(BUCKET)


@pytest.mark.parametrize(
    ("given", "environment"),
    [
        (s3(login=KEYS), {"TOKEN": "planted", "ENDPOINT": "planted"}),
        (s3(), {**OWN, "TOKEN": "planted"}),
        (s3(), {"AWS_IAM_ROLE_ARN": "arn:role"}),
        (s3(login=KEYS), {"AWS_IAM_ROLE_ARN": "arn:role"}),
        (s3(), {"AWS_SHARED_CREDENTIALS_FILE": "credentials"}),
    ],
)
def test_who_opens_no_table_there_is_not_stopped_by_what_delta_rs_alone_would_take(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: StorageOptions, environment: dict[str, str]
) -> None:
    """As where the checkpoint alone is in S3, or what lands there, and on an executor."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "credentials").write_text("[default]\naws_access_key_id = AKIA\n")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = open_files(Place.parse("s3://no-tables/checkpoint"), given)
    assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301
    with pytest.raises(ConfigError):
        _ = found.options


def start(given: Settings) -> None:
    nothing: Any = None
    with open_pipeline(given, nothing, nothing, nothing):
        pytest.fail("it was opened")


def derive_all(given: Settings) -> None:
    nothing: Any = None
    derive(given, nothing)


@pytest.mark.parametrize(
    "command",
    [
        *(start, derive_all, maintain, versions_at, contents, Lake.of, lacking, bring_back),
        partial(records, chosen=Chosen()),
        partial(purge, wish=Wish(older_than_days=1.0)),
    ],
)
def test_who_opens_tables_there_is_told_once_and_before_the_store_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: Callable[[Settings], object]
) -> None:
    """Table by table it was taken for what is wrong with each of them, and to be mended there."""
    for name, value in {**OWN, "TOKEN": "planted"}.items():
        monkeypatch.setenv(name, value)
    nobody = {"s3": {"endpoint": "http://127.0.0.1:1"}, "http": {"retry_seconds": 0}}
    given = settings(tmp_path, sink={"root": "s3://no-tables/lake"}, bronze={}, storage=nobody)
    with pytest.raises(ConfigError, match=r"^storage: delta-rs would take TOKEN"):
        command(given)


def test_keys_that_delta_rs_is_made_to_ask_for_as_at_aws_are_looked_for_at_other_stores_too(
    tmp_path: Path,
) -> None:
    """By a variable that is left from when it needed locks in DynamoDB, beside an address such as that of a VPC."""
    file = tmp_path / "credentials"
    file.write_text("[default]\naws_access_key_id = AKIA\n")
    told = {"AWS_SHARED_CREDENTIALS_FILE": str(file), "AWS_IAM_ROLE_ARN": "arn:role"}
    forced = {"AWS_S3_LOCKING_PROVIDER": "dynamodb"}
    near = s3(endpoint="https://bucket.vpce-1.s3.eu-central-1.vpce.amazonaws.com")
    near.require_delta_alike(BUCKET, told)
    with pytest.raises(ConfigError, match="AWS_IAM_ROLE_ARN"):
        near.require_delta_alike(BUCKET, {**told, **forced})
    del told["AWS_IAM_ROLE_ARN"]
    with pytest.raises(ConfigError, match=f"{file} has keys"):
        near.require_delta_alike(BUCKET, {**told, **forced})
    role = {"role_arn": "arn:role", "web_identity_token_file": "/token"}
    environment = dict(forced)
    s3(endpoint="https://minio.example.com", login=role).tell(BUCKET, environment)
    assert environment["AWS_ROLE_ARN"] == "arn:role"


def test_a_region_of_another_meaning_is_not_taken_where_nobody_says_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All else asks in the first of all regions then, which is what stores of one's own are in by default."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("REGION", "DEFAULT_REGION"):
        monkeypatch.setenv(name, "planted")
    assert s3(endpoint="http://127.0.0.1:9000").for_delta(BUCKET)["AWS_REGION"] == "us-east-1"


def test_other_programs_patience_keeps_no_table_from_being_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a number of seconds for no time at all, and the store is not even asked."""
    monkeypatch.setenv("CONNECT_TIMEOUT", "10")
    nobody = s3(endpoint="http://127.0.0.1:1", region="us-east-1", login=KEYS).model_copy(
        update={"http": Http(retry_seconds=0)}
    )
    with pytest.raises(OSError, match="Connection refused"):
        opened(open_files(BUCKET, nobody))


def test_aws_own_variables_win_over_what_delta_rs_takes_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """It took whichever came first in the environment."""
    own = {"AWS_ENDPOINT": "http://127.0.0.1:9000", "AWS_DEFAULT_REGION": "eu-central-1"}
    for name, value in {"ENDPOINT": "http://127.0.0.1:9", "REGION": "planted", **own}.items():
        monkeypatch.setenv(name, value)
    told = s3().for_delta(BUCKET)
    assert (told["AWS_ENDPOINT_URL"], told["AWS_REGION"]) == (*own.values(),)
    assert s3(region="eu-west-1").for_delta(BUCKET)["AWS_REGION"] == "eu-west-1"


def test_files_and_tables_are_in_one_store_where_the_environment_names_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """obstore took either of them, and delta-rs is told the one of AWS's own tools."""
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        monkeypatch.setenv(name, f"http://127.0.0.1:1/{name.lower()}")
    asked = s3(login=KEYS, region="us-east-1").model_copy(update={"http": Http(retry_seconds=0)})
    assert asked.for_delta(BUCKET)["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1/aws_endpoint_url"
    with pytest.raises(OSError, match="/aws_endpoint_url/"):
        open_files(Place.parse("s3://named-twice/lake"), asked).read("one")


@pytest.mark.parametrize(
    "open_one",
    [ObjectFiles, lambda place, given: open_files(place, given).options],
    ids=["for files first", "for tables first"],
)
def test_variables_of_aws_that_are_empty_are_none(
    monkeypatch: pytest.MonkeyPatch, open_one: Callable[[Place, StorageOptions], Any]
) -> None:
    """As containers are given them, and AWS's own tools take them: an empty token was sent, and refused, and an empty address made the client panic."""
    names = ("AWS_SESSION_TOKEN", "AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION")
    for name in names:
        monkeypatch.setenv(name, "")
    nobody = s3(endpoint="http://127.0.0.1:1", region="us-east-1", login=KEYS).model_copy(
        update={"http": Http(retry_seconds=0)}
    )
    place = Place.parse("s3://empty-variables/lake")
    open_one(place, nobody)
    with pytest.raises(OSError, match=r"Connection refused|error sending request"):
        open_files(place, nobody).read("one")
    assert not os.environ.keys() & {*names}


def test_keys_of_a_container_that_delta_rs_alone_would_take_are_refused() -> None:
    """As aws-vault and AWS's CloudShell give them: obstore asked the machine for those of its role."""
    told = {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:9/keys",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN": "planted",
    }
    for environment in (told, {**told, "AWS_ACCESS_KEY_ID": "AKIA"}, {**told, "AWS_ROLE_ARN": "arn:role"}):
        with pytest.raises(
            ConfigError, match=r"_FULL_URI .*AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"
        ) as caught:
            StorageOptions().require_delta_alike(BUCKET, environment)
        assert "planted" not in str(caught.value)
    # Both take it, or somebody else first.
    for more in (
        {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/token"},
        {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/keys"},
        {"AWS_ROLE_ARN": "arn:role", "AWS_WEB_IDENTITY_TOKEN_FILE": "/token"},
        {"AWS_ENDPOINT_URL": "https://minio.example.com"},
        OWN,
    ):
        StorageOptions().require_delta_alike(BUCKET, {**told, **more})
    for given in (s3(login=KEYS), s3(login={"profile": "lake"}), s3(endpoint="http://127.0.0.1:9000")):
        given.require_delta_alike(BUCKET, told)
