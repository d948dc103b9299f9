"""Which rows leave tables for what is decoded once more: those of chosen records that bronze has, and no others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from distributary.errors import CommitImpossible, ConfigError, PipelineError
from distributary.ingest.columns.safe_names import MEMORY_SUFFIX
from distributary.ingest.kafka.offsets import Offsets
from distributary.ingest.quarantine.rows import rows_of
from distributary.ingest.replay.places import Places, are_in
from distributary.ingest.replay.raw_records import PLACE, PLACE_AND_TIME, may_have
from distributary.ingest.replay.staging import Tables
from distributary.ingest.settings.rule_book import RuleBook
from distributary.ingest.tables.known import REMEMBERS_PROPERTY, UPSERT_PROPERTY
from distributary.ingest.tables.state import TableState


def require_records_of_rows(
    tables: Tables, there: Mapping[str, Places], records: pa.Table, offsets: Offsets
) -> None:
    """Raises PipelineError where a row is of another record than the one that is kept of its place, as of a topic that was made anew: it is in no bronze."""
    by = tables.columns
    names = (by.kafka_topic, by.kafka_partition, by.kafka_offset, by.kafka_ts)
    columns = pa.schema([(name, one.type) for name, one in zip(names, PLACE_AND_TIME, strict=True)])
    told = partial(may_have, names=names[:3], offsets=offsets)
    for folder, places in there.items():
        for part in rows_of(tables.root.below(folder), columns, told):
            rows = part.filter(are_in(part, names[:3], places)).rename_columns(PLACE_AND_TIME.names)
            # A time that no column holds is none of either.
            lacking = rows.join(records, keys=list(PLACE_AND_TIME.names), join_type="left anti")
            lacking = lacking.filter(pc.is_valid(lacking["kafka_ts"]))
            if lacking.num_rows:
                topic, number, offset = (lacking[name][0].as_py() for name in PLACE)
                raise PipelineError(
                    f"table {folder} has a row of {topic}/{number} offset {offset} that is of another time than the record that bronze has of "
                    "that place, as of a topic that was made anew: nothing of this was changed, as nobody could make that row again. Choose "
                    "others, as by --partition and --offsets"
                )


def require_added(tables: Iterable[str], pipeline: str) -> None:
    """Raises ConfigError where rows of some tables take the place of others by themselves: what they are depends on more than their own records."""
    if found := sorted(tables):
        raise ConfigError(
            f"{', '.join(found)} has one row a key, or keeps what was, and its rows are made of several records each: --replace is for tables to "
            f"which each record is added, and nothing of it became visible. `distributary reset FILE --layer silver` makes all tables of {pipeline} "
            "again from bronze; or choose records of others, as by --entity"
        )


def require_no_keys(book: RuleBook, entities: Iterable[str], pipeline: str) -> None:
    """Raises as `require_added` where the settings say so of an entity's table."""
    require_added((f"the table of {one}" for one in entities if book.upsert(one)), pipeline)


def require_may_leave(
    states: Mapping[str, TableState], folders: Sequence[str], parked: Iterable[str], pipeline: str
) -> None:
    """Raises what says which of some tables, by their folders, lets no row leave; `states` are those of them that are not parked."""
    keyed = {
        folder.removesuffix(MEMORY_SUFFIX)
        for folder, state in states.items()
        if not {UPSERT_PROPERTY, REMEMBERS_PROPERTY}.isdisjoint(state.properties)
    }
    require_added(keyed, pipeline)
    if waits := sorted(set(parked).intersection(folders)):
        raise CommitImpossible(
            f"rows of {', '.join(waits)}, which is parked, are to leave: nothing of it became visible. Let `distributary resolve` decide about that "
            "table, run the pipeline, and say this again; or choose others, as by --entity",
            tuple(waits),
        )
    if wrong := [f"table {folder}: {why}" for folder, state in states.items() if (why := why_not(state))]:
        raise PipelineError(f"nothing was replaced: {'; '.join(wrong)}. Put that right, and say this again")


def why_not(state: TableState) -> str:
    """Why rows of a table cannot be taken away; empty where they can."""
    if not state.native:
        return f"only Spark's writer may change it ({state.why_not})"
    if state.properties.get("delta.appendOnly", "").lower() == "true":
        return "it lets nobody take rows away (delta.appendOnly)"
    return ""
