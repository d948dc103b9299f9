"""Where files are, as a settings file and a program say it, and how stores are reached."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tests.ingest.settings.test_model import SECRET, SMALL, problems, settings_from

from distributary.errors import ConfigError
from distributary.ingest.settings.model import Settings

STORE = """
storage:
  s3:
    endpoint: https://minio.example.com:9000
    login: {access_key_id: games, secret_access_key: "${PASSWORD}"}
    encryption: {kind: "aws:kms", kms_key_id: games}
  http: {ca_file: ./ca.pem, timeout_seconds: 10 s}
"""


def test_tables_and_inferred_schemas_may_be_in_a_store(tmp_path: Path) -> None:
    text = SMALL.replace("./lake", "s3://bucket/lake") + STORE
    text += "decode: {schema_location: gs://other/schemas}\n"
    settings = settings_from(tmp_path, text, PASSWORD=SECRET)
    assert str(settings.sink.root) == settings.effective()["sink"]["root"] == "s3://bucket/lake"
    assert str(settings.decode.schema_location) == "gs://other/schemas"
    assert settings.checkpoint.path == tmp_path / "checkpoints" / "games"
    assert settings.storage.http.ca_file == str(tmp_path / "ca.pem")
    delta = settings.storage.for_delta(settings.sink.root)
    assert (delta["AWS_SECRET_ACCESS_KEY"], delta["AWS_SSE_KMS_KEY_ID"]) == (SECRET, "games")
    assert SECRET not in json.dumps(settings.effective()) + repr(settings)


def test_a_secret_of_hadoops_client_comes_from_the_environment_alone(tmp_path: Path) -> None:
    text = (
        SMALL + "storage: {hdfs: {dfs.block.access.token.enable: true, ssl.client.keystore.password: %s}}\n"
    )
    settings = settings_from(tmp_path, text % '"${PASSWORD}"', PASSWORD=SECRET)
    assert settings.storage.hdfs["ssl.client.keystore.password"] == SECRET
    assert SECRET not in json.dumps(settings.effective()) + repr(settings)
    with pytest.raises(ConfigError, match=r"storage\.hdfs\.ssl\.client\.keystore\.password") as refused:
        settings_from(tmp_path, text % SECRET)
    assert SECRET not in str(refused.value)
    assert "token.enable" not in str(refused.value)


def test_a_url_from_python_is_a_text(tmp_path: Path) -> None:
    given = yaml.safe_load(SMALL)
    assert Settings.from_dict({**given, "sink": {"root": "s3://b/lake"}}).sink.root.kind == "s3"
    with pytest.raises(ConfigError, match=r"sink\.root: a Path makes one slash of two; give s3:// as a text"):
        Settings.from_dict({**given, "sink": {"root": Path("s3://b/lake")}})
    again = Settings.from_dict(given, tmp_path)
    assert Settings.from_dict({**given, "sink": {"root": again.sink.root}}).sink.root == again.sink.root


@pytest.mark.parametrize("text", ["s3:/bucket/lake", "s3//bucket/lake", "S3A:bucket/lake", "hdfs:/lake"])
def test_a_url_that_lacks_a_colon_or_a_slash_is_no_folder(tmp_path: Path, text: str) -> None:
    scheme = text.partition(":")[0].partition("/")[0]
    with pytest.raises(
        ConfigError, match=rf"sink\.root: it is no URL; write {scheme}://… for one, or ./{text}"
    ):
        settings_from(tmp_path, SMALL.replace("./lake", text))
    assert settings_from(tmp_path, SMALL.replace("./lake", f"./{text}")).sink.root.path == tmp_path / text


def test_a_mistake_in_how_a_store_is_reached_is_told_with_its_place(tmp_path: Path) -> None:
    text = SMALL + STORE.replace("kms_key_id", "kms_key").replace("access_key_id: games, ", "")
    assert [problem.split(": ")[:2] for problem in problems(tmp_path, text, PASSWORD=SECRET)] == [
        ["17:5", "storage.s3.login.access_key_id"],
        ["18:35", "storage.s3.encryption.kms_key"],
    ]
