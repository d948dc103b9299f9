"""A pipeline that reads tables which are in a store, as are its own, and nothing else: no broker, no registry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession
from tests.ingest.e2e.landing_kit import LandingKit
from tests.ingest.storage.stores import Store
from typer.testing import CliRunner

from distributary.cli import app
from distributary.ingest.rebuild.silver import replay
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.tables.handle import opened

pytestmark = pytest.mark.spark


class Chained(LandingKit):
    """A pipeline with tables to read in the place of files, which lie in a place of a store beside its own."""

    def __init__(self, folder: Path, spark: SparkSession, store: Store) -> None:
        super().__init__(folder, spark)
        self.in_store(store)
        self.inputs = self.landing
        del self._document["source"]["files"]
        self.configured(bronze={}, sink={"columns": {"kafka_offset": "from_offset"}})

    def reads(self, *tables: str) -> None:
        self.configured(source={"delta": {"paths": [f"{self.inputs.url}/{table}" for table in tables]}})

    def append(self, table: str, numbers: range, **more: Any) -> None:
        place = self.inputs.below(table)
        rows = pa.table(
            {"n": list(numbers), **{name: [value] * len(numbers) for name, value in more.items()}}
        )
        write_deltalake(
            place.url, rows, mode="append", schema_mode="merge", storage_options=dict(place.options)
        )

    def silver(self, table: str) -> Files:
        return open_files(self.settings.sink.root, self.settings.storage).below(f"silver_{table}")

    def found(self, table: str) -> list[int]:
        return sorted(self.rows(f"silver_{table}")["n"].to_pylist())

    def said(self, *words: str) -> str:
        told = CliRunner().invoke(app, [words[0], str(self.settings_file), *words[1:]])
        assert told.exit_code == 0, told.output
        return told.stdout


@pytest.fixture
def chained(tmp_path: Path, spark: SparkSession, s3_store: Store) -> Chained:
    return Chained(tmp_path, spark, s3_store)


# Lighter: test_chained.py does so in a folder; tests/ingest/inputs/delta and tests/ingest/storage have the store.
@pytest.mark.heavy
def test_tables_in_a_store_are_read_are_planned_for_come_and_go_and_are_replayed(chained: Chained) -> None:
    chained.append("ludo", range(4))
    chained.reads("ludo")
    planned = chained.said("plan")
    assert "n" in planned
    assert not list(chained.silver("ludo").names()), "nothing is made by a plan"
    chained.run()
    assert chained.found("ludo") == list(range(4))
    # Columns that the table got are planned for before a run meets them.
    chained.append("ludo", range(4, 6), at="now")
    plan = json.loads(chained.said("plan", "--json"))
    assert '"at' in json.dumps(plan["steps"]), plan
    graph = chained.said("graph", "--json")
    assert f"{chained.inputs.url}/ludo" in graph
    assert "anything" not in graph, "and no key of the store"
    assert chained.run().summary.rows == 2
    # A table is added, and one taken out.
    chained.append("chess", range(3))
    chained.reads("ludo", "chess")
    chained.append("ludo", range(6, 7))
    assert chained.run().summary.rows == 4
    chained.reads("chess")
    chained.append("chess", range(3, 5))
    chained.append("ludo", range(7, 9))
    assert chained.run().summary.rows == 2
    chained.reads("chess", "ludo")
    assert chained.run().summary.rows == 2
    assert (chained.found("ludo"), chained.found("chess")) == (list(range(9)), list(range(5)))
    # Rows that are gone come back from bronze, once however often that is asked for, though the tables that they came from are gone, too.
    chained.assert_clean()
    opened(chained.silver("ludo")).delete("n % 2 = 0")
    chained.inputs.clear()
    for lacking in (5, 0):
        assert replay(chained.settings, spark=chained.spark).lacking == lacking
    assert (chained.found("ludo"), chained.found("chess")) == (list(range(9)), list(range(5)))
