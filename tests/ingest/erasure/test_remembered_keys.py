"""What remembers deletes has nothing of a record but its key and its place: those that are named go, as bytes or as text."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.ingest.pipelines import settings
from tests.ingest.upkeep.test_maintain import own

from distributary.errors import ConfigError
from distributary.ingest.erasure import erase as module
from distributary.ingest.erasure.erase import Wanted, erase
from distributary.ingest.merge.rule import memory_folder
from distributary.ingest.routing.conditions import ReadCondition
from distributary.ingest.routing.tree import Call, Field, Literal
from distributary.ingest.settings.rule_book import TableSpec
from distributary.ingest.settings.upserts import Keeping, Upsert
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.change import create
from distributary.ingest.tables.known import REMEMBERS_PROPERTY, UPSERT_PROPERTY, properties_of

WHERE = "who = 'ann'"
CONDITION = ReadCondition(Call("=", (Field(("who",)), Literal("ann"))))


@pytest.mark.parametrize(
    ("column", "keys"),
    [("kafka_key", [b"p7", b"p8"]), ("kafka_key_text", ["p7", "p8"])],
)
def test_keys_that_are_named_are_remembered_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str, keys: list[bytes | str]
) -> None:
    root = files_at(tmp_path / "lake")
    given = settings(tmp_path, sink={"root": root.url}, decode={"format": "protobuf", "key": "text"})
    own(root, given, "players")
    memory = root.below(memory_folder("players")).url
    rows = pa.table({column: keys, "kafka_offset": [1, 2]})
    create(memory, rows.schema, {REMEMBERS_PROPERTY: "players"})
    write_deltalake(memory, rows, mode="append")
    monkeypatch.setattr(module, "conditions_ahead", lambda _: {WHERE: CONDITION})
    done = erase(given, Wanted(WHERE, keys=("p7",)))
    assert done.rows == 1
    assert DeltaTable(memory).to_pyarrow_table()[column].to_pylist() == keys[1:]


def test_a_key_that_is_empty_is_nobodys(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--key is empty; give it the key of a record, or leave it out"):
        erase(settings(tmp_path), Wanted(WHERE, keys=("p7", "")))


def test_records_of_a_key_are_forgotten_whatever_bytes_its_text_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key of two schemas is one: a history has a row of it by the bytes of one of them, and remembers records of both."""
    root = files_at(tmp_path / "lake")
    key_in = {"format": "protobuf", "key": "auto"}
    columns = {"key_text": "kafka_key_text"}
    given = settings(tmp_path, sink={"root": root.url, "columns": columns}, decode=key_in)
    own(root, given, "players")
    upsert = Upsert(sequence_by=("at",), history=Keeping())
    told = properties_of(TableSpec(upsert=upsert), by_text=True)
    days = [datetime(2026, 1, day, tzinfo=timezone.utc) for day in (1, 2, 3)]
    rows = pa.table(
        {
            "kafka_key": [b"\0one", b"other"],
            "kafka_key_text": ["p7", "p8"],
            "who": ["ann", "bob"],
            "at": days[:2],
            "valid_from": days[:2],
            "valid_to": pa.nulls(2, pa.timestamp("us", "UTC")),
            "is_current": [True, True],
        }
    )
    players, memory = root.below("players").url, root.below(memory_folder("players")).url
    create(players, rows.schema, {UPSERT_PROPERTY: told[UPSERT_PROPERTY]})
    write_deltalake(players, rows, mode="append")
    records = pa.table(
        {
            "kafka_key": [b"\0one", b"\0two", b"other"],
            "kafka_key_text": ["p7", "p7", "p8"],
            "at": days,
        }
    )
    create(memory, records.schema, {REMEMBERS_PROPERTY: "players"})
    write_deltalake(memory, records, mode="append")
    monkeypatch.setattr(module, "conditions_ahead", lambda _: {WHERE: CONDITION})
    erase(given, Wanted(WHERE))
    assert DeltaTable(players).to_pyarrow_table()["who"].to_pylist() == ["bob"]
    assert DeltaTable(memory).to_pyarrow_table()["kafka_key"].to_pylist() == [b"other"]
