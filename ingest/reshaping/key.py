"""A record's own key as a rule lets it land: whoever hides a field may have it in the key, too."""

from __future__ import annotations

import pyarrow as pa

from distributary.ingest.reshaping.rule import Reshape
from distributary.ingest.reshaping.texts import hashed


def as_landing(rule: Reshape, records: pa.RecordBatch) -> pa.RecordBatch:
    """The records with their key, and its text where they have one, as the rule says; all else as it is."""
    if rule.key == "keep":
        return records
    for name in ("key", "key_text"):
        place = records.schema.get_field_index(name)
        if place >= 0:
            field = records.schema.field(place)
            records = records.set_column(place, field, landing_key(rule, records.column(place)))
    return records


def landing_key(rule: Reshape, keys: pa.Array) -> pa.Array:
    """Keys, or their texts, as the rule says."""
    if rule.key == "keep":
        return keys
    if rule.key == "leave" or rule.secret is None:
        return pa.nulls(len(keys), keys.type)
    return hashed(rule.secret, keys).cast(keys.type)
