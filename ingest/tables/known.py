"""What the driver knows of the sink's tables, kept between batches and looked at again only where one has changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from deltalake.exceptions import DeltaError, TableNotFoundError
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from distributary.errors import CommitImpossible, PipelineError
from distributary.ingest.columns.clustering import sources
from distributary.ingest.columns.layout import Layout
from distributary.ingest.kafka.client import topic_id
from distributary.ingest.kafka.cluster import UNKNOWN
from distributary.ingest.kafka.columns import payload_layout
from distributary.ingest.merge import live_files
from distributary.ingest.merge.rule import VECTORS, memory_folder
from distributary.ingest.pins import PinnedTable
from distributary.ingest.settings.groups import Columns, Route
from distributary.ingest.settings.rule_book import TableSpec
from distributary.ingest.settings.upserts import Upsert
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import At, files_at
from distributary.ingest.tables.log import has_log, is_newest, may_be_tables, passing_unread, tables_under
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.state import (
    TableState,
    fixed_columns,
    read_state,
    require_clustering,
    require_partitions,
)
from distributary.ingest.tables.state_by_spark import (
    path_for_spark,
    require_delta,
    snapshot,
    transaction_version,
)
from distributary.ingest.tables.transaction import TableCommit, newest_batch
from distributary.values import without_logins

_Told = TypeVar("_Told")

# The table property that says which value of the routing field a table is for.
ENTITY_PROPERTY = "distributary.entity"

# The one that says which pipeline made it.
PIPELINE_PROPERTY = "distributary.pipeline"

# The one that says by what a table's rows take the place of earlier ones; tables to which each is added lack it.
UPSERT_PROPERTY = "distributary.upsert"

# The one that says whose deletes a table remembers, by that table's folder.
REMEMBERS_PROPERTY = "distributary.remembers"

# Within it: what of a record's own key names a row.
_RECORD_KEY = "record_key"

# Within it: by the hashes of which secret rows are named.
_HASHED = "hashed"

# Where tables are on another machine, each is waited for a dozen times a batch, and hardly a processor is needed.
_THREADS, _THREADS_IN_STORES = 8, 64


@dataclass(frozen=True, slots=True)
class MadeWith:
    """What tables that are made are like.

    properties  those of each
    spec_of     what the settings say of an entity's, which wins
    topics      those that rows come from, and the UUID of each
    folder_of   the folder of the table that a topic's rows go to, where that is one for each; None where it is not
    by_text     whether a record's own key is its text, not its bytes; None where nobody says
    named       what an entity's table is called now
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    spec_of: Callable[[str], TableSpec] = lambda _: TableSpec()
    topics: Mapping[str, str] = field(default_factory=dict)
    folder_of: Callable[[str], str] | None = None
    by_text: bool | None = None
    named: Callable[[str], str] = lambda _: ""

    def topics_of(self, folder: str) -> Mapping[str, str]:
        """Those of which a table, by its folder, may get rows: what became of the others is nothing to it."""
        if self.folder_of is None:
            return self.topics
        return {name: uuid for name, uuid in self.topics.items() if self.folder_of(name) == folder}

    def whole(self, folder: str, spec: TableSpec, own: Mapping[str, str]) -> dict[str, str | None]:
        """All properties that a table, by its folder, is made with of which `spec` is said; `own` are those that it alone has."""
        mode = properties_of(spec, self.topics_of(folder), by_text=self.by_text)
        return {**self.properties, **own, **spec.properties, **mode}


def folder_of_topics(route: Route) -> Callable[[str], str] | None:
    """Which table a topic's rows go to, where the settings route by that."""
    return route.folder if route.by == "topic" else None


def properties_of(
    spec: TableSpec, topics: Mapping[str, str] | None = None, *, by_text: bool | None = None
) -> dict[str, str]:
    """What a table is made with for how its rows land, of these topics."""
    if spec.upsert is None:
        return {}
    hashed = _named_by(spec)
    told = {**_told(spec.upsert, topics or {}, by_text), **({} if hashed is None else {_HASHED: hashed})}
    return {VECTORS: "true", UPSERT_PROPERTY: json.dumps(told)}


