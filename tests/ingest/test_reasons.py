from __future__ import annotations

from distributary.codecs import reasons as codec_reasons
from distributary.ingest import pins as reasons
from distributary.registry.base import Guid


def test_no_reason_of_the_pipeline_is_one_of_a_codecs() -> None:
    own = {
        reasons.TOMBSTONE,
        reasons.CONSTRAINT,
        reasons.SCHEMA_CHANGE,
        reasons.NULL_KEY,
        reasons.NULL_SEQUENCE,
        reasons.DELETE_CONDITION,
        reasons.PARTITION,
        reasons.EXPECTATION,
        reasons.NO_ENTITY.reason,
        reasons.TABLE_LIMIT.reason,
        reasons.KILLED_WORKER.reason,
        reasons.unknown_schema(1).reason,
        reasons.unusable_schema(1, "").reason,
        reasons.unasked_schema(1).reason,
    }
    assert len(own) == 14
    assert not own & set(codec_reasons.SENTENCES)


def test_verdicts_name_the_schema_and_the_setting_to_look_at() -> None:
    assert "77" in reasons.unknown_schema(77).detail
    assert (
        reasons.unusable_schema(Guid("guid"), "it is AVRO").detail == "schema guid cannot be used: it is AVRO"
    )
    assert "registry.max_unknown_ids" in reasons.unasked_schema(5).detail
    assert "route.max_tables" in reasons.TABLE_LIMIT.detail
