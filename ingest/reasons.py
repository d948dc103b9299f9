"""Why the pipeline itself quarantines or drops a record; a codec's reasons are in `codecs/reasons.py`."""

from __future__ import annotations

from distributary.ingest.pins import Verdict
from distributary.registry.base import SchemaRef

TOMBSTONE = "tombstone"
UNKNOWN_SCHEMA = "unknown_schema"
UNUSABLE_SCHEMA = "unusable_schema"
CONSTRAINT = "constraint"

NO_ENTITY = Verdict("no_entity", "the routing field has no value")
TABLE_LIMIT = Verdict("table_limit", "route.max_tables is reached, or the settings allow no new table")
KILLED_WORKER = Verdict("killed_worker", "decoding this record ends the process that decodes it")


def unknown_schema(ref: SchemaRef) -> Verdict:
    """The registry knows no schema by this id or GUID."""
    return Verdict(UNKNOWN_SCHEMA, f"the registry knows no schema {ref}")


def unusable_schema(ref: SchemaRef, why: str) -> Verdict:
    """The registry has the schema, but nothing can be decoded with it."""
    return Verdict(UNUSABLE_SCHEMA, f"schema {ref} cannot be used: {why}")


def unasked_schema(ref: SchemaRef) -> Verdict:
    """Nobody asked the registry for it: the batch held more unknown schemas than are asked for at once."""
    return Verdict(
        "unasked_schema",
        f"schema {ref} was not asked for: the batch holds more unknown ones than registry.max_unknown_ids",
    )
