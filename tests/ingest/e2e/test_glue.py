"""A topic in Glue's wire format: rows by the schemas that its registry gives, and a reason for each record without one."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from uuid import UUID

import pytest
import yaml
from tests.codecs.glue.test_codec import avro_body
from tests.codecs.wire.test_glue import framed
from tests.ingest.e2e.handmade import quarantined
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.registry.glue.answers import ClientError, RecordedGlue, recorded

from distributary.codecs.wire.glue import MOST_BYTES
from distributary.ingest.evolution.offered import Offer
from distributary.ingest.plan import plan
from distributary.ingest.replay.bring_back import bring_back
from distributary.ingest.run import run
from distributary.producer_sim.verify.comparison import verify
from distributary.registry.base import Guid

pytestmark = [pytest.mark.spark, pytest.mark.stack]

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/glue.md"

STRANGER = bytes.fromhex("5f1e5f1e000040008000000000000001")


def test_records_plain_and_compressed_become_rows_and_each_broken_one_has_its_reason(
    kit: PipelineKit,
) -> None:
    page = yaml.safe_load(re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)[0])
    kit.configured(registry={"url": None, **page["registry"]}, decode=page["decode"], route=page["route"])
    good = framed(avro_body("chess"), packed=True)
    hostile = {
        b"": "no_header",
        b"\0" + good[1:]: "no_glue_header",
        b"\3\1" + good[2:]: "unknown_compression",
        good[:17]: "truncated_header",
        good[:-3]: "bad_compression",
        good[:18] + zlib.compress(bytes(MOST_BYTES + 1), 9): "inflated_too_large",
        framed(avro_body("chess") + b"more", packed=True): "trailing_bytes",
        b"\3\0" + STRANGER + avro_body("chess"): "unknown_schema",
    }
    kit.send([good, framed(avro_body("go")), None, *hostile])
    run(kit.settings, registry=recorded(RecordedGlue()))
    assert kit.rows("silver_chess_events")["game"].to_pylist() == ["chess"]
    assert kit.rows("silver_go_events")["game"].to_pylist() == ["go"]
    rows = quarantined(kit)
    assert {bytes(row["value"]): row["reason"] for row in rows} == hostile


EVENT = Guid("0c1e9b1a-8d1f-4b43-9d0e-3f1f6ab1b002")


def protobuf(kit: PipelineKit, monkeypatch: pytest.MonkeyPatch, glue: RecordedGlue) -> None:
    """A pipeline of Protobuf that asks this Glue, whoever opens its registry."""
    for module in ("run", "plan"):
        monkeypatch.setattr(f"distributary.ingest.{module}.open_registry", lambda _: recorded(glue))
    kit.configured(
        registry={"url": None, "type": "glue", "subjects": ["shop-events"], "unknown_id_wait_seconds": 0.0},
        decode={"format": "protobuf"},
        route={"field": "game", "table": "t_{entity}"},
    )


def event(game: bytes, packed: bool = True) -> bytes:
    return framed(b"\0\x0a" + bytes([len(game)]) + game, packed, UUID(EVENT))


def test_what_was_pinned_is_decoded_while_glue_is_away(
    kit: PipelineKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    protobuf(kit, monkeypatch, RecordedGlue())
    kit.send([event(b"go")])
    kit.run()
    down = ConnectionError("away")
    away = RecordedGlue(get_schema_version=down, list_schema_versions=down, list_schemas=down)
    protobuf(kit, monkeypatch, away)
    kit.send([event(b"go", packed=False), event(b"chess")])
    kit.run()
    assert kit.rows("t_go")["game"].to_pylist() == ["go", "go"]
    assert kit.rows("t_chess")["game"].to_pylist() == ["chess"]
    assert kit.rows("t_go")["schema_id"].to_pylist() == [0, 0]


# Lighter: test_replays.py brings such records back whatever registry had lost their schema.
@pytest.mark.heavy
def test_records_of_a_version_that_was_away_are_brought_back_with_their_bytes(
    kit: PipelineKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    protobuf(kit, monkeypatch, RecordedGlue(get_schema_version=ClientError("EntityNotFoundException")))
    kit.send([event(b"go"), event(b"chess", packed=False)])
    kit.run()
    assert [row["reason"] for row in quarantined(kit)] == ["unknown_schema"] * 2
    assert {row["schema_guid"] for row in quarantined(kit)} == {EVENT}
    protobuf(kit, monkeypatch, RecordedGlue())
    bring_back(kit.settings, None, spark=kit.spark)
    assert kit.rows("t_go")["game"].to_pylist() == ["go"]
    assert kit.rows("t_chess")["game"].to_pylist() == ["chess"]
    found = verify(kit.settings)
    assert not found.differences, "\n".join(map(str, found.differences))


def test_the_newest_version_s_changes_are_told_before_they_come(
    kit: PipelineKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    protobuf(kit, monkeypatch, RecordedGlue())
    kit.send([event(b"go")])
    kit.run()
    assert not plan(kit.settings).open
    offer = Offer('syntax = "proto3"; package p; message Event { string game = 1; int32 level = 2; }')
    told = plan(kit.settings, offer)
    assert any("level" in str(verdict) for step in told.steps for verdict in step.verdicts)


@pytest.mark.parametrize("mode", ["inline", pytest.param("restart", marks=pytest.mark.heavy)])
def test_a_new_version_s_field_lands_with_the_record_that_brought_it(
    kit: PipelineKit, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    protobuf(kit, monkeypatch, RecordedGlue())
    kit.configured(decode={"format": "avro", "evolution": mode}, registry={"subjects": ["no-events"]})
    kit.send([framed(avro_body("go"))])
    kit.run()
    second = UUID("b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c64")
    kit.send([framed(avro_body("go") + b"\x08glad", packed=True, version=second), framed(avro_body("go"))])
    kit.run()
    assert sorted(map(str, kit.rows("t_go")["mood"].to_pylist())) == ["None", "None", "glad"]
    assert not verify(kit.settings).differences
