"""Everything a producer can do to a schema, harmless and harmful, in one stream a format: the tables hold what they must."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.producer_sim.truth.sent import Truth

pytestmark = [pytest.mark.spark, pytest.mark.stack]

EVENTS, GAMES, VERSIONS = 250, 3, 3
# The second addition reaches into the list and the map that the first one brought.
HARMLESS = ("added", "added", "enum_value_added", "dropped")
HARMFUL = ("widened", "narrowed", "enum_value_removed", "record_renamed", "changed")
CHANGES = {
    "protobuf": (*HARMLESS, "oneof_arm_added", "renamed", *HARMFUL),
    "avro": (*HARMLESS, "made_optional", "made_required", "renamed", *HARMFUL),
    "jsonschema": (*HARMLESS, "made_optional", "made_required", *HARMFUL),
    "json": ("added", "added", "dropped", "made_optional", "made_required", "widened", "changed"),
}

# Whose pipeline runs when all is sent; the others meet one schema after the other.
AT_ONCE = ("protobuf", "jsonschema")


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


# One format with all of them; what the others' changes make of a record is decoded and resolved one by one in tests/codecs.
@pytest.mark.parametrize(
    "name", [name if name == "protobuf" else pytest.param(name, marks=pytest.mark.heavy) for name in CHANGES]
)
def test_every_change_of_a_format_in_one_stream(kit: PipelineKit, name: str) -> None:
    changes = CHANGES[name]
    kit.configured(decode={"format": name, "evolution": "inline"})
    if name in AT_ONCE:
        send(kit, 1, changes, format=name)
        kit.run()
    else:
        with kit.running() as running:
            running.wait_until_started()
            send(kit, 1, (), format=name)
            running.wait_for(kit.truth.records)
            send(kit, VERSIONS + 1, changes, format=name)
            running.wait_for(kit.truth.records)
    kit.assert_clean()
    # Not for want of harm: values too wide, in the record and inside of it, and records that no column takes.
    assert {"level"} < {path.partition(".")[0] for path in rescued(kit)}
    if (
        name != "json"
    ):  # whose reader knows no types but the columns', so that there is no record of a wrong one
        assert kit.truth.corrupt_by_kind()["incompatible_type"] > 0
        assert "incompatible_type" in kit.rows(QUARANTINE_TABLE)["reason"].to_pylist()
    columns = {field.name for field in kit.delta(kit.folder_of(0)).schema().fields}
    assert {"device", "country", "quests", "extra_v4"} <= columns
    assert ("bases" in columns) == (name != "json")
    assert ("badges" in columns) == ("renamed" in changes)


# Types that share parts: test_every_event_is_where_its_route_leads (test_routes.py); a format that is switched: below.
@pytest.mark.heavy
def test_types_of_events_with_shared_parts_switch_their_format(kit: PipelineKit) -> None:
    changes = ("added", "widened", "record_renamed", "format_switched", "changed")
    more = {"event_types": 3, "references": True, "tombstones": 0.02}
    kit.configured(decode={"format": "auto", "evolution": "restart"})
    with kit.running() as running:
        running.wait_until_started()
        send(kit, 1, (), **more)
        running.wait_for(kit.truth.records)
        send(kit, VERSIONS + 1, changes, **more)
        running.wait_for(kit.truth.records)
    verdict = kit.assert_clean()
    # Three types, in three versions and with five changes each.
    assert len({each for table in verdict.tables for each in table.schema_ids}) == 24
    assert "level" in rescued(kit)
    assert kit.truth.corrupt_by_kind()["incompatible_type"] > 0


def test_a_pipeline_of_one_format_quarantines_what_is_written_in_another(kit: PipelineKit) -> None:
    send(kit, 1, ("format_switched",), one_format=True)
    kit.run()
    verdict = kit.assert_clean()
    assert kit.truth.corrupt_by_kind()["format_switched"] > EVENTS / 2
    assert verdict.rows_quarantined == len(kit.truth.corrupt)
