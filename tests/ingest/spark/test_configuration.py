from __future__ import annotations

import re
from pathlib import Path

import pytest

from distributary.ingest.spark import daemon
from distributary.ingest.spark.configuration import (
    LOG_SETTINGS,
    REDACTED,
    laid_over,
    on_this_machine,
    retrying,
    settings,
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("local", "local[1,4]"),
        ("local[3]", "local[3,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local[*,8]", "local[*,8]"),
        ("spark://host:7077", "spark://host:7077"),
        ("yarn", "yarn"),
    ],
)
def test_local_tasks_are_tried_again_unless_the_user_says_how_often(given: str, expected: str) -> None:
    assert retrying(given) == expected


@pytest.mark.parametrize("master", ["local[*,4]", "local", "spark://127.0.0.1:7077", "spark://localhost:1"])
def test_a_master_on_this_machine_stays_on_loopback(master: str) -> None:
    assert on_this_machine(master)
    assert settings(master, [])["spark.driver.bindAddress"] == "127.0.0.1"


@pytest.mark.parametrize(
    "master", ["yarn", "spark://10.0.0.7:7077", "k8s://https://host", "spark://localhost.example:1"]
)
def test_a_master_elsewhere_keeps_its_own_addresses_and_sizes(master: str) -> None:
    assert not on_this_machine(master)
    assert not {"spark.driver.host", "spark.driver.memory", "spark.sql.shuffle.partitions"} & set(
        settings(master, [])
    )


def test_the_users_settings_win_and_lists_are_joined() -> None:
    ours = settings("local", [Path("/ours.jar")])
    theirs = {
        "spark.jars": "/theirs.jar",
        "spark.sql.extensions": "com.example.Extension",
        "spark.driver.extraJavaOptions": "-Dx=1",
        "spark.sql.session.timeZone": "Europe/Berlin",
    }
    joined = laid_over(ours, theirs)
    assert joined["spark.jars"] == "/ours.jar,/theirs.jar"
    assert joined["spark.sql.extensions"].endswith(",com.example.Extension")
    assert joined["spark.driver.extraJavaOptions"].endswith(" -Dx=1")
    assert joined["spark.sql.session.timeZone"] == "Europe/Berlin"
    assert laid_over(joined, theirs) == joined, "what is in is not put in twice"


@pytest.mark.parametrize(
    "secret",
    [
        "basic.auth.user.info",
        "kafka.sasl.jaas.config",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net",
        "spark.hadoop.fs.azure.sas.container.lake.blob.core.windows.net",
        "spark.hadoop.fs.s3a.encryption.key",
        "spark.hadoop.fs.gs.auth.service.account.private.key",
        "AWS_ACCESS_KEY_ID",
        "bearer_token",
        "ssl.key.Password",
        "Authorization",
    ],
)
def test_secrets_are_redacted_by_name(secret: str) -> None:
    assert re.search(REDACTED, secret)


def test_ordinary_options_are_not_redacted() -> None:
    assert not any(
        re.search(REDACTED, name) for name in ("bootstrap.servers", "spark.app.name", "spark.jars")
    )


def test_log_settings_are_shipped() -> None:
    assert LOG_SETTINGS.is_file()


def test_workers_are_forked_ready_where_their_python_is_the_drivers() -> None:
    assert settings("local[2]", [])["spark.python.daemon.module"] == daemon.__name__
    assert "spark.python.daemon.module" not in settings("spark://127.0.0.1:7077", [])
