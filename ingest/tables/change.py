"""Step 5 of docs/explanation/how-a-batch-commits.md: which tables must be created, get columns or have wider ones, and doing so.

delta-rs does it in milliseconds a table; Spark makes columns wider, and changes tables whose features ask for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError, DeltaError
from pyspark.sql import SparkSession
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random

from distributary.errors import CommitImpossible, PipelineError
from distributary.ingest.bronze import rows as bronze
from distributary.ingest.bronze.rule import KEEPS_PROPERTY, require_keeping, require_not_keeping
from distributary.ingest.columns.clustering import ClusterBy
from distributary.ingest.columns.differences import Difference, differences, only_wider, storable
from distributary.ingest.columns.growth import Change
from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.partitions import all_partition_columns
from distributary.ingest.columns.safe_names import MEMORY_SUFFIX
from distributary.ingest.columns.widening import widenings
from distributary.ingest.kafka.columns import kafka_fields, table_schema
from distributary.ingest.log_paths import LOG
from distributary.ingest.merge.rule import VECTORS
from distributary.ingest.pins import Coordinates
from distributary.ingest.settings.groups import Columns
from distributary.ingest.settings.rule_book import TableSpec
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import At, files_at
from distributary.ingest.tables import state_by_spark as spark_tables
from distributary.ingest.tables.handle import answered, is_there, opened, options
from distributary.ingest.tables.known import (
    ENTITY_PROPERTY,
    REMEMBERS_PROPERTY,
    TableBook,
    require_mode,
)
from distributary.ingest.tables.ledger import OWN_TABLES
from distributary.ingest.tables.log import (
    clocks,
    create_actions,
    entry,
    first_actions,
    is_read,
    newest_entries,
    put_entry,
    sync_logs,
    write_again,
)
from distributary.ingest.tables.properties import Retelling, features_of, put_columns, require_altered, retell
from distributary.ingest.tables.state import (
    TableState,
    is_bare,
    read_state,
    require_clustering,
    require_partitions,
    state_of,
)
from distributary.ingest.tables.state_by_spark import widen_columns


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a table must be.

    layout      all columns that it must have
    properties  those of one that is made anew, beside what the settings say of it
    spec        what they say; None where they say nothing of it, or it is known for right
    partitions  the columns that one which is made anew is partitioned by
    """

    layout: Layout
    properties: Mapping[str, str] = field(default_factory=dict)
    spec: TableSpec | None = None
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A table that is new to the pipeline, or gets columns or wider ones: which, by which schema, and where first met."""

    folder: str
    entity: str
    new: bool
    added: tuple[Change, ...]
    schema_id: int | None
    first: Coordinates | None

    @property
    def widens(self) -> bool:
        """Whether a column that is there may become wider: so it may in a new table that an attempt made which came to nothing."""
        return self.new or any(change.kind == "widened" for change in self.added)


def _beside(folder: str, layout: Layout, properties: Mapping[str, str]) -> _Wanted:
    """What a table beside those of entities must be: it keeps records as they came, or else remembers another one's deletes."""
    if layout == bronze.LAYOUT:
        return _Wanted(layout, {**properties, KEEPS_PROPERTY: "true"}, partitions=(bronze.DAY,))
    return _Wanted(layout, {**properties, REMEMBERS_PROPERTY: folder.removesuffix(MEMORY_SUFFIX)})


def log_retention(days: int) -> str:
    """So many days as Delta takes them for `delta.logRetentionDuration`."""
    return f"interval {days} days"


