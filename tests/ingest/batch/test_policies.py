"""What stops a run by a policy that says `fail`, and what does not."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import pytest

from distributary.errors import PolicyStopped
from distributary.ingest import pins
from distributary.ingest.batch.policies import check_counts
from distributary.ingest.conform.misfits import Kind
from distributary.ingest.settings.groups import Policies
from distributary.ingest.worker.report import Counts

DECODED = (
    *(
        pins.NO_ENTITY.reason,
        pins.TABLE_LIMIT.reason,
        pins.CONSTRAINT,
        pins.SCHEMA_CHANGE,
        pins.DELETE_CONDITION,
    ),
    *(pins.NULL_KEY, pins.NULL_SEQUENCE, pins.PARTITION, pins.COLUMNS, pins.EXPECTATION, *get_args(Kind)),
)


def check(reason: str) -> None:
    check_counts(Policies(undecodable="fail"), 7, Counts(quarantined=Counter({reason: 1})), ())


@pytest.mark.parametrize("reason", DECODED)
def test_a_record_that_was_decoded_and_has_no_place_is_none_that_cannot_be_decoded(reason: str) -> None:
    check(reason)


@pytest.mark.parametrize("reason", [pins.UNKNOWN_SCHEMA, pins.KILLED_WORKER.reason])
def test_one_that_cannot_be_decoded_stops_the_run(reason: str) -> None:
    with pytest.raises(
        PolicyStopped,
        match=f"a record cannot be decoded, .*: 1 {reason}.*, or let policies.undecodable say quarantine$",
    ):
        check(reason)
