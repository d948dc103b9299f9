"""Which implementation answers for a place, and how often it is made."""

from __future__ import annotations

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

OTHERS = StorageOptions.model_validate({"s3": {"region": "eu-central-1"}})


def test_a_path_is_a_folder_and_a_url_a_store(tmp_path: Path) -> None:
    assert isinstance(files_at(tmp_path), PosixFiles)
    assert files_at(tmp_path).url == str(tmp_path)
    assert files_at(tmp_path).options == {}
    for url in ("s3://lake/tables", "abfss://lake@account.dfs.core.windows.net/tables", "gs://lake/tables"):
        assert isinstance(files_at(url), ObjectFiles)
        assert files_at(url).url == url


def test_a_store_is_opened_once_for_the_same_place_and_options() -> None:
    one = files_at("s3://lake/tables")
    assert files_at("s3://lake/tables/") is one
    assert files_at("s3://lake/tables", OTHERS) is not one
    assert files_at("s3://lake/other") is not one
    assert open_files(Place.parse("s3://lake/tables"), OTHERS) is files_at("s3://lake/tables", OTHERS)


FORKING = """
import os
from distributary.ingest.storage.opening import files_at
one = files_at("s3://lake/tables")
child = os.fork()
if child == 0:
    os._exit(int(files_at("s3://lake/tables") is one))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), files_at("s3://lake/tables") is one)
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
