"""Where a new log goes on from the positions of those before it, and from which it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.ingest.kafka_records import TOPIC
from tests.ingest.pipelines import settings

from distributary.errors import CheckpointMismatch
from distributary.ingest.beginnings import going_on, require_order
from distributary.ingest.commit_log.entries import Standing


def test_of_records_that_are_gone_before_they_were_read_a_new_log_reads_the_rest_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begins = going_on({TOPIC: {0: 5, 1: 5}}, {TOPIC: {0: 5, 1: 8, 2: 3}}, {})
    assert begins == Standing(ends={TOPIC: {0: 5, 1: 8, 2: 3}})
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning.startswith(f"Kafka has no more of {TOPIC}/1 from offset 5 to before 8")


def test_a_log_that_records_what_is_lost_begins_before_it() -> None:
    begins = going_on(
        {TOPIC: {0: 5, 1: 5}}, {TOPIC: {0: 5, 1: 8, 2: 3}}, {TOPIC: {0: 9, 1: 9, 2: 9}}, records=True
    )
    assert begins.ends == {TOPIC: {0: 5, 1: 5, 2: 3}}


@pytest.mark.parametrize(
    ("rule", "route", "refused"),
    [
        ({"keys": ["id"]}, {"by": "topic"}, True),
        ({"keys": ["id"]}, {"by": "field", "field": "game_name"}, True),
        ({"keys": ["id"], "match": "others"}, {"by": "topic"}, False),
        ({"keys": ["id"], "on_repartition": "timestamp"}, {"by": "topic"}, False),
        ({"keys": ["id"], "sequence_by": ["at"]}, {"by": "topic"}, False),
    ],
)
def test_offsets_that_went_back_order_no_rows(
    tmp_path: Path, rule: dict[str, Any], route: dict[str, Any], refused: bool
) -> None:
    """A broker that lost records gives their offsets to others, which a table would take for older ones than it has."""
    given = {"field": None, "table": "{entity}", **route}
    chosen = settings(tmp_path, route=given, tables=[{"match": "*", "mode": "upsert", **rule}])
    told = (chosen.rule_book(), chosen.route, {TOPIC: {0: 100}})
    require_order(*told, {TOPIC: {0: 100}})
    if refused:
        with pytest.raises(CheckpointMismatch, match=r"By tables\[0\] positions say which"):
            require_order(*told, {TOPIC: {0: 90}})
    else:
        require_order(*told, {TOPIC: {0: 90}})
