"""Everything a producer can do to a schema, harmless and harmful, in one stream a format: the tables hold what they must."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.ingest.ledger import QUARANTINE_TABLE
from distributary.producer_sim.truth import Truth

pytestmark = [pytest.mark.spark, pytest.mark.stack]

EVENTS, GAMES, VERSIONS = 250, 3, 3
# The second addition reaches into the list and the map that the first one brought.
HARMLESS = ("added", "added", "made_optional", "enum_value_added", "dropped")
HARMFUL = ("widened", "narrowed", "made_required", "enum_value_removed", "record_renamed", "changed")
CHANGES = {
    "protobuf": (*HARMLESS, "oneof_arm_added", "renamed", *HARMFUL),
    "avro": (*HARMLESS, "renamed", *HARMFUL),
    "jsonschema": (*HARMLESS, *HARMFUL),
}


def send(kit: PipelineKit, first: int, changes: tuple[str, ...], **more: Any) -> Truth:
    """Every version from the first given on, beside producers that keep to older ones."""
    shares = {"old_producers": 0.2, "corrupt": 0.02}
    return kit.simulate(
        first, EVENTS, GAMES, versions=VERSIONS, changes=changes, seed=3, **{**shares, **more}
    )


def rescued(kit: PipelineKit) -> list[str]:
    """The paths of all rescued values."""
    tables = [kit.rows(kit.folder_of(game)) for game in range(GAMES)]
    texts = [
        text
        for table in tables
        if "_rescued_data" in table.schema.names
        for text in table["_rescued_data"].to_pylist()
    ]
    return [path for text in texts if text for path in json.loads(text)]


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_of_a_format_in_one_stream(kit: PipelineKit, name: str) -> None:
    changes = CHANGES[name]
    kit.configured(decode={"format": name, "evolution": "inline"})
    with kit.running() as running:
        running.wait_until_started()
        send(kit, 1, (), format=name)
        running.wait_for(kit.truth.records)
        send(kit, VERSIONS + 1, changes, format=name)
        running.wait_for(kit.truth.records)
    kit.assert_clean()
    # Not for want of harm: values too wide, in the record and in a map, and records that no column takes.
    assert {"level"} < {path.partition(".")[0] for path in rescued(kit)}
    assert kit.truth.corrupt_by_kind()["incompatible_type"] > 0
    assert "incompatible_type" in kit.rows(QUARANTINE_TABLE)["reason"].to_pylist()
    columns = {field.name for field in kit.delta(kit.folder_of(0)).schema().fields}
    assert {"device", "country", "quests", "bases"} <= columns
    assert ("badges" in columns) == ("renamed" in changes)
