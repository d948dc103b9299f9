"""Batches in which a few records are much larger than the others: they are read once more, with Spark's own bound."""

from __future__ import annotations

import pytest
from tests.ingest.e2e.handmade import assert_each_record_in_one_place, column, registered
from tests.ingest.e2e.pipeline_kit import PipelineKit

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def test_large_records_among_small_ones_are_in_their_tables_once(kit: PipelineKit) -> None:
    schema = registered(kit)
    kit.configured(limits={"batch_rows": 40, "arrow_rows": 10_000})
    small = [schema.value(game=f"g{number % 3}", level=number) for number in range(100)]
    # In the middle of the second batch; the third is read as if there were others.
    large = [schema.value(game="g1", player="x" * 9_000), schema.value(game="large", player="y" * 9_000)]
    kit.send([*small[:50], *large, *small[50:]])
    kit.run()
    assert_each_record_in_one_place(kit)
    assert kit.unnamed_files() == set()
    assert column(kit, "large", "player") == ["y" * 9_000]
    assert [len(player) for player in column(kit, "g1", "player")].count(9_000) == 1
    assert [len(column(kit, game, "level")) for game in ("g0", "g1", "g2")] == [34, 34, 33]

    kit.send(small)
    kit.run()
    assert_each_record_in_one_place(kit)
    assert len(column(kit, "g0", "level")) == 68
