"""A pipeline as a graph: `distributary graph` as a function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from distributary.codecs.base import load_codec
from distributary.ingest.bronze.rule import KEEPS_PROPERTY
from distributary.ingest.columns.safe_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    MEMORY_SUFFIX,
    QUARANTINE_TABLE,
)
from distributary.ingest.commit_log.owners import Records
from distributary.ingest.derived.instances import Entities, Instance, instances
from distributary.ingest.derived.told import told_by
from distributary.ingest.lineage.columns import columns_of
from distributary.ingest.lineage.flow import Flow, FlowColumn, FlowEdge, FlowNode
from distributary.ingest.lineage.recorded import Recorded, recorded
from distributary.ingest.schemas.inferred_per_entity import schema_place
from distributary.ingest.schemas.opening import identity
from distributary.ingest.settings.groups import Columns, NamedTable
from distributary.ingest.settings.model import Settings
from distributary.ingest.settings.patterns import Pattern, is_pattern
from distributary.ingest.settings.rule_book import RuleBook
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.tables.handle import is_there, opened
from distributary.ingest.tables.known import ENTITY_PROPERTY
from distributary.ingest.tables.state import state_of
from distributary.values import without_logins

_VECTORS = "deletionVectors"

_SERVERS = "bootstrap.servers"


def flow(settings: Settings) -> Flow:
    """What flows between what in a pipeline, and how much so far.

    settings  the pipeline's; a run of it may go on meanwhile

    Tables are those that it has made; where it has made none, their names' pattern stands for them. How much flowed is what the
    ledger says, of all its checkpoints; how many rows a table has, what its log says. Neither Kafka nor a registry is asked.

    >>> flow = distributary.flow(settings)
    >>> sum(node.rows for node in flow.nodes if node.kind == "table")
    200
    """
    root = open_files(settings.sink.root, settings.storage)
    return _seen(root, settings, recorded(root, settings.name))


def structure(settings: Settings) -> Flow:
    """The same without how much flowed, for settings that name each topic: the ledger, which grows, is not read."""
    return _seen(open_files(settings.sink.root, settings.storage), settings, Recorded())


def _seen(root: Files, settings: Settings, sums: Recorded) -> Flow:
    hub = FlowNode(f"pipeline:{settings.name}", "pipeline", settings.name, _what_it_does(settings))
    sources = [
        FlowNode(f"topic:{topic}", "topic", topic, _where(settings, topic))
        for topic in _topics(settings, sums)
    ]
    schemas = list(_schemas(settings))
    tables = _tables(root, settings)
    others = list(_others(root, settings, sums))
    derived, made_of = _derived(root, settings, (*tables, *others))
    edges = [
        *(
            FlowEdge(one.id, hub.id, "records", sums.read[one.name] if sums.batches else None)
            for one in sources
        ),
        *(FlowEdge(one.id, hub.id, "schemas") for one in schemas),
        *(FlowEdge(hub.id, one.id, "rows") for one in tables),
        *(_edge(hub, one, sums) for one in others),
        *made_of,
    ]
    nodes = (*sources, *schemas, hub, *tables, *others, *derived)
    return Flow(settings.name, nodes, tuple(edges), sums.batches)


def _where(settings: Settings, topic: str) -> str:
    """Where a topic is: its brokers, its region, or the place of the table, or of the files, that it is."""
    if settings.source.files is not None:
        return without_logins(str(settings.source.files.path))
    if settings.source.kinesis is not None:
        return settings.source.kinesis.where
    tables = {} if settings.source.delta is None else settings.source.delta.topics()
    return without_logins(str(tables[topic]) if tables else settings.source.kafka["bootstrap.servers"])


def _topics(settings: Settings, sums: Recorded) -> list[str]:
    """The topics, those that fit a pattern by what was read of them; the pattern itself where nothing was."""
    found = dict[str, None]()
    for topic in settings.source.topics:
        pattern = Pattern(topic, folds=False) if is_pattern(topic) else None
        fitting = [] if pattern is None else [name for name in sorted(sums.read) if pattern.fits(name)]
        found |= dict.fromkeys(fitting or [topic])
    return list(found)


def _what_it_does(settings: Settings) -> str:
    route = settings.route
    by = route.field or route.header or route.expression
    return f"{settings.decode.format}, routed by {route.by}{f' {by}' if by else ''}"


def _schemas(settings: Settings) -> Iterator[FlowNode]:
    """Where schemas come from: a registry, a folder of inferred ones, or both."""
    codec = load_codec(settings.decode.codec)
    if codec.registered:
        yield FlowNode("registry", "registry", "schema registry", without_logins(identity(settings.registry)))
    if codec.capabilities.growing is not None:
        place = str(schema_place(settings.name, settings.decode))
        yield FlowNode("schemas", "schemas", "inferred schemas", place)


def _tables(root: Files, settings: Settings) -> list[FlowNode]:
    """The tables of entities, by name, or one that stands for them where there are none; behind them those with records as they came."""
    owners, aside = Records(root).all(), _of_no_entity(settings)
    mine = sorted(
        table
        for table, owner in owners.items()
        if owner.pipeline == settings.name and not table.endswith(MEMORY_SUFFIX) and table != aside
    )
    with ThreadPoolExecutor(settings.limits.commit_threads) as pool:
        found = [
            one
            for one in pool.map(partial(_table, root, settings.sink.columns, settings.rule_book()), mine)
            if one is not None
        ]
    bronze = [one for one in found if one.kind == "bronze"]
    if settings.bronze is not None and not bronze:
        name = settings.bronze.table
        bronze = [FlowNode(f"table:{name}", "bronze", name, f"{root.url}/{name}")]
    if tables := [one for one in found if one.kind != "bronze"]:
        return [*tables, *bronze]
    pattern = settings.route.table
    return [FlowNode(f"table:{pattern}", "pattern", pattern, f"{root.url}/{pattern}"), *bronze]


def _table(root: Files, own: Columns, rules: RuleBook, folder: str) -> FlowNode | None:
    """A table that is there; without its rows where only Spark can open it."""
    place = root.below(folder)
    if not is_there(place):
        return None
    found = FlowNode(f"table:{folder}", "table", folder, place.url)
    try:
        handle = opened(place)
        properties = handle.metadata().configuration
        if KEEPS_PROPERTY in properties:
            return replace(found, kind="bronze", rows=_rows(handle))
        entity = properties.get(ENTITY_PROPERTY)
        reshape = None if entity is None else rules.reshape(entity)
        columns = columns_of(state_of(handle, place).layout, own, reshape)
        return replace(found, entity=entity, rows=_rows(handle), columns=columns)
    except DeltaError:
        return found


def _rows(handle: DeltaTable) -> int | None:
    """How many rows a table has, by its log; None where that does not say so of each file."""
    counts = pa.table(handle.get_add_actions())["num_records"]
    if counts.null_count:
        return None
    rows = pc.sum(counts).as_py() or 0
    if _VECTORS in (handle.protocol().reader_features or ()):
        for batch in pa.RecordBatchReader.from_stream(handle.deletion_vectors()):
            kept = batch["selection_vector"].flatten()
            rows -= len(kept) - (pc.sum(kept).as_py() or 0)
    return rows


def _others(root: Files, settings: Settings, sums: Recorded) -> Iterator[FlowNode]:
    """Where else records end, and what tells of them."""
    if aside := _of_no_entity(settings):
        there = _table(root, settings.sink.columns, settings.rule_book(), aside)
        yield there or FlowNode(f"table:{aside}", "table", aside, f"{root.url}/{aside}")
    place = f"{root.url}/{QUARANTINE_TABLE}"
    yield FlowNode(f"table:{QUARANTINE_TABLE}", "quarantine", QUARANTINE_TABLE, place)
    if sums.dropped or settings.policies.no_entity == "drop":
        yield FlowNode("dropped", "dropped", "dropped", "counted, kept nowhere")
    for name in (BATCHES_TABLE, CHANGES_TABLE):
        yield FlowNode(f"table:{name}", "ledger", name, f"{root.url}/{name}")


def _derived(
    root: Files, settings: Settings, tables: Sequence[FlowNode]
) -> tuple[list[FlowNode], list[FlowEdge]]:
    """The tables that are made of others, each behind those, and of which."""
    named = [(one.entity, one.name) for one in tables if one.entity is not None]
    # Of several that an entity has it is of the one that is called as it would be now.
    named.sort(key=lambda one: settings.route.folder(one[0]) == one[1])
    there = Entities(dict(named), settings.route.fold_case)
    every = instances(settings.derive, there)
    sent_to = _sent_to(settings, every)
    nodes, edges, known = list[FlowNode](), list[FlowEdge](), {one.id for one in tables}
    for one in every:
        found = _table(root, settings.sink.columns, settings.rule_book(), one.table)
        node = found or FlowNode(f"table:{one.table}", "table", one.table, f"{root.url}/{one.table}")
        looked_up = [
            FlowNode(f"static:{static.path}", "static", name, str(static.path))
            for name, static in one.rule.static.items()
        ]
        sent = list(_sent(one, settings, sent_to))
        # What leads to a thing stands before it; by another name it is the same one.
        looked_up = list({found.id: found for found in reversed(looked_up)}.values())[::-1]
        nodes += [found for found in looked_up if found.id not in known]
        # No field of a record, but what its newest version says of itself.
        _, told = told_by(root.below(one.table)) if node.columns else (None, None)
        made = {} if told is None else told.columns
        columns = tuple(
            FlowColumn(
                column.name,
                column.type,
                made_of=tuple(f"{of.table}.{of.column}" for of in made.get(column.name, ())),
            )
            for column in node.columns
        )
        nodes.append(replace(node, kind="derived", columns=columns))
        nodes += [found for found in sent if found.id not in known]
        known |= {node.id, *(found.id for found in (*looked_up, *sent))}
        edges += [FlowEdge(found.id, node.id, "rows") for found in looked_up]
        edges += [FlowEdge(node.id, found.id, "rows") for found in sent]
        edges += [
            FlowEdge(f"table:{name}", node.id, "rows") for name in one.inputs if f"table:{name}" in known
        ]
    return nodes, edges


def _cluster(brokers: str) -> frozenset[str]:
    """A cluster by its brokers, in whatever order they are named."""
    return frozenset(map(str.strip, brokers.split(",")))


def _sent_to(settings: Settings, every: Sequence[Instance]) -> Mapping[str, frozenset[str]]:
    """The topics that derived tables' rows go to, and of each the cluster whose one has the name alone for its id: the source's, else the first."""
    own = _cluster(settings.source.kafka.get(_SERVERS, ""))
    found = dict[str, frozenset[str]]()
    for one in every:
        if one.rule.sink is not None and (sink := one.rule.sink.kafka) is not None:
            there = _cluster(sink.options(settings.source.kafka).get(_SERVERS, ""))
            topic = one.filled(sink.topic)
            found[topic] = there if there == own else found.get(topic, there)
    return found


def _sent(one: Instance, settings: Settings, sent_to: Mapping[str, frozenset[str]]) -> Iterator[FlowNode]:
    """Where a derived table's rows go beside the table."""
    sink = one.rule.sink
    if sink is not None and sink.kafka is not None:
        topic = one.filled(sink.kafka.topic)
        brokers = sink.kafka.options(settings.source.kafka).get(_SERVERS, "")
        cluster = _cluster(brokers)
        # Of this name each cluster may have one.
        id_ = topic if cluster == sent_to[topic] else f"{without_logins(','.join(sorted(cluster)))}/{topic}"
        yield FlowNode(f"sent:{id_}", "sent", topic, without_logins(brokers))
    if sink is not None and sink.files is not None:
        place = f"{sink.files.path}/{one.table}"
        yield FlowNode(f"sent:{place}", "sent", f"{one.table}/*.parquet", place)


def _of_no_entity(settings: Settings) -> str | None:
    """The table of records that have no entity, where there is one."""
    named = settings.policies.no_entity
    return named.table if isinstance(named, NamedTable) else None


def _edge(hub: FlowNode, node: FlowNode, sums: Recorded) -> FlowEdge:
    """What goes to one of those, as far as it is recorded."""
    ran = sums.batches > 0
    if node.kind == "quarantine":
        return FlowEdge(hub.id, node.id, "records", sums.quarantined if ran else None)
    if node.kind == "dropped":
        return FlowEdge(hub.id, node.id, "records", sums.dropped if ran else None)
    if node.name == BATCHES_TABLE:
        return FlowEdge(hub.id, node.id, "batches", sums.batches if ran else None)
    return FlowEdge(hub.id, node.id, "changes" if node.kind == "ledger" else "rows")
