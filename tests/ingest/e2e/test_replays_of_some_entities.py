"""Replays from bronze of some entities: what waits in quarantine and is none of theirs waits on."""

from __future__ import annotations

import pytest
from tests.ingest.e2e.handmade import reasons, registered
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.ingest.quarantine.chosen import Chosen
from distributary.ingest.quarantine.contents import contents
from distributary.ingest.rebuild.silver import replay
from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def test_what_is_of_no_entity_that_is_asked_for_stays_open(kit: PipelineKit) -> None:
    small = {"condition": "level < 5", "otherwise": "quarantine"}
    kit.configured(bronze={})
    schema = registered(kit)
    kit.configured(tables=[{"match": "*", "expect": {"small": small}}])
    kit.send([schema.value(game="chess", level=1), b"none", schema.value(game="go", level=9)])
    kit.send([schema.value(game="chess", level=9)])
    kit.run()
    assert contents(kit.settings).open == sum(reasons(kit).values()) == 3
    chess = Chosen(entities=("chess",))
    for replace in (False, True):
        done = replay(kit.settings, chosen=chess, spark=kit.spark, replace=replace)
        assert (contents(kit.settings).open, done.refused) == (3, {"expectation": 1})
    assert not verify(kit.settings).differences
