"""Tables that remember deletes, once no rule has any more: they are no entity's, whatever a record says."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.ingest.kafka_records import Sent
from tests.ingest.queries import Query, value

from distributary.errors import CommitImpossible
from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.tables.change import create
from distributary.ingest.tables.known import REMEMBERS_PROPERTY


def test_an_entity_that_is_called_as_what_remembers_deletes_gets_no_rows_in_there(tmp_path: Path) -> None:
    """They would delete rows as soon as a rule has deletes again."""
    query = Query(tmp_path, decode={"evolution": "inline"}, route={"field": "game_name", "table": "{entity}"})
    query.resume()
    memory = query.runner.attempts.run.root.below("golf__deleted")
    create(memory, pa.schema([("game_name", pa.string())]), {REMEMBERS_PROPERTY: "golf"})
    names = ["golf__deleted", "golf", "tennis__deleted"]
    query.batch(0, [Sent(value(1, game_name=name, score=1), at) for at, name in enumerate(names)])

    assert query.rows("golf__deleted") == 0
    assert (query.rows("golf"), query.rows("tennis__deleted"), query.rows(QUARANTINE_TABLE)) == (1, 1, 1)
    (reason,) = query.done[-1].manifest.counts.quarantined
    assert reason == "table_limit"


def test_records_without_an_entity_do_not_go_where_another_pipeline_remembers_deletes(tmp_path: Path) -> None:
    """They were taken for deletes of that pipeline's table, and its later records for older ones, without a word."""
    query = Query(
        tmp_path,
        decode={"evolution": "inline"},
        route={"field": "game_name", "table": "a_{entity}"},
        policies={"no_entity": {"table": "golf__deleted"}},
    )
    query.resume()
    memory = query.runner.attempts.run.root.below("golf__deleted")
    create(memory, pa.schema([("game_name", pa.string())]), {REMEMBERS_PROPERTY: "golf"})
    with pytest.raises(CommitImpossible, match=r"the deletes of table golf .* `policies.no_entity.table`"):
        query.batch(0, [Sent(value(1, score=1), 0)])
    assert query.rows("golf__deleted") == 0