class TableChanger:
    """Makes tables what they must be; all of it can be done again without harm."""

    def __init__(
        self,
        tables: TableBook,
        spark: SparkSession | None,
        columns: Columns,
        confirm: Callable[[], None] = lambda: None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`confirm` is called before tables are changed, if any is to be, and raises where this run may not; `changed` after each."""
        self._tables, self._spark, self._columns = tables, spark, columns
        self._confirm, self._changed = confirm, changed

    def apply(
        self,
        planned: Sequence[PlannedChange],
        layouts: Mapping[str, Layout],
        properties: Mapping[str, str],
        retellings: Sequence[Retelling] = (),
        memories: Mapping[str, Layout] | None = None,
    ) -> None:
        """Create or extend the tables planned for and those without one of Kafka's columns; our own where they are missing.

        Those of which that is wanted say something else of themselves. `memories` are what remembers deletes, with all columns, and what
        keeps records as they came.
        """
        schemas = {layout: Layout(table_schema(self._columns, layout)) for layout in set(layouts.values())}
        specs = {change.folder: self._tables.made_with.spec_of(change.entity) for change in planned}
        wanted = {
            change.folder: _Wanted(
                schemas[layouts[change.folder]],
                {**properties, ENTITY_PROPERTY: change.entity},
                specs[change.folder],
                all_partition_columns(
                    specs[change.folder].partition_by,
                    layouts[change.folder].columns,
                    self._columns.kafka_date,
                ),
            )
            for change in planned
        }
        wanted |= {folder: _beside(folder, layout, properties) for folder, layout in (memories or {}).items()}
        there = self._tables.states(OWN_TABLES)
        own = {
            folder: _Wanted(Layout(schema), properties)
            for folder, schema in OWN_TABLES.items()
            # Those that an earlier version made get the columns that were not kept then.
            if folder not in there or any(differences(there[folder].layout, schema))
        }
        self._make(
            {**self._short_of_kafka(layouts), **wanted, **own},
            {change.folder for change in planned if change.widens},
        )
        self._retell(retellings)

    def lacking(self, wanted: Mapping[str, Layout]) -> dict[str, Layout]:
        """Those of these tables that are not there, or lack a column. Raises CommitImpossible for one that is an entity's."""
        there = self._tables.states(wanted)
        for folder, state in there.items():
            if wanted[folder] == bronze.LAYOUT:
                require_keeping(state.place, state.properties)
            elif REMEMBERS_PROPERTY not in state.properties:
                raise CommitImpossible(
                    f"table {state.place} is where the deletes of table {folder.removesuffix(MEMORY_SUFFIX)} are remembered, and was made for "
                    "something else. Move it away, or take `deletes` from the settings"
                )
        return {
            folder: layout
            for folder, layout in wanted.items()
            if folder not in there or any(differences(there[folder].layout, layout.columns))
        }

    def _retell(self, retellings: Sequence[Retelling]) -> None:
        if not retellings:
            return
        self._confirm()

        def change(one: Retelling) -> None:
            retell(self._tables.place(one.folder), one.spec, self._spark)
            self._tables.changed(one.folder)
            self._changed()

        told = [one.folder for one in retellings]
        with self._made_safe(told), ThreadPoolExecutor(self._tables.threads) as pool:
            list(pool.map(change, retellings))

    def _short_of_kafka(self, written: Iterable[str]) -> dict[str, _Wanted]:
        """Those of these tables that were made before the settings asked for a column such as the key's text."""
        wanted = Layout(pa.schema(kafka_fields(self._columns)))
        return {
            folder: _Wanted(wanted)
            for folder, state in self._tables.states(written).items()
            if not set(wanted.names) <= set(state.layout.names)
        }

    def _make(self, wanted: Mapping[str, _Wanted], widened: Collection[str]) -> None:
        there = self._tables.states(wanted)
        self._require_modes(wanted, there)
        # By all their columns and by what else makes their protocol, which several tables share.
        made: dict[tuple[Layout, frozenset[str], tuple[str, ...], ClusterBy | None], TableState] = {}
        lacking = [
            folder
            for folder, one in wanted.items()
            if folder not in there or any(differences(there[folder].layout, one.layout.columns))
        ]
        if not (lacking or self._tables.unsafe):
            return
        self._confirm()
        self._make_safe_again()

        def make(folder: str) -> None:
            one, place = wanted[folder], self._tables.place(folder)
            schema, spec = one.layout.columns, one.spec or TableSpec()
            if folder not in there:
                own = self._tables.made_with.whole(folder, spec, one.properties)
                like = (one.layout, features_of(spec), one.partitions, spec.cluster_by)
                state = create(
                    place,
                    schema,
                    own,
                    made.get(like),
                    comment=spec.comment or "",
                    partitions=one.partitions,
                    cluster_by=spec.cluster_by,
                )
                if state is not None:
                    made[like] = state
                    self._tables.created(state)
            else:
                evolve(place, schema, self._spark, widen=folder in widened, partitions=one.partitions)
                self._tables.changed(folder)
            self._changed()

        # What remembers deletes has columns of its table's, which alone tells the next attempt of them.
        behind = [folder for folder in lacking if REMEMBERS_PROPERTY in wanted[folder].properties]
        # Before files come that need them: without the columns their values would be nowhere.
        for folders in ([one for one in lacking if one not in behind], behind):
            with self._made_safe(folders), ThreadPoolExecutor(self._tables.threads) as pool:
                list(pool.map(make, folders))

    def _require_modes(self, wanted: Mapping[str, _Wanted], there: Mapping[str, TableState]) -> None:
        """Raises CommitImpossible where a table that nobody had pinned has rows that land otherwise, whatever columns it has."""
        made_with = self._tables.made_with
        for folder, state in there.items():
            if (spec := wanted[folder].spec) is not None:
                require_not_keeping(state.place, state.properties)
                require_mode(state, spec, made_with.topics_of(folder), by_text=made_with.by_text)
                require_partitions(state, spec, self._columns.kafka_date)
                require_clustering(state, spec)
        for folder, one in wanted.items():
            if folder not in there and one.spec is not None and one.spec.upsert is not None:
                self._tables.require_nothing_remembered(folder, one.spec.upsert)

    @contextmanager
    def _made_safe(self, folders: Sequence[str]) -> Iterator[None]:
        """Inside, these tables are changed; behind it that survives a loss of power, as it does in a store in any case."""
        if self._tables.root.remote:
            yield
            return
        self._tables.unsafe.update(folders)
        yield
        sync_logs(self._tables.root, folders)
        self._tables.unsafe.difference_update(folders)

    def _make_safe_again(self) -> None:
        """What an attempt before this one made, and a disk may not have taken, is written again."""
        for folder in sorted(self._tables.unsafe):
            write_again(self._tables.root, newest_entries(self._tables.root, folder))
            self._tables.changed(folder)
        self._tables.unsafe.clear()


# Left to itself, delta-rs takes entries away behind a checkpoint that nobody has synced.
_NOTHING_ELSE = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)

