"""Which implementation answers for a place, and how often it is made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from distributary.errors import ConfigError
from distributary.ingest.storage.numbered import numbered
from distributary.ingest.storage.object_store import ObjectFiles
from distributary.ingest.storage.opening import files_at, open_files
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place
from distributary.ingest.storage.posix import PosixFiles
from distributary.ingest.storage.s3_options import ROLE_OF_ONE

OTHERS = StorageOptions.model_validate({"s3": {"region": "eu-central-1"}})


def test_a_path_is_a_folder_and_a_url_a_store(tmp_path: Path) -> None:
    assert isinstance(files_at(tmp_path), PosixFiles)
    assert files_at(tmp_path).url == str(tmp_path)
    assert files_at(tmp_path).options == {}
    for url in ("s3://lake/tables", "abfss://lake@account.dfs.core.windows.net/tables", "gs://lake/tables"):
        assert isinstance(files_at(url), ObjectFiles)
        assert files_at(url).url == url


def client_at(url: str, given: StorageOptions = StorageOptions()) -> object:  # noqa: B008 it is frozen
    found = files_at(url, given)
    assert isinstance(found, ObjectFiles)
    return found._client


def test_all_places_of_one_store_and_options_share_their_connections() -> None:
    one = client_at("s3://lake/tables")
    assert client_at("s3://lake/tables/") is client_at("s3://lake/other") is one
    assert client_at("s3://lake/tables", OTHERS) is not one
    assert client_at("s3://pond/tables") is not one
    assert open_files(Place.parse("s3://lake/tables"), OTHERS).url == "s3://lake/tables"


def test_what_delta_rs_reads_from_the_environment_alone_is_there_once_a_store_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME")
    for name in (*names, ROLE_OF_ONE, "AWS_DEFAULT_REGION"):
        # Set and then taken away, so that it is gone again after the test.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ROLE_SESSION_NAME", "mine")
    login = {"role_arn": "arn:aws:iam::123456789012:role/lake", "web_identity_token_file": "/token"}
    given = StorageOptions.model_validate({"s3": {"region": "eu-central-1", "login": login}})
    files_at("/lake", given)
    assert "AWS_ROLE_ARN" not in os.environ
    files_at("s3://token/lake", given)
    assert [os.environ[name] for name in names] == ["/token", login["role_arn"], "mine"]


@pytest.mark.parametrize("name", ["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"])
def test_a_role_is_refused_that_delta_rs_would_not_take_on(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As in a container that has another one, or behind another pipeline of the program: to AWS it reads it from the environment alone."""
    login = {"role_arn": "arn:aws:iam::123456789012:role/lake", "web_identity_token_file": "/token"}
    for one in (
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_ROLE_ARN",
        "AWS_ROLE_SESSION_NAME",
        "AWS_DEFAULT_REGION",
    ):
        monkeypatch.setenv(one, "")
        monkeypatch.delenv(one)
    monkeypatch.setenv(name, "planted")
    given = StorageOptions.model_validate({"s3": {"region": "eu-central-1", "login": login}})
    with pytest.raises(ConfigError, match=f"storage: {name} in the environment would be taken") as caught:
        files_at("s3://another-role/lake", given)
    assert "planted" not in str(caught.value)
    elsewhere = {"endpoint": "https://minio.example.com", "login": login}
    files_at("s3://another-role/lake", StorageOptions.model_validate({"s3": elsewhere}))
    assert os.environ[name] == "planted"


# The last one is who gives keys for another role: that is whoever the environment says.
AS_THE_ENVIRONMENT_SAYS = [{}, {"region": "eu-central-1"}, {"login": {"role_arn": "arn:aws:iam::1:role/b"}}]


@pytest.mark.parametrize("unnamed", AS_THE_ENVIRONMENT_SAYS)
def test_nobody_else_of_a_program_asks_as_the_role_that_one_pipeline_has_taken_on(
    monkeypatch: pytest.MonkeyPatch, unnamed: dict[str, object]
) -> None:
    """One whose settings name nobody would be taken for that role, silently, where it has the machine's in a process of its own."""
    for name in (
        *("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME"),
        *("AWS_DEFAULT_REGION", ROLE_OF_ONE),
    ):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    by_token = {"role_arn": "arn:aws:iam::1:role/a", "web_identity_token_file": "/token"}
    nobody = StorageOptions.model_validate({"s3": unnamed})
    before = files_at("s3://opened-before/lake", nobody)
    files_at("s3://one/lake", StorageOptions.model_validate({"s3": {"login": by_token}}))
    refused = pytest.raises(
        ConfigError, match=r"AWS_ROLE_ARN, AWS_WEB_IDENTITY_TOKEN_FILE .*another pipeline"
    )
    with refused:
        files_at("s3://opened-behind/lake", nobody)
    # delta-rs looks into the environment each time that it opens a table.
    with refused:
        _ = before.options
    keys = {"access_key_id": "AKIA", "secret_access_key": "hush"}
    assert files_at("s3://by-keys/lake", StorageOptions.model_validate({"s3": {"login": keys}})).options


def test_a_role_that_the_environment_had_before_is_everybodys(monkeypatch: pytest.MonkeyPatch) -> None:
    by_token = {"role_arn": "arn:aws:iam::1:role/a", "web_identity_token_file": "/token"}
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/token")
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/a")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ROLE_SESSION_NAME", "mine")
    files_at("s3://same-role/lake", StorageOptions.model_validate({"s3": {"login": by_token}}))
    assert files_at("s3://same-role/lake").options


def test_what_is_open_already_is_answered_as_it_is(tmp_path: Path) -> None:
    for place in (tmp_path, "s3://lake/tables"):
        one = files_at(place)
        assert files_at(one) is one
        assert files_at(one, OTHERS) is one


FORKING = """
import os
from distributary.ingest.storage.opening import files_at
one = files_at("s3://lake/tables")._client
child = os.fork()
if child == 0:
    os._exit(int(files_at("s3://lake/tables")._client is one))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), files_at("s3://lake/tables")._client is one)
"""


def test_a_forked_child_opens_stores_of_its_own() -> None:
    told = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, check=True)
    assert told.stdout == "0 True\n"


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    monkeypatch.delitem(sys.modules, "distributary.ingest.storage.hdfs", raising=False)
    with pytest.raises(ConfigError, match=r"hdfs://node/lake: .*hdfs_native.*install distributary\[hdfs\]"):
        files_at("hdfs://node/lake")


def test_files_with_numbers_for_names_are_in_their_order(tmp_path: Path) -> None:
    for name in ("2.json", "10.json", "0.json", "x.json", "-1.json", "٣.json", "3.txt", "4"):
        (tmp_path / name).touch()
    (tmp_path / "5.json").mkdir()
    assert numbered(files_at(tmp_path), "", ".json") == [0, 2, 10]
    assert numbered(files_at(tmp_path), "") == [4]
    assert numbered(files_at(tmp_path), "nowhere", ".json") == []
