from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from tests.ingest.kafka_records import TOPIC, pins

import distributary
from distributary.errors import SetupError
from distributary.ingest.columns.layout import Layout
from distributary.ingest.pins import (
    PinnedRecord,
    PinnedTable,
    RecordKey,
    SentPins,
    Verdict,
    by_age,
    for_workers,
    unusable_schema,
)
from distributary.registry.base import Guid, Schema, SchemaType


def test_pins_reach_a_worker_as_they_are(tmp_path: Path) -> None:
    layout = Layout(pa.schema([pa.field("a_", pa.int64(), metadata={"distributary.source": "a "})]))
    by = pins(
        tmp_path,
        known={"t": PinnedTable("T", layout)},
        rejected={(TOPIC, 0, 1): Verdict("constraint", "x")},
        already={"t": {TOPIC: {0: 5}}},
    )
    there = pickle.loads(pickle.dumps(by))  # noqa: S301
    assert there == by
    assert there.tables.known["t"].layout == layout


def test_a_worker_of_another_version_that_comes_amid_a_run_takes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where an archive, or an image's tag, is another one by then: a start looks at the workers that are there."""
    sent = pickle.dumps(SentPins(pickle.dumps(pins(tmp_path))))
    assert pickle.loads(sent) == pins(tmp_path)  # noqa: S301
    monkeypatch.setattr(distributary, "__version__", "0.0.1")
    with pytest.raises(SetupError, match=r"has distributary 0\.0\.1, the driver .*one version everywhere"):
        pickle.loads(sent)  # noqa: S301


def test_the_older_schema_comes_first_inferred_versions_before_all_and_one_without_an_age_last() -> None:
    in_order: list[RecordKey] = [(-1, ()), (-2, ()), (1, (0,)), (1, (1,)), (9, ()), (10, ()), (Guid("a"), ())]
    assert sorted(sorted(in_order, key=str), key=by_age) == in_order


def pinned(id_: int, of: SchemaType = "STRUCT", entity: str | None = None) -> PinnedRecord:
    return PinnedRecord((id_, ()), Schema(id_, of, "{}", entity=entity))


@pytest.mark.parametrize("sign", [1, -1])
def test_workers_get_the_newest_of_an_entitys_versions_and_all_that_records_name(
    tmp_path: Path, sign: int
) -> None:
    versions = [(1, None), (2, "go"), (3, "chess"), (4, "go"), (10, "go"), (11, None)]
    inferred = [pinned(sign * number, entity=entity) for number, entity in versions]
    named = [pinned(21, "AVRO"), pinned(22, "AVRO")]
    by = pins(tmp_path, records=(*named, *inferred), by_entity=True)
    ids = [one.schema.id for one in for_workers(by).schemas.records]
    assert ids == [21, 22, sign * 3, sign * 10, sign * 11]
    assert len(by.schemas.records) == 8
    # One schema for all: nothing is left out.
    everybody = pins(tmp_path, records=by.schemas.records)
    assert for_workers(everybody) is everybody


def test_what_each_record_of_an_unusable_schema_says_is_short() -> None:
    assert len(unusable_schema(7, "x" * 1_000_000).detail) < 2_000
