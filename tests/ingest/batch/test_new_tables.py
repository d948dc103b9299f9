from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.ingest import kafka_records as records
from tests.ingest.pipelines import rules_for, settings, written

from distributary.ingest.batch.new_tables import NewTables


def new_tables(root: Path, **groups: Any) -> NewTables:
    return NewTables(rules_for(settings(root, **groups)), {})


def test_new_entities_that_go_to_quarantine_need_no_room(tmp_path: Path) -> None:
    assert new_tables(tmp_path, policies={"new_entity": "quarantine"}).room() == 0
    assert new_tables(tmp_path, route={"max_tables": 5}).room() == 5


def test_tables_that_records_wait_for_are_admitted_as_far_as_there_is_room(tmp_path: Path) -> None:
    over = new_tables(tmp_path, route={"max_tables": 3})
    total = records.task_report(
        written=[written(records.folder("x"), pa.schema([("a", pa.int64())]))],
        newcomers=Counter(p=1, q=3, r=2),
    )
    answered = over.admitted(total, records.pins(tmp_path), last=False)
    assert answered.tables.admitted == {records.folder(name) for name in "xqr"}
    assert answered.turn.tables_final
    roomy = new_tables(tmp_path, route={"max_tables": 4}).admitted(total, records.pins(tmp_path), last=False)
    assert len(roomy.tables.admitted) == 4
    assert not roomy.turn.tables_final
    assert roomy.tables.new_tables == 3