def require_mode(
    state: TableState,
    spec: TableSpec,
    topics: Mapping[str, str] | None = None,
    *,
    by_text: bool | None = None,
) -> None:
    """Raises CommitImpossible where rows of a table that is there land otherwise than the settings say: those that it has came that way.

    So it does where positions order them, and those of a topic count other records by now than they did; where a record's own
    key names them, which was its bytes before and is its text now, or the other way round; and where hashes name them, by another secret.
    """
    told, wanted = state.properties.get(UPSERT_PROPERTY), spec.upsert
    if told is None and wanted is None:
        return
    by = None if told is None else _upsert(told)
    if by != (None if wanted is None else wanted.lasting):
        raise CommitImpossible(
            f"table {state.place} has rows that landed with {_mode(by)}, and {spec.setting} says {_mode(wanted)}, which its rows cannot be "
            "brought to. Write it as it was; or move the table away, or have route.table name another, and read the topics once more "
            "with a new checkpoint and `start: again`"
        )
    if not state.native:
        raise CommitImpossible(
            f"table {state.place} takes rows by Spark's writer alone ({state.why_not}), which appends them, and {spec.setting} says "
            f"{_mode(wanted)}. Take that from the table"
        )
    before = json.loads(told or "{}").get(_RECORD_KEY)
    if before is not None and by_text is not None and before != _spelled(by_text):
        raise CommitImpossible(
            f"table {state.place} has rows that are named by their records' keys as {before}, and by decode.key it is their {_spelled(by_text)} "
            "now: each key would get a second row. Write decode.key as it was; or move the table away, or have route.table name another, and "
            "read the topics once more with a new checkpoint and `start: again`"
        )
    hashed, hashes = json.loads(told or "{}").get(_HASHED), _named_by(spec)
    if hashed != hashes:
        raise CommitImpossible(
            f"table {state.place} has rows that are named by {_spelled_hash(hashed)}, and {spec.setting} names them by {_spelled_hash(hashes, hashed)} "
            "now: each key would get a second row. Write columns.hash, and its secret, as they were; or move the table away, or have route.table "
            "name another, and read the topics once more with a new checkpoint and `start: again`"
        )
    if wanted is not None and wanted.by_position and (anew := _made_anew(told or "", topics or {})):
        raise CommitImpossible(
            f"table {state.place} has rows of {', '.join(anew)}, which was made anew since: its offsets begin at 0 again, so its records would "
            "be taken for older ones than the table has. Move the table away, or have route.table name another; or write sequence_by for that "
            "one, or on_repartition: timestamp for this one"
        )


def upsert_of(properties: Mapping[str, str | None]) -> Upsert | None:
    """How a table's rows land, by its properties; None where each is added, or nobody can read that."""
    told = properties.get(UPSERT_PROPERTY)
    return None if told is None else _upsert(told)


def are_named_by_text(properties: Mapping[str, str | None]) -> bool:
    """Whether a table's rows are named by their records' keys as texts, not as bytes, by its properties."""
    told = properties.get(UPSERT_PROPERTY)
    known = {} if told is None or _upsert(told) is None else json.loads(told)
    return bool(known.get(_RECORD_KEY) == _spelled(by_text=True))


def named_columns(state: TableState) -> tuple[str, ...]:
    """The columns that have statistics wherever they are: by those a batch finds its keys, or a table is clustered by them."""
    upsert = upsert_of(state.properties)
    keys = () if upsert is None else (*upsert.fields, *upsert.bounds)
    return (*keys, *sources(state.layout, state.clustering or ()))


def with_topics(state: TableState, spec: TableSpec, topics: Mapping[str, str]) -> TableSpec:
    """What a table is to be, which also knows the topics that came since it was made: one of these may be made anew, too."""
    told = state.properties.get(UPSERT_PROPERTY)
    if told is None or spec.upsert is None or spec.upsert.sequence_by or _upsert(told) is None:
        return spec
    before = json.loads(told)
    more = {name: topic_id(uuid) for name, uuid in sorted(topics.items()) if uuid != UNKNOWN}
    known = {**more, **before.get("topics", {})}
    if known == before.get("topics", {}):
        return spec
    return replace(
        spec, properties={**spec.properties, UPSERT_PROPERTY: json.dumps({**before, "topics": known})}
    )


def _named_by(spec: TableSpec) -> str | None:
    if spec.reshape is None or spec.upsert is None:
        return None
    return spec.reshape.names_by(spec.upsert.keys)


def _spelled_hash(fingerprint: str | None, before: str | None = None) -> str:
    if fingerprint is None:
        return "what their records say"
    return "hashes of that" if before is None else "hashes with another secret"


def _told(upsert: Upsert, topics: Mapping[str, str], by_text: bool | None) -> dict[str, Any]:
    known = {name: topic_id(uuid) for name, uuid in topics.items() if uuid != UNKNOWN}
    by = {"topics": known} if known and not upsert.sequence_by else {}
    named = {} if upsert.keys or by_text is None else {_RECORD_KEY: _spelled(by_text)}
    return {**upsert.lasting.to_json(), **named, **by}


def _spelled(by_text: bool) -> str:
    return "text" if by_text else "bytes"


def _made_anew(told: str, topics: Mapping[str, str]) -> list[str]:
    """The topics that had another UUID when the table was made."""
    before = json.loads(told).get("topics", {})
    return [
        name
        for name, uuid in sorted(topics.items())
        if UNKNOWN not in (uuid, before.get(name, UNKNOWN)) and topic_id(uuid) != before[name]
    ]


