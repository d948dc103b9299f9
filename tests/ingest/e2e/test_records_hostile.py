"""Records that are no events: each is in quarantine with its bytes and a reason, or counted, and no neighbour is lost."""

from __future__ import annotations

import json
import logging
import random
import struct
from uuid import UUID, uuid4

import pytest
from tests.ingest.e2e.handmade import (
    EVENT,
    UNKNOWN_ID,
    Schema,
    assert_each_record_in_one_place,
    column,
    header,
    quarantined,
    reasons,
    registered,
    registered_beside,
)
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.errors import PolicyStopped
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.run import run
from distributary.registry.memory import MemoryRegistry

pytestmark = [pytest.mark.spark, pytest.mark.stack]

STRANGER = UUID("5f1e5f1e-0000-4000-8000-000000000001")


def test_every_kind_of_broken_record_has_its_reason_and_its_bytes_and_no_neighbour_is_lost(
    kit: PipelineKit,
) -> None:
    schema = registered(kit)
    body = schema.body(game="chess", player="x")
    hostile = {
        b"": "no_header",
        b"\x7f" + header(schema.id)[1:] + body: "bad_magic",
        b"\x03\x00" + bytes(16) + body: "glue_header",
        header(schema.id)[:3]: "truncated_header",
        # The message index: two steps announced and none there; of five bytes; of step -1; far beyond the schema.
        struct.pack(">bI", 0, schema.id) + b"\x04": "truncated_header",
        struct.pack(">bI", 0, schema.id) + b"\xff\xff\xff\xff\x0f" + body: "bad_message_index",
        struct.pack(">bI", 0, schema.id) + b"\x02\x01" + body: "bad_message_index",
        struct.pack(">bI", 0, schema.id) + b"\x02\x90\x4e" + body: "unusable_schema",
        header(schema.id) + body + b"\x0f": "malformed",
        header(schema.id) + b"\x0a\x02\xff\xfe": "invalid_utf8",
        header(schema.id) + schema.body(player="nowhere"): "no_entity",
        b"\x01" + STRANGER.bytes + b"\x00" + body: "unknown_schema",
        header(UNKNOWN_ID) + body: "unknown_schema",
    }
    for value in hostile:
        kit.send([value, schema.value(game="chess", player="good")], partition=len(value) % 2)

    kit.run()

    assert {row["value"]: row["reason"] for row in quarantined(kit)} == hostile
    assert len(quarantined(kit)) == len(hostile)
    (by_guid,) = [row for row in quarantined(kit) if row["schema_guid"] is not None]
    assert (by_guid["schema_guid"], by_guid["schema_id"]) == (str(STRANGER), None)
    assert column(kit, "chess", "player") == ["good"] * len(hostile)
    assert not any(b"good" in row["detail"].encode() for row in quarantined(kit))
    assert_each_record_in_one_place(kit)


def test_random_bytes_of_every_beginning_never_stop_the_stream(kit: PipelineKit) -> None:
    schema = registered(kit)
    seeded = random.Random(7)
    noise = [seeded.randbytes(seeded.randrange(0, 60)) for _ in range(400)]
    framed = [header(schema.id) + seeded.randbytes(seeded.randrange(0, 60)) for _ in range(400)]
    guids = [b"\x01" + seeded.randbytes(20) for _ in range(200)]
    kit.send([*noise, *framed, *guids])
    kit.send([schema.value(game="chess", player=str(n)) for n in range(100)], partition=1)

    outcome = kit.run()

    assert [int(name) for name in column(kit, "chess", "player")] == list(range(100))
    assert outcome.summary.rows == 1_100
    assert outcome.summary.written + outcome.summary.quarantined == 1_100
    assert_each_record_in_one_place(kit)


def test_tombstones_are_counted_drops_and_empty_values_are_not(kit: PipelineKit) -> None:
    schema = registered(kit)
    kit.send([None, schema.value(game="chess", player="a"), None, b""])

    outcome = kit.run()

    (batch,) = kit.rows(BATCHES_TABLE).to_pylist()
    assert (batch["rows_read"], batch["rows_tables"], batch["rows_quarantined"], batch["rows_dropped"]) == (
        (4, 1, 1, 2)
    )
    assert json.loads(batch["rows_by_reason"]) == {"tombstone": 2, "no_header": 1}
    assert outcome.summary.dropped == 2
    assert_each_record_in_one_place(kit)