LOG_RETENTION = "delta.logRetentionDuration"

# Opening a table costs 15 ms after 100 commits without a checkpoint instead of 3. A log that is kept for Delta's thirty
# days has a quarter of a million entries at a batch each ten seconds, and every reader lists them.
_CREATED_WITH = {"delta.checkpointInterval": "25", LOG_RETENTION: log_retention(2)}
_ATTEMPTS = 20


def create(  # noqa: PLR0913 - what a table is made with has no part in common
    table: At,
    schema: pa.Schema,
    properties: Mapping[str, str | None],
    like: TableState | None = None,
    *,
    comment: str = "",
    partitions: Sequence[str] = (),
    cluster_by: ClusterBy | None = None,
) -> TableState | None:
    """A table with these columns, all nullable, in partitions or clustered by some, and this configuration; one that is there gets the columns it lacks.

    `like` is a table just made with the same columns, partitions, clustering and protocol: a copy of its beginning costs a fraction. Gives the new table's
    state, None for one that was there. Raises BadSchema where Delta cannot store the schema, CommitImpossible where
    the table there contradicts it.
    """
    place = files_at(table)
    wanted, began = {**_CREATED_WITH, **properties}, clocks()
    configuration = {name: value for name, value in wanted.items() if value is not None}
    if not is_there(place):
        made = (
            _created(place, schema, configuration, comment, (partitions, cluster_by))
            if like is None
            else _copied(place, like, configuration, comment)
        )
        # Whoever stood still for long may find its number free though somebody else made the table.
        if made is not None and is_read(place, 0, began):
            return made
    evolve(place, schema)
    return None


