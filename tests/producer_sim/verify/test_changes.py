"""What a change of types makes of records is proved too: rescued values, and why a record is in quarantine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.producer_sim.conftest import ColumnOf, HandMade

from distributary.ingest.settings.groups import Columns
from distributary.producer_sim.truth.checksum import MASK, row_hashes
from distributary.producer_sim.truth.rescued_text import RESCUED, canonical_text
from distributary.producer_sim.truth.sent import Corrupt, Group, Sent
from distributary.producer_sim.verify.comparison import compare

GROUP = Group("golf", 13)
WIDE = {"level": 4_000_000_000, "inventory.gold": 2**40}


@pytest.fixture
def rescuing(hand_made: HandMade, with_column: ColumnOf) -> HandMade:
    """The first row of a group has values that its columns do not hold."""
    part = hand_made.part("golf", 13)
    rows = hand_made.parts[part]
    rows = with_column(rows, "level", [None, *rows["level"].to_pylist()[1:]])
    texts = [canonical_text(WIDE), *[None] * (len(rows) - 1)]
    expected = rows.append_column(RESCUED, pa.array(texts, pa.string()))
    (batch,) = expected.combine_chunks().to_batches()
    checksum = int(np.sum(row_hashes(batch, Columns().reserved() - {RESCUED}), dtype=np.uint64)) & MASK
    sent = {**hand_made.truth.sent, GROUP: Sent(3, len(rows), checksum)}
    hand_made.truth = replace(hand_made.truth, sent=sent)
    hand_made.parts[part] = expected
    return hand_made


def rescued(made: HandMade, with_column: ColumnOf, text: str | None) -> list[str]:
    """What verification finds when this is the first row's rescued text."""
    part = made.part("golf", 13)
    rows = made.parts[part]
    made.parts[part] = with_column(rows, RESCUED, [text, *[None] * (len(rows) - 1)])
    made.write()
    return [difference.kind for difference in compare(made.lake, made.truth).differences]


def test_rescued_values_are_compared_and_not_their_spelling(
    rescuing: HandMade, with_column: ColumnOf
) -> None:
    text = '{"level": 4000000000,\n "inventory.gold":1099511627776}'
    assert rescued(rescuing, with_column, text) == []


@pytest.mark.parametrize(
    "text",
    [
        None,
        "{}",
        '{"level":4000000000}',
        '{"level":4000000001,"inventory.gold":1099511627776}',
        '{"score":4000000000,"inventory.gold":1099511627776}',
        '{"level":"4000000000","inventory.gold":1099511627776}',
        "not JSON",
        "[1]",
    ],
)
def test_other_rescued_values_are_found(rescuing: HandMade, with_column: ColumnOf, text: str | None) -> None:
    assert rescued(rescuing, with_column, text) == ["values_differ"]


def test_a_value_that_was_to_be_rescued_and_is_in_its_column_is_found(
    rescuing: HandMade, with_column: ColumnOf
) -> None:
    part = rescuing.part("golf", 13)
    rows = rescuing.parts[part]
    rescuing.parts[part] = with_column(rows, "level", [7, *rows["level"].to_pylist()[1:]])
    rescuing.write()
    assert [found.kind for found in compare(rescuing.lake, rescuing.truth).differences] == ["values_differ"]


@pytest.mark.parametrize(("reason", "found"), [("incompatible_type", []), ("malformed", ["reason_differs"])])
def test_a_refused_record_must_be_in_quarantine_for_its_reason(
    hand_made: HandMade, reason: str, found: list[str]
) -> None:
    row = hand_made.quarantine[0]
    (place,) = (
        place
        for place in hand_made.truth.corrupt
        if (place.partition, place.offset) == (row["kafka_partition"], row["kafka_offset"])
    )
    refused = Corrupt("incompatible_type", hand_made.truth.corrupt[place].digest)
    truth = replace(hand_made.truth, corrupt={**hand_made.truth.corrupt, place: refused})
    row["reason"] = reason
    hand_made.write()
    assert [difference.kind for difference in compare(hand_made.lake, truth).differences] == found