def test_schemas_named_by_record_headers_and_by_guids_decode_like_others(kit: PipelineKit) -> None:
    registry = MemoryRegistry()
    schema = Schema(registry.register(f"{kit.topic}-value", EVENT, "PROTOBUF"))
    guid = UUID(registry.by_ref(schema.id).guid or "")
    kit.configured(route={"field": "game"})
    body = schema.body

    kit.send([schema.value(game="chess", player="id before")])
    kit.send([b"\x01" + guid.bytes + b"\x00" + body(game="chess", player="guid before")])
    for borne, player in (
        (header(schema.id), "id beside"),
        (b"\x01" + guid.bytes + b"\x00", "guid beside"),
        (header(UNKNOWN_ID), "unknown beside"),
        (b"\x01" + uuid4().bytes + b"\x00", "unknown guid beside"),
        (b"\x09", "broken beside"),
    ):
        kit.send([body(game="chess", player=player)], headers={"__value_schema_id": borne})
    # The record header wins over the value's own first bytes; a tombstone is one with or without it.
    kit.send([None], headers={"__value_schema_id": header(schema.id)})
    run(kit.settings, spark=kit.spark, registry=registry)

    assert column(kit, "chess", "player") == ["id before", "guid before", "id beside", "guid beside"]
    assert set(column(kit, "chess", "schema_id")) == {schema.id}
    assert reasons(kit) == {"unknown_schema": 2, "bad_magic": 1}
    assert quarantined(kit)[0]["value"] == body(game="chess", player="unknown beside")
    assert quarantined(kit)[2]["header_schema_id"] == b"\x09"
    assert_each_record_in_one_place(kit)


def test_without_reading_headers_a_header_borne_schema_is_not_seen(kit: PipelineKit) -> None:
    schema = registered(kit)
    kit.configured(source={"headers": False})
    kit.send([schema.body(game="chess")], headers={"__value_schema_id": header(schema.id)})
    kit.send([schema.value(game="chess", player="a")])

    kit.run()

    assert column(kit, "chess", "player") == ["a"]
    assert reasons(kit) == {"bad_magic": 1}


# Lighter: test_what_the_settings_call_a_failure_stops_the_run (tests/ingest/batch/test_objections.py); a new entity stops a run in test_records_entities.py.
@pytest.mark.heavy
def test_an_undecodable_record_stops_where_the_settings_say_so_with_nothing_visible_and_its_place_named(
    kit: PipelineKit,
) -> None:
    schema = registered(kit)
    kit.configured(policies={"undecodable": "fail"})
    kit.send([schema.value(game="chess"), schema.value(game="chess"), header(schema.id) + b"\x0f"], b"k", 1)

    with pytest.raises(PolicyStopped, match=rf"policies.undecodable.*1 malformed.*{kit.topic}/1/2"):
        kit.run()

    assert kit.versions() == {}
    assert kit.unnamed_files() == set()

    kit.configured(policies={"undecodable": "quarantine"})
    kit.run()
    assert len(column(kit, "chess", "player")) == 2
    assert reasons(kit) == {"malformed": 1}


# Lighter: tests/ingest/worker/test_fields_seen.py counts and warns, tests/ingest/tables/test_ledger.py has the ledger's row.
@pytest.mark.heavy
def test_a_producer_ahead_of_the_registry_is_told_of_once_and_its_records_are_delivered(
    kit: PipelineKit, caplog: pytest.LogCaptureFixture
) -> None:
    schema = registered(kit)
    ahead = schema.value(game="chess", player="a") + b"\xf8\x7f\x01"
    with caplog.at_level(logging.WARNING, "distributary.ingest.worker.fields_seen"):
        # Two batches of one run, each with a record that has field 2047.
        kit.configured(limits={"batch_rows": 2})
        kit.send([schema.value(game="chess", player="b"), ahead, ahead, ahead])
        kit.run()

    assert sorted(column(kit, "chess", "player")) == ["a", "a", "a", "b"]
    batches = sorted(kit.rows(BATCHES_TABLE).to_pylist(), key=lambda row: row["batch_id"])
    assert [json.loads(row["unknown_fields"]) for row in batches] == [
        {str(schema.id): {"2047": 1}},
        {str(schema.id): {"2047": 2}},
    ]
    (warning,) = [text for text in caplog.messages if "a field that it lacks" in text]
    assert (
        f"schema {schema.id} " in warning
        and f"2047: in 1 of those looked at, first at {kit.topic}/0/1." in warning
    )


# Lighter: test_records_that_were_decoded_but_do_not_fit_their_table_are_not_called_undecodable (tests/ingest/batch/test_objections.py).
@pytest.mark.heavy
def test_a_record_that_fits_its_schema_but_not_its_table_is_not_undecodable(kit: PipelineKit) -> None:
    schema = registered(kit)
    kit.configured(policies={"undecodable": "fail"})
    kit.send([schema.value(game="chess", player="a", level=1)])
    kit.run()
    text = EVENT.replace("int32 level", "string level")
    other = registered_beside(kit, text)
    kit.send([other.value(game="chess", player="b", level="high")])

    kit.run()

    assert column(kit, "chess", "player") == ["a"]
    assert reasons(kit) == {"incompatible_type": 1}
