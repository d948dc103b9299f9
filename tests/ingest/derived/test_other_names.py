"""Derived tables of a pipeline that was called otherwise."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable
from tests.ingest.derived.test_refresh import Bench, aggregate, bench

from distributary.ingest.commit_log.entries import Owner
from distributary.ingest.commit_log.owners import Records
from distributary.ingest.derivation.given import OWNER
from distributary.ingest.storage.opening import files_at

__all__ = ["bench"]

pytestmark = [pytest.mark.spark]


def test_a_table_that_tells_an_earlier_name_of_the_pipeline_is_taken_over_and_no_other(
    bench: Bench,
) -> None:
    rule, gold = aggregate("k", n="count(*)"), str(bench.root / "gold")
    bench.put({"k": 1})
    bench.derive(rule)
    records = Records(files_at(bench.root))
    for number, name in enumerate(("before", "games")):
        assert records.put("chess", number, Owner(name, "/log", "gen"))
    for owner, now in (("before", "games"), ("another", "another")):
        DeltaTable(gold).alter.set_table_properties({OWNER: owner}, raise_if_not_exists=False)
        version, done = DeltaTable(gold).version(), bench.derive(rule)
        assert (done.how, DeltaTable(gold).version()) == (
            ("current", version + 1) if now == "games" else ("failed", version)
        )
        assert DeltaTable(gold).metadata().configuration[OWNER] == now
    assert "pipeline another derives it" in done.why
