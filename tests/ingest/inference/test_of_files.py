"""Schemas inferred from files, of which some tell of themselves in the place of records."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.ingest.e2e.landing_kit import LandingKit, lines

from distributary.ingest.infer import infer

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("schema_per", ["topic", "entity"])
def test_what_tells_of_a_file_that_was_cut_off_is_no_record_of_it(
    tmp_path: Path, spark: SparkSession, schema_per: str
) -> None:
    kit = LandingKit(tmp_path, spark).configured(decode={"schema_per": schema_per})
    kit.land({"a.json": lines(range(3)), "b.json.gz": gzip.compress(lines(range(3, 6)))[:-9]})
    (found,) = infer(kit.settings, keep=False, spark=spark).schemas
    names = [field["name"] for field in json.loads(found.schema.text)["fields"]]
    assert names
    assert "distributary_file" not in names
