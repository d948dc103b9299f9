"""What remembers deletes has nothing of a record but its key and its place: those that are named go, as bytes or as text."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.ingest.pipelines import settings
from tests.ingest.upkeep.test_maintain import own

from distributary.ingest.erasure import erase as module
from distributary.ingest.erasure.erase import Wanted, erase
from distributary.ingest.merge.rule import memory_folder
from distributary.ingest.routing.conditions import ReadCondition
from distributary.ingest.routing.tree import Call, Field, Literal
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.change import create
from distributary.ingest.tables.known import REMEMBERS_PROPERTY

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
