"""Tables with one row a key whose key comes with a later schema, and becomes wider by one after it."""

from __future__ import annotations

import pytest
from tests.ingest.e2e.handmade import EVENT, quarantined, registered, registered_beside
from tests.ingest.e2e.keyed import rows_of
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack]

WITH_ID = EVENT.replace("int32 level = 3;", "int32 level = 3;\n  int32 id = 4;")
WITH_LONG_ID = EVENT.replace("int32 level = 3;", "int32 level = 3;\n  int64 id = 4;")


# Alike but for when the new columns come; `make test` has a batch that goes on with them.
@pytest.mark.parametrize("evolution", ["inline", pytest.param("restart", marks=pytest.mark.heavy)])
def test_records_of_schemas_without_the_key_wait_in_quarantine_and_those_whose_key_does_not_fit(
    kit: PipelineKit, evolution: str
) -> None:
    old = registered(kit)
    new, wider = registered_beside(kit, WITH_ID), registered_beside(kit, WITH_LONG_ID)
    rule = {"match": "*", "mode": "upsert", "keys": ["id"], "sequence_by": ["level"]}
    kit.configured(decode={"evolution": evolution}, route={"table": "{entity}"}, tables=[rule])
    kit.send(
        [
            old.value(game="go", level=9),
            new.value(game="go", id=1, level=1),
            new.value(game="go", id=2, level=1),
            new.value(game="go", id=2, level=3, player="late"),
        ]
    )
    kit.run()
    assert {row["id"]: row["level"] for row in rows_of(kit, "go")} == {1: 1, 2: 3}
    kit.send(
        [
            wider.value(game="go", id=1, level=2),
            wider.value(game="go", id=2, level=2),
            wider.value(game="go", id=2**40, level=1),
            old.value(game="go", level=10),
        ]
    )
    kit.run()
    assert {row["id"]: row["level"] for row in rows_of(kit, "go")} == {1: 2, 2: 3}
    lacking = [(row["reason"], row["schema_id"]) for row in quarantined(kit)]
    assert lacking == [("null_key", old.id), ("null_key", wider.id), ("null_key", old.id)]
    first, second = sorted(kit.rows("ledger_batches").to_pylist(), key=lambda row: row["batch_id"])
    names = ("rows_inserted", "rows_updated", "rows_older", "rows_duplicate")
    assert [first[name] for name in names] == [2, 0, 0, 1]
    assert [second[name] for name in names] == [0, 1, 1, 0]
    found = verify(kit.settings).differences
    assert not found, "\n".join(map(str, found))
