"""The settings on a catalog: what cannot be is told before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distributary.errors import ConfigError
from distributary.ingest.catalog.metastore import session_settings
from distributary.ingest.session import spark_conf
from distributary.ingest.settings.catalog import Catalog
from distributary.ingest.settings.groups import Limits, Spark
from distributary.ingest.settings.model import Settings


def settings(tmp_path: Path, catalog: dict[str, Any], **more: Any) -> Settings:
    told: dict[str, Any] = {
        "name": "games",
        "source": {"kafka": {"bootstrap.servers": "127.0.0.1:9092"}, "topics": ["events"]},
        "registry": {"url": "http://127.0.0.1:8081"},
        "decode": {"format": "avro"},
        "route": {"by": "record"},
        "sink": {"root": "lake"},
        "catalog": catalog,
    }
    return Settings.from_dict({**told, **more}, tmp_path)


@pytest.mark.parametrize(
    ("catalog", "why"),
    [
        ({"database": "bronze", "name": "{topic}"}, "records are routed by record"),
        ({"database": "bronze", "name": "events"}, "all tables would have this name"),
        ({"database": "bronze", "name": "{game}"}, "{game} stands for nothing"),
        ({"database": "unity.bronze"}, "spark.conf does not say what catalog unity is"),
        ({"database": "a b"}, "catalog.database"),
    ],
)
def test_what_cannot_be_is_told(tmp_path: Path, catalog: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError) as told:
        settings(tmp_path, catalog)
    assert why in str(told.value)


def test_by_default_names_are_kept_beside_the_settings(tmp_path: Path) -> None:
    chosen = settings(tmp_path, {"database": "bronze"})
    assert chosen.catalog is not None
    assert chosen.catalog.metastore == tmp_path / "metastore"
    conf = spark_conf(Spark(), Limits(), chosen.catalog)
    assert conf["spark.sql.catalogImplementation"] == "hive"
    assert str(tmp_path / "metastore") in conf["spark.hadoop.javax.jdo.option.ConnectionURL"]
    assert (tmp_path / "metastore").is_dir()


@pytest.mark.parametrize(
    "conf",
    [
        {"spark.hadoop.hive.metastore.uris": "thrift://127.0.0.1:9083"},
        {"spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:postgresql://127.0.0.1/metastore"},
    ],
)
def test_a_metastore_of_the_users_own_is_used(tmp_path: Path, conf: dict[str, str]) -> None:
    catalog = Catalog(database="bronze", metastore=tmp_path / "metastore")
    assert session_settings(catalog, conf) == {"spark.sql.catalogImplementation": "hive"}
    assert not (tmp_path / "metastore").exists()


def test_a_catalog_of_the_users_own_is_used(tmp_path: Path) -> None:
    conf = {"spark.sql.catalog.unity": "io.unitycatalog.spark.UCSingleCatalog"}
    chosen = settings(tmp_path, {"database": "unity.bronze"}, spark={"conf": conf})
    assert session_settings(chosen.catalog, chosen.spark.conf) == {}


def test_without_a_catalog_a_session_is_as_it_was() -> None:
    assert set(spark_conf(Spark(), Limits())) == {"spark.sql.execution.arrow.maxRecordsPerBatch"}


def test_java_options_of_the_users_own_stay(tmp_path: Path) -> None:
    catalog = Catalog(database="bronze", metastore=tmp_path / "metastore")
    spark = Spark.model_validate({"conf": {"spark.driver.extraJavaOptions": "-Dmine=1"}})
    options = spark_conf(spark, Limits(), catalog)["spark.driver.extraJavaOptions"]
    assert "-Dmine=1" in options
    assert "derby.log" in options
