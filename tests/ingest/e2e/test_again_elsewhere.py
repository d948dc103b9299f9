"""Topics read once more into tables of other names: what is made again is for those, and the earlier ones stay as they are."""

from __future__ import annotations

import json

import pytest
from tests.ingest.e2e.keyed import rows_of
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.ingest.rebuild.dry import lacking
from distributary.ingest.rebuild.reset import reset
from distributary.ingest.rebuild.silver import replay
from distributary.ingest.replay.bring_back import bring_back

pytestmark = [pytest.mark.spark, pytest.mark.stack]

SMALL = {"match": "*", "expect": {"small": {"condition": "score < 5", "otherwise": "quarantine"}}}


def scores(kit: PipelineKit, table: str) -> list[int]:
    return sorted(row["score"] for row in rows_of(kit, table))


def test_quarantine_replays_and_resets_are_of_the_new_tables_alone(kit: PipelineKit) -> None:
    kit.configured(
        decode={"format": "json"},
        route={"field": "game", "table": "one_{entity}"},
        bronze={"table": "bronze_one"},
    )
    kit.send([json.dumps({"game": "go", "score": score}).encode() for score in (1, 9)])
    kit.run()
    kit.configured(
        route={"table": "two_{entity}"},
        bronze={"table": "bronze_two"},
        checkpoint="./checkpoints/two",
        start="again",
        tables=[SMALL],
    )
    kit.run()
    assert (scores(kit, "one_go"), scores(kit, "two_go")) == ([1, 9], [1])

    # That the earlier table has the record is not what anybody asked for.
    kit.configured(tables=[])
    assert bring_back(kit.settings, spark=kit.spark).resolved == 1
    assert scores(kit, "two_go") == [1, 9]
    kit.delta("two_go").delete("score = 9")
    assert lacking(kit.settings).lacking == 1
    assert replay(kit.settings, spark=kit.spark).tables == {"two_go": 1}
    assert scores(kit, "two_go") == [1, 9]
    assert reset(kit.settings, spark=kit.spark).emptied == ("two_go",)
    assert (scores(kit, "one_go"), scores(kit, "two_go")) == ([1, 9], [1, 9])