def _upsert(told: str) -> Upsert | None:
    try:
        return Upsert.from_json(json.loads(told))
    except (ValueError, KeyError, TypeError):
        return None


def _mode(upsert: Upsert | None) -> str:
    return "mode append" if upsert is None else str(upsert)


class TableBook:
    """States of tables by their folder under the root."""

    def __init__(  # noqa: PLR0913, PLR0917 - one value each of what it knows
        self,
        root: At,
        columns: Columns,
        spark: SparkSession | None,
        threads: int | None = None,
        native: NativeCommits | None = None,
        made_with: MadeWith | None = None,
    ) -> None:
        """`native` commits to the same tables, so that each is opened once for both.

        threads    how many tables are looked at, changed or committed side by side; None: as suits where they are
        made_with  what tables that are made are like
        """
        self.root: Files = files_at(root)
        self.columns, self._spark = columns, spark
        self.threads = threads or (_THREADS_IN_STORES if self.root.remote else _THREADS)
        self._native = native or NativeCommits()
        self.made_with = made_with or MadeWith()
        self._by_spark: dict[str, TableState | None] = {}
        self._layouts: dict[Layout, Layout] = {}
        # Folders of tables that were made or altered and are not synced yet.
        self.unsafe: set[str] = set()
        # Folders of tables that are not asked what they are: nothing is decided by one that cannot take what was decided before.
        self.parked: frozenset[str] = frozenset()

    @property
    def spark(self) -> SparkSession | None:
        """The session that tables are asked about which delta-rs cannot open."""
        return self._spark

    def place(self, folder: str) -> Files:
        """Where a table is."""
        return self.root.below(folder)

    def entities_there(self, pipeline: str = "", owners: Mapping[str, str] | None = None) -> dict[str, str]:
        """Entities whose tables are there already, made by an earlier checkpoint of the pipeline, and their folders: of several the one that is called as it would be now.

        Whose a table is `owners` says, by its folder, or else itself; one that nobody tells of, and all without a name, is taken for the pipeline's.
        """
        folders = may_be_tables(self.root) if self.root.remote else tables_under(self.root)
        states = self.states((folder for folder in folders if not folder.startswith("_")), passing=True)
        mine = {folder: state.properties for folder, state in states.items()}
        if pipeline:
            mine = {
                folder: properties
                for folder, properties in mine.items()
                if (owners or {}).get(folder, properties.get(PIPELINE_PROPERTY, pipeline)) == pipeline
            }
        there = [(told[ENTITY_PROPERTY], folder) for folder, told in mine.items() if ENTITY_PROPERTY in told]
        return dict(sorted(there, key=lambda one: self.made_with.named(one[0]) == one[1]))

    def pinned(self, entities: Mapping[str, str]) -> dict[str, PinnedTable]:
        """The tables, by folder, of these entities (`entity -> folder`); without those that are not there.

        Raises CommitImpossible for one that only Spark could commit to, where it is not let near or has no Delta.
        """
        folders = {folder: entity for entity, folder in entities.items()}
        states = self.states(folders)
        return {folder: self._pinned(folders[folder], state) for folder, state in states.items()}

    def _pinned(self, entity: str, state: TableState) -> PinnedTable:
        made_with = self.made_with
        topics = made_with.topics_of(state.place.url.rpartition("/")[2])
        require_mode(state, made_with.spec_of(entity), topics, by_text=made_with.by_text)
        require_partitions(state, made_with.spec_of(entity), self.columns.kafka_date)
        require_clustering(state, made_with.spec_of(entity))
        if not state.native:
            path_for_spark(state.place, state.why_not)
            if self._spark is not None:
                require_delta(self._spark, state.place, state.why_not)
        layout = self._shared(payload_layout(self.columns, state.layout))
        clustered = sources(state.layout, state.clustering or ())
        return PinnedTable(entity, layout, fixed_columns(state), state.native_partitions, clustered)

    def readable(self, entities: Mapping[str, str]) -> tuple[dict[str, PinnedTable], dict[str, str]]:
        """The same without Spark: the tables that delta-rs can open, and why it cannot open the others."""
        try:
            return self.pinned(entities), {}
        except PipelineError:
            found: dict[str, PinnedTable] = {}
            failed: dict[str, str] = {}
            for entity, folder in entities.items():
                try:
                    found |= self.pinned({entity: folder})
                except PipelineError as error:
                    failed[folder] = str(error)
            return found, failed

    def _shared(self, layout: Layout) -> Layout:
        """One object for all tables of the same columns, which a thousand tables' pins then hold once."""
        return self._layouts.setdefault(layout, layout)

    def states(self, folders: Iterable[str], *, passing: bool = False) -> dict[str, TableState]:
        """The present states of those of these tables that are there; with `passing` none of those that may not be read, of which a warning tells."""
        wanted = [folder for folder in dict.fromkeys(folders) if folder not in self.parked]
        # In a folder it takes microseconds, and less than another thread does.
        known = self._side_by_side(self._known, wanted) if self.root.remote else map(self._known, wanted)
        found = dict(zip(wanted, known, strict=True))
        unknown = [folder for folder, state in found.items() if state is None]
        if not self.root.remote:
            unknown = [folder for folder in unknown if has_log(self.place(folder))]
        look = passing_unread(self.root, self._look) if passing else self._look
        found.update(zip(unknown, self._side_by_side(look, unknown), strict=True))
        return {folder: state for folder, state in found.items() if state is not None}

    def _side_by_side(self, ask: Callable[[str], _Told | None], folders: Sequence[str]) -> list[_Told | None]:
        if not folders:
            return []
        with ThreadPoolExecutor(min(self.threads, len(folders))) as pool:
            return list(pool.map(ask, folders))

    def _known(self, folder: str) -> TableState | None:
        return self._native.known(self.place(folder))

    def newest_batch(self, folder: str, app_id: str) -> int | None:
        """The newest batch of an application in a table, which Spark tells where delta-rs cannot; None where there is none.

        Raises PipelineError where neither can tell, as while a store does not answer.
        """
        place = self.place(folder)
        try:
            return newest_batch(place, app_id)
        except DeltaError as error:
            return self._newest_by_spark(place, app_id, error)

    def newest_batches(self, apps: Mapping[str, str]) -> dict[str, int | None]:
        """The same of many tables, each with its application; one that is opened for it stays so. Raises PipelineError."""

        def newest(folder: str) -> int | None:
            try:
                return self._native.newest(self.place(folder), apps[folder])
            except DeltaError:
                return self.newest_batch(folder, apps[folder])

        return dict(zip(apps, self._side_by_side(newest, list(apps)), strict=True))

    def require_in(self, one: TableCommit) -> None:
        """Raises TableAhead where the table has a transaction of this number by the commit of another batch."""
        try:
            version = self._native.state(one.place).version
        except DeltaError:
            return  # nobody tells what that said of itself
        one.is_in(one.batch_id, version)

    def _newest_by_spark(self, place: Files, app_id: str, error: DeltaError) -> int | None:
        unknown = PipelineError(
            f"table {place}: nobody can tell its newest batch ({without_logins(str(error))}); it is tried again. If that stays so, have "
            "whoever altered the table take it back; or move its folder away, run again, and let `distributary resolve` decide about it; or have "
            "the others go on without it (`policies.stuck_table: park`)"
        )
        if self._spark is None:
            raise unknown from error
        try:
            current = snapshot(self._spark, place)
        # Spark is not let near it, or cannot read it either.
        except (CommitImpossible, Py4JError, PySparkException):
            raise unknown from error
        if current.version() < 0:
            raise unknown from error
        return transaction_version(current, app_id)

    def require_nothing_remembered(self, folder: str, upsert: Upsert) -> None:
        """Raises CommitImpossible where records are remembered of a table that is gone: what they said stood in its rows alone."""
        memory = memory_folder(folder)
        state = None if upsert.history is None else self.states([memory]).get(memory)
        if state is not None and len(live_files.read(self.place(memory), state.version)):
            raise CommitImpossible(
                f"table {folder} is to be made anew, and {state.place} remembers records of the one before it, whose rows said what these did. "
                "Move that away, too, and read the topics once more with a new checkpoint and `start: again`; or bring the table back"
            )

    def created(self, state: TableState) -> None:
        """Take note of a table that was just made."""
        self._native.created(state)

    def changed(self, folder: str) -> None:
        """Take note of a table that was just changed, which is looked at again when it is asked for."""
        self._native.forget(self.place(folder))

    def require_readable(self, folder: str) -> None:
        """Open a table, whatever is known of it and whether it is parked or not. Raises whatever keeps one from that."""
        self.changed(folder)
        if self.root.remote or has_log(self.place(folder)):
            self._look(folder)

    def _look(self, folder: str) -> TableState | None:
        place = self.place(folder)
        try:
            return self._native.state(place)
        except TableNotFoundError:
            return None
        except DeltaError:
            return self._look_by_spark(place)

    def _look_by_spark(self, place: Files) -> TableState | None:
        """A table that delta-rs cannot open is read by Spark, which takes long, and only when its log has grown."""
        state = self._by_spark.get(place.url)
        if state is None or not is_newest(place, state.version):
            state = self._by_spark[place.url] = read_state(place, self._spark)
        return state
