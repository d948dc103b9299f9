from __future__ import annotations

from pathlib import Path

import pytest
from tests.ingest.kafka_records import PINNED
from tests.ingest.pipelines import settings

from distributary.ingest.batch.restart import RestartToEvolve
from distributary.ingest.evolution.rules import tables_grow, worker_policies
from distributary.ingest.pins import PinnedRecord, describe


@pytest.mark.parametrize(
    ("evolution", "new_field", "grow", "worker"),
    [
        ("restart", "add", True, "add"),
        ("inline", "fail", True, "fail"),
        ("restart", "rescue", False, "rescue"),
        ("inline", "ignore", False, "ignore"),
        ("ignore", "add", False, "rescue"),
        ("ignore", "ignore", False, "ignore"),
        ("fail", "add", True, "add"),
    ],
)
def test_what_becomes_of_new_fields_follows_from_evolution_and_policy(
    tmp_path: Path, evolution: str, new_field: str, grow: bool, worker: str
) -> None:
    made = settings(tmp_path, decode={"evolution": evolution}, policies={"new_field": new_field})
    assert tables_grow(made.decode, made.policies) is grow
    assert worker_policies(made.decode, made.policies).new_field == worker


def test_a_record_type_is_named_by_its_schema_and_its_place_there() -> None:
    assert describe(PINNED[0]) == "11"
    assert describe(PinnedRecord((7, (1, 2)), PINNED[0].schema)) == "7 (message 1.2)"


def test_a_restart_keeps_what_changed() -> None:
    error = RestartToEvolve(["one", "two"])
    assert error.changes == ("one", "two")
    assert str(error) == "one; two"
