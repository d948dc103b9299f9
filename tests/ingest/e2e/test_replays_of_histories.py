"""Tables that keep what was, made again from bronze: as a recomputation of the topic has them, whatever was there before."""

from __future__ import annotations

import pytest
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.test_histories import assert_told, telling
from tests.ingest.e2e.told import held

from distributary.errors import ConfigError
from distributary.ingest.merge.rule import memory_folder
from distributary.ingest.rebuild.emptying import empty
from distributary.ingest.rebuild.reset import reset
from distributary.ingest.rebuild.silver import replay
from distributary.ingest.tables.transaction import Transaction

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def test_they_tell_the_same_as_before(kit: PipelineKit) -> None:
    telling(kit, bronze={}, limits={"batch_rows": 25}).send(60)
    kit.run()
    before = held(kit)
    assert replay(kit.settings, spark=kit.spark).tables == {}
    assert held(kit) == before
    with pytest.raises(ConfigError, match="keeps what was"):
        replay(kit.settings, spark=kit.spark, replace=True)
    # What remembers the records says that they were there, so it has to go with the rows.
    for folder in ("go", memory_folder("go")):
        empty(kit.lake.root.below(folder), Transaction("somebody", 0), "by hand")
    assert held(kit) != before
    assert set(replay(kit.settings, spark=kit.spark).tables) == {"go"}
    assert_told(kit)
    reset(kit.settings, spark=kit.spark)
    assert_told(kit)
