from __future__ import annotations

from pathlib import Path

import pytest

from distributary.ingest.catalog.metastore import session_settings
from distributary.ingest.settings.catalog import Catalog
from distributary.ingest.spark.class_archive import JAVA_OPTIONS


def made_with(metastore: Path) -> dict[str, str]:
    return session_settings(Catalog(database="bronze", metastore=metastore), {})


def test_derbys_log_is_beside_its_database(tmp_path: Path) -> None:
    assert made_with(tmp_path / "metastore")[JAVA_OPTIONS].endswith(f"={tmp_path}/metastore/derby.log")


@pytest.mark.parametrize("name", ["my games", "o'brien", 'a"b'])
def test_a_session_starts_wherever_its_metastore_is(tmp_path: Path, name: str) -> None:
    """Java would take what is behind a space for the program that it is to run."""
    found = made_with(tmp_path / name)
    assert JAVA_OPTIONS not in found
    assert f"{tmp_path}/{name}/derby" in found["spark.hadoop.javax.jdo.option.ConnectionURL"]
    assert (tmp_path / name).is_dir()
