"""A topic in Glue's wire format: rows by the schemas that its registry gives, and a reason for each record without one."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import pytest
import yaml
from tests.codecs.glue.test_codec import avro_body
from tests.codecs.wire.test_glue import framed
from tests.ingest.e2e.handmade import quarantined
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.registry.glue.answers import RecordedGlue, recorded

from distributary.codecs.wire.glue import MOST_BYTES
from distributary.ingest.run import run

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