def _created(
    place: Files,
    schema: pa.Schema,
    configuration: Mapping[str, str],
    comment: str,
    told_apart: tuple[Sequence[str], ClusterBy | None],
) -> TableState | None:
    partitions, cluster_by = told_apart
    clustering = cluster_by.paths(schema) if cluster_by is not None and cluster_by.fields else None
    if configuration.get(VECTORS) == "true" or clustering is not None:
        place.make_folder(LOG)
        columns = DeltaSchema.from_arrow(storable(schema)).to_json()
        first = first_actions(columns, configuration, comment, partitions, clustering)
        return state_of(opened(place), place) if put_entry(place, 0, first) else None
    try:
        handle = answered(
            place,
            lambda: DeltaTable.create(
                place.url,
                storable(schema),
                storage_options=options(place),
                partition_by=list(partitions),
                configuration=configuration,
                description=comment or None,
                # Keys of ours are unknown to Delta, which refuses them unless told otherwise.
                raise_if_key_not_exists=False,
                # Tried again after a rival's, it would be version 1 and replace the rival's columns without an error.
                commit_properties=CommitProperties(max_commit_retries=0),
            ),
        )
    except DeltaError:  # one that appeared meanwhile is as good as ours
        if not is_there(place):
            raise
        return None
    return state_of(handle, place)


def _copied(
    place: Files, like: TableState, configuration: Mapping[str, str], comment: str
) -> TableState | None:
    place.make_folder(LOG)
    if not put_entry(place, 0, create_actions(entry(like.place, 0), configuration, comment)):
        return None
    return replace(like, place=place, properties=configuration, comment=comment)


@retry(
    retry=retry_if_exception_type(CommitFailedError),
    stop=stop_after_attempt(_ATTEMPTS),
    wait=wait_random(0, 0.05),
    reraise=True,
)
def evolve(
    table: At,
    schema: pa.Schema,
    spark: SparkSession | None = None,
    *,
    widen: bool = False,
    partitions: Sequence[str] = (),
) -> tuple[str, ...]:
    """Adds what `schema` has and the table lacks, in structs, list elements and map values too; one that is in no `partitions` yet gets these.

    Returns the dotted paths added; nothing is done where nothing lacks, and nothing is ever removed. Changed is only
    with `widen` the type of a column that Delta can make as wide as `schema` has it, which takes Spark.
    Raises CommitImpossible where a column of the table has another type than in `schema`, or the table is gone.
    """
    place = files_at(table)
    state = read_state(place, spark)
    if state is None:
        raise CommitImpossible(
            f"table {place} is gone, so no column can be added; run again to have it made anew"
        )
    state = _with_wider_columns(state, schema, spark) if widen else state
    lacking = _lacking(state, schema)
    if not lacking and not (partitions and is_bare(state)):
        return ()
    # Only these: names that Delta refuses elsewhere are fine in a table with column mapping.
    new = storable(pa.schema([field for field in schema if field.name in {one.top for one in lacking}]))
    merged = pa.unify_schemas([state.layout, new], promote_options="permissive")
    if state.native:
        columns = pa.schema([merged.field(name) for name in new.names])
        fields, handle = DeltaSchema.from_arrow(columns), opened(place)
        told_apart = () if state.partitions else partitions
        if state.clustering is not None or told_apart:
            put_columns(place, handle, fields, told_apart)
            return tuple(one.path for one in lacking)
        answered(
            place,
            lambda: handle.alter.add_columns(fields.fields, post_commithook_properties=_NOTHING_ELSE),
        )
        require_altered(place, handle.version(), fields)
    elif spark is not None:
        spark_tables.add_columns(spark, place, merged, state.conditions.identity)
    else:
        paths = ", ".join(one.path for one in lacking)
        raise PipelineError(f"table {place} needs Spark to take the columns {paths}: {state.why_not}")
    return tuple(one.path for one in lacking)


def _with_wider_columns(state: TableState, wanted: pa.Schema, spark: SparkSession | None) -> TableState:
    if not widenings(state.layout, wanted):
        return state
    if spark is None:
        raise PipelineError(f"table {state.place} needs Spark to have wider columns")
    widen_columns(spark, state.place, state.layout, wanted)
    after = read_state(state.place, spark)
    if after is None:
        raise CommitImpossible(f"table {state.place} is gone; run again to have it made anew")
    return after


def _lacking(state: TableState, wanted: pa.Schema) -> list[Difference]:
    found = list(differences(state.layout, wanted))
    if contradictions := [str(one) for one in found if one.have is not None and not only_wider(one)]:
        raise CommitImpossible(
            f"table {state.place} cannot take the columns wanted: {'; '.join(contradictions)}; it was altered by "
            "another hand. Change it back, or move the table away to have it made anew"
        )
    return [one for one in found if one.have is None]
