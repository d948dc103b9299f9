"""The records of one type in one batch, on their way to the tables: decoded, routed, brought into the table's shape."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa

from distributary.codecs.base import Decoded, growing_reader
from distributary.codecs.types.fields import fields_in
from distributary.codecs.types.masks import Codes, Rows, present
from distributary.errors import ConfigError, PolicyStopped
from distributary.ingest import pins as reasons
from distributary.ingest.columns.layout import Layout
from distributary.ingest.conform.conversion import Conformed
from distributary.ingest.conform.rescued_text import joined
from distributary.ingest.history.bounds import bounded, wrong_time
from distributary.ingest.kafka.columns import kafka_arrays, kafka_fields
from distributary.ingest.kafka.offset_spans import committed, place_of
from distributary.ingest.kafka.records import TEXT
from distributary.ingest.partitioned import in_no_partition, with_others
from distributary.ingest.pins import Verdict, proposal
from distributary.ingest.reshaping.key import as_landing
from distributary.ingest.routing.routes import Records, entities, routed_by_untaken
from distributary.ingest.settings.upserts import Upsert
from distributary.ingest.worker.decoding import in_pieces
from distributary.ingest.worker.entities import DENIED, NONE, WAITING
from distributary.ingest.worker.fields_seen import note, note_outgrown, note_unrouted
from distributary.ingest.worker.keyed import (
    deleted,
    keyless,
    named_by_text,
    not_deleted,
    saying_what_is_set,
    unplaced,
    wrong_mark,
)
from distributary.ingest.worker.record_group import (
    Batch,
    Columns,
    Mask,
    Part,
    as_expected,
    brought_columns,
    parts,
    picked,
    stops_by,
    without_erased,
)
from distributary.ingest.worker.report import Growth, Wish
from distributary.ingest.worker.task import Task, tally


def decode(batch: Batch, rows: Rows, payloads: pa.BinaryArray) -> None:
    """Give these rows of the batch, which ascend and of which these are the bodies, their places."""
    for piece in in_pieces(batch, rows, payloads):
        if piece.decoded is not None:
            place(batch, piece.rows, piece.payloads, piece.decoded)
        elif piece.why is not None:
            _refuse(batch, piece.rows, [piece.why] * len(piece.rows))


def place(batch: Batch, rows: Rows, payloads: pa.BinaryArray, decoded: Decoded) -> None:
    """The same with what was decoded of these rows' bodies."""
    failed = np.array([failure.row for failure in decoded.failures], dtype=np.int64)
    verdicts = [Verdict(failure.reason, failure.detail) for failure in decoded.failures]
    _refuse(batch, rows[failed], verdicts)
    report = batch.task.report
    report.stops += stops_by(batch, rows[failed], decoded.failures)
    if decoded.around is not None:
        report.counts.dropped.update({why: len(some) for why, some in decoded.around.left_out.items()})
    lacking = (batch.pinned.schema.id, batch.reader.name)
    note(report.sightings.unknown, lacking, decoded.unknown, batch.raw, rows)
    decoded = without_erased(batch, rows, _without_growth(batch, rows, payloads, decoded))
    rows = rows[decoded.source]
    for number, count in batch.counted(rows).items():
        report.counts.decoded[batch.pins.schemas.records[number].schema.id] += count
    _route(batch, rows, decoded)


def place_tombstones(task: Task, raw: pa.RecordBatch, rows: Rows) -> None:
    """Give records without a value their places: they are deletes of their own key where its table says so, and dropped elsewhere."""
    pins, nothing = task.pins, pa.RecordBatch.from_arrays([], schema=pa.schema([]))
    named = entities(pins.rules.route, Records(nothing, raw, rows, ""))
    takes = [pins.rules.tables.takes_tombstones(name) for name in named.dictionary.to_pylist()]
    mine = pa.array([*takes, False]).take(named.indices.fill_null(len(takes))).to_numpy(zero_copy_only=False)
    rows, dropped = rows[mine], int((~mine).sum())
    named = named.filter(pa.array(mine)).dictionary_decode().dictionary_encode()
    codes = task.book.codes(named)
    _wait_for_table(Batch(task, raw, 0), rows, named, codes)
    # Records of an entity that gets no table are in none.
    dropped += int((codes == DENIED).sum())
    if dropped:
        task.report.counts.dropped[reasons.TOMBSTONE] += dropped
    codes = _without_committed(Batch(task, raw, 0), rows, codes)
    texts = [TEXT] if TEXT in raw.schema.names else []
    own = raw.select(["topic", "partition", "offset", "ts", "key", *texts]).take(pa.array(rows))
    null = np.zeros(len(rows), np.bool_)
    for lacks, why in keyless(own, by_text=named_by_text(pins)):
        lacking = np.flatnonzero(lacks & ~null & (codes >= 0))
        names = [task.book.names[code] or None for code in codes[lacking]]
        task.quarantine.take(raw, rows[lacking], [Verdict(reasons.NULL_KEY, why)] * len(lacking), None, names)
        null |= lacks
    columns = pins.rules.columns
    for code in present(codes[(codes >= 0) & ~null]).tolist():
        mine = own.filter(pa.array((codes == code) & ~null))
        rule = pins.rules.tables.reshape(task.book.names[code])
        landing = mine if rule is None else as_landing(rule, mine)
        whole = kafka_arrays(columns, landing, pa.nulls(mine.num_rows, pa.int64()))
        names = [field.name for field in kafka_fields(columns)]
        task.remember(code, pa.RecordBatch.from_arrays(whole, names=names))


def _refuse(
    batch: Batch, rows: Rows, verdicts: Sequence[Verdict], names: Sequence[str | None] | None = None
) -> None:
    """`names` are the entities, where those are known."""
    refs = [batch.pinned_of(row).key[0] for row in rows.tolist()]
    batch.task.quarantine.take(batch.raw, rows, verdicts, refs, names)


def _without_growth(batch: Batch, rows: Rows, payloads: pa.BinaryArray, decoded: Decoded) -> Decoded:
    """Rows with fields that their inferred schema lacks wait for the driver to let it grow, if it may."""
    beyond = decoded.beyond
    # A schema that somebody registered stays as it is: what it does not declare is rescued.
    grows = batch.pins.tables.grow or batch.pins.rules.tables.grows
    if not len(beyond) or not grows or not batch.pinned.schema.inferred:
        return decoded
    beyond = beyond[batch.tabled(rows[beyond])]
    waiting = [
        beyond[places]
        for number, places in batch.by_number(rows[beyond])
        if _proposes(batch, number, payloads.take(pa.array(beyond[places])), rows[beyond[places]])
    ]
    if not waiting:
        return decoded
    aside = np.sort(np.concatenate(waiting))
    batch.task.set_aside(batch.raw, rows[aside])
    return decoded.without(aside)


def _proposes(batch: Batch, number: int, payloads: pa.BinaryArray, rows: Rows) -> bool:
    """Whether a record type's schema may take anything that these payloads, which are these rows', have beyond it."""
    pinned, report = batch.pins.schemas.records[number], batch.task.report
    refused = batch.pins.turn.proposals_refused
    most = batch.pins.rules.decoding.max_fields
    # One that is full need not be asked what it would take: that reads each record once more.
    if not batch.pins.turn.inferred_final and fields_in(batch.reader.schema) < most:
        proposed = growing_reader(batch.task.codec, batch.pinned.schema).grown(payloads, most)
        if proposed.text != pinned.schema.text and proposal(pinned.key, proposed.text) not in refused:
            batch.task.propose(report.questions.proposals.setdefault(pinned.key, set()), proposed.text)
            return True
    note_outgrown(report.sightings.outgrown, pinned.schema.entity, batch.raw, rows.tolist())
    return False


def _route(batch: Batch, rows: Rows, decoded: Decoded) -> None:
    """`rows` are the batch's rows that `decoded.rows` came from, in the same order."""
    why = reasons.NO_ENTITY
    try:
        named = batch.named(rows, decoded)
    except ConfigError as error:
        named, why = pa.nulls(len(rows), pa.string()).dictionary_encode(), reasons.unroutable(str(error))
        about = (batch.reader.name, str(error))
        note_unrouted(batch.task.report.sightings.unrouted, about, batch.raw, rows)
    codes = _without_entity(batch, rows, decoded, batch.task.book.codes(named), why)
    denied = np.flatnonzero(codes == DENIED)
    names = named.take(pa.array(denied)).to_pylist()
    _refuse(batch, rows[denied], [reasons.TABLE_LIMIT] * len(denied), names)
    _wait_for_table(batch, rows, named, codes)
    codes = _without_vetoed(batch, rows, _without_committed(batch, rows, codes))
    for part in parts(batch, rows, decoded, codes):
        # Those that are refused, too: their table may come to be all the same.
        _meet(part.batch, present(part.codes[part.codes >= 0]).tolist(), part.rows, part.codes)
        _bring(_without_refused(part))


def _without_refused(part: Part) -> Part:
    """Records that cannot have the columns that their tables' rule wants go to quarantine."""
    if not part.refused:
        return part
    places = np.array([row for row, _ in part.refused], np.int64)
    names = [part.batch.task.book.names[code] or None for code in part.codes[places]]
    _refuse(part.batch, part.rows[places], [Verdict(reasons.COLUMNS, why) for _, why in part.refused], names)
    kept = np.setdiff1d(np.arange(len(part.rows), dtype=np.int64), places)
    return Part(part.batch, part.rows[kept], part.decoded.some(kept), part.codes[kept])


def _bring(part: Part) -> None:
    """Have the tables of these records grow by their columns, and the records land."""
    batch, rows, decoded, codes = part.batch, part.rows, part.decoded, part.codes
    live = np.flatnonzero(codes >= 0)
    if len(live):
        brought = _with_partitions(batch, decoded.rows, brought_columns(batch, decoded.rows, codes))
        _grow(batch, rows, codes, brought)
        _by_layout(batch, rows, decoded, codes, live)


def _without_entity(batch: Batch, rows: Rows, decoded: Decoded, codes: Codes, why: Verdict) -> Codes:
    none = codes == NONE
    if not none.any():
        return codes
    policy = batch.pins.rules.policies.no_entity
    if not isinstance(policy, str):
        # What no column takes is in the table beside them.
        return np.where(none, np.int32(batch.task.book.named_table(policy.table)), codes)
    untaken = routed_by_untaken(batch.pins.rules.route, decoded.rescued, none)
    refused = untaken if policy == "drop" else none
    if dropped := int((none & ~refused).sum()):
        batch.task.report.counts.dropped[reasons.NO_ENTITY.reason] += dropped
    verdicts = [reasons.ENTITY_MISFIT if one else why for one in untaken[refused].tolist()]
    _refuse(batch, rows[refused], verdicts)
    return codes


def _wait_for_table(batch: Batch, rows: Rows, named: pa.DictionaryArray, codes: Codes) -> None:
    waiting = np.flatnonzero(codes == WAITING)
    if len(waiting):
        counts = named.take(pa.array(waiting)).dictionary_decode().value_counts()
        names, found = counts.field("values").to_pylist(), counts.field("counts").to_pylist()
        tally(batch.task.report.questions.newcomers, names, found)
        batch.task.set_aside(batch.raw, rows[waiting])


def _without_committed(batch: Batch, rows: Rows, codes: Codes) -> Codes:
    """An earlier checkpoint's rows are left out of the tables that have them."""
    already = batch.pins.tables.already
    if not already:
        return codes
    codes = codes.copy()
    for code in present(codes[codes >= 0]):
        mine = np.flatnonzero(codes == code)
        done = mine[committed(batch.raw, rows[mine], already.get(batch.task.book.folders[code], {}))]
        batch.task.report.counts.already += len(done)
        codes[done] = NONE
    return codes


def _without_vetoed(batch: Batch, rows: Rows, codes: Codes) -> Codes:
    """Rows of record types that their table does not take go to quarantine."""
    vetoed, book = batch.pins.turn.vetoed, batch.task.book
    if not vetoed:
        return codes
    codes = codes.copy()
    for code in present(codes[codes >= 0]).tolist():
        mine = np.flatnonzero(codes == code)
        # Of one entity all are of one record type here.
        key = batch.pinned_of(int(rows[mine[0]])).key
        verdict = vetoed.get(book.folders[code], {}).get(key)
        if verdict is not None:
            _refuse(batch, rows[mine], [verdict] * len(mine), [book.names[code] or None] * len(mine))
            codes[mine] = NONE
    return codes


def _with_partitions(
    batch: Batch, decoded: pa.RecordBatch, brought: Mapping[int, tuple[int, ...] | None]
) -> Mapping[int, tuple[int, ...] | None]:
    """The same, with those that tables are partitioned by: they are made with them, if no record has a value yet."""
    if not batch.pins.rules.tables.partitions:
        return brought
    return {
        code: None if places is None else batch.task.book.partitions(code).with_fields(decoded.schema, places)
        for code, places in brought.items()
    }


def _meet(batch: Batch, present: Collection[int], rows: Rows, codes: Codes) -> None:
    """Note which entities' tables meet a record type for the first time, and with which record."""
    task = batch.task
    if batch.own is None and task.has_met(batch.number, present):
        return
    found, firsts = np.unique(codes, return_index=True)
    for code, first in zip(found.tolist(), firsts.tolist(), strict=True):
        if code >= 0:
            row = int(rows[first])
            task.meet(batch.number_of(row), code, row, batch.raw)


def _grow(batch: Batch, rows: Rows, codes: Codes, brought: Mapping[int, tuple[int, ...] | None]) -> None:
    book, files = batch.task.book, batch.task.report.files
    for code, places in brought.items():
        bringing = (code, batch.kind, batch.columns, places)
        grew, wish = book.grow(*bringing), book.wish(*bringing)
        folder = book.folders[code]
        if wish is not None:
            files.wishes.append(Wish(folder, book.names[code], batch.pinned.key, wish))
        if grew or wish is not None:
            row = int(rows[np.argmax(codes == code)])
            pinned = batch.pinned_of(row)
            files.growths.append(Growth(folder, pinned.key, pinned.schema.id, place_of(batch.raw, row)))


def _by_layout(batch: Batch, rows: Rows, decoded: Columns, codes: Codes, live: Rows) -> None:
    """Entities with the same columns and policies go on together; in most batches that is all of them."""
    book = batch.task.book
    kinds = {
        int(code): (
            book.layouts[code],
            book.rule(code),
            book.upsert(code),
            book.partitions(code),
            book.expects(code),
        )
        for code in present(codes[live]).tolist()
    }
    for kind in dict.fromkeys(kinds.values()):
        alike = [code for code, its in kinds.items() if its == kind]
        mine = live if len(alike) == len(kinds) else live[np.isin(codes[live], alike)]
        _conform(batch, rows[mine], decoded.some(mine), codes[mine])


def _conform(batch: Batch, rows: Rows, decoded: Columns, codes: Codes) -> None:
    """Rows of entities with the same columns and policies."""
    book, first = batch.task.book, int(codes[0])
    try:
        own = decoded.rows if decoded.own is None else decoded.own
        gone = deleted(book.upsert(first), batch.pins.rules.tables, own, decoded.beside)
    except ConfigError as error:
        why = Verdict(reasons.DELETE_CONDITION, str(error))
        _refuse(batch, rows, [why] * len(rows), [book.names[code] or None for code in codes])
        return
    upsert = book.upsert(first)
    if gone is not None and upsert is not None and upsert.deletes is not None and upsert.deletes.ignored:
        batch.task.report.counts.dropped[reasons.DELETE] += int(gone.sum())
        stays = np.flatnonzero(~gone)
        if len(stays):
            _conform(batch, rows[stays], decoded.some(stays), codes[stays])
        return
    kept = as_expected(batch, rows, decoded, codes, gone)
    if len(kept):
        _land(batch, rows[kept], decoded.some(kept), codes[kept], None if gone is None else gone[kept])


def _land(batch: Batch, rows: Rows, decoded: Columns, codes: Codes, gone: Mask | None) -> None:
    """Those of them that are not to be anywhere else; `gone` take their key's row away."""
    book, first = batch.task.book, int(codes[0])
    upsert = book.upsert(first)
    if upsert is not None and (wrong := _wrong_own(upsert, book.layouts[first])):
        batch.task.report.stops.append(f"table {book.folders[first]}: {wrong}")
        return
    try:
        conversion = book.conversion(batch.kind, batch.columns, first)
    except PolicyStopped as stop:  # for the driver to raise: it gives up the whole attempt
        rule = book.rule(first)
        by = "" if rule is None else f" (by tables[{rule}])"
        batch.task.report.stops.append(f"table {book.folders[first]}{by}: {stop}")
        return
    conformed = conversion.apply(decoded.rows)
    names = [field.name for field in kafka_fields(batch.pins.rules.columns)]
    arrays = [*_kafka_arrays(batch, rows), *conformed.rows.columns]
    written = pa.RecordBatch.from_arrays(arrays, names=[*names, *conformed.rows.schema.names])
    rescued = joined(decoded.untaken, conformed.rescued)
    rejected = conformed.rejected
    if upsert is not None:
        rejected = _with_unplaced(batch, rows, conformed, upsert)
        written = bounded(upsert, book.layouts[first], not_deleted(upsert, written))
        written = saying_what_is_set(upsert, written, batch.pins.rules.columns, conversion.lost)
    partitioned = book.partitions(first)
    if partitioned:
        others = in_no_partition(partitioned, book.layouts[first], written)
        # What takes a row away has none of its own that would have a place.
        rejected = with_others(rejected, [one for one in others if gone is None or not gone[one[0]]])
    kept = _without_misfits(batch, rows, rejected, codes)
    if len(kept) < len(rows):
        places = pa.array(kept)
        written, codes = written.take(places), codes[kept]
        rescued = None if rescued is None else rescued.take(places)
        gone = None if gone is None else gone[kept]
    if gone is not None:
        _remember(batch.task, written.filter(pa.array(gone)), codes[gone])
        stays = pa.array(~gone)
        written, codes = written.filter(stays), codes[~gone]
        rescued = None if rescued is None else rescued.filter(stays)
    if upsert is not None and upsert.history is not None:
        _remember(batch.task, written, codes, deletes=False)
    _hand_on(batch.task, written, rescued, codes)


def _wrong_own(upsert: Upsert, layout: Layout) -> str:
    """Why a table cannot have the columns that its rule adds to those of its records; empty where it can."""
    return wrong_mark(upsert.mark, layout) or wrong_time(upsert, layout)


def _remember(task: Task, rows: pa.RecordBatch, codes: Codes, *, deletes: bool = True) -> None:
    """Deletes, or rows of tables of which each record is remembered, go to what remembers those of their tables."""
    mine = present(codes).tolist()
    for code in mine:
        some = rows if len(mine) == 1 else rows.filter(pa.array(codes == code))
        task.remember(code, some, deletes=deletes)


def _hand_on(task: Task, rows: pa.RecordBatch, rescued: pa.StringArray | None, codes: Codes) -> None:
    """Only tables for which something is rescued get the column for it."""
    counts = np.bincount(codes)
    for code in np.flatnonzero(counts):
        task.report.counts.rows[task.book.folders[code]] += int(counts[code])
    if rescued is None:
        task.chunk.add(rows, codes)
        return
    concerned = present(codes[rescued.is_valid().to_numpy(zero_copy_only=False)])
    task.book.rescue(concerned.tolist())
    theirs = np.isin(codes, concerned)
    wider = rows.append_column(pa.field(task.pins.rules.columns.rescued, pa.string()), rescued)
    task.chunk.add(wider.filter(pa.array(theirs)), codes[theirs])
    task.chunk.add(rows.filter(pa.array(~theirs)), codes[~theirs])


def _with_unplaced(
    batch: Batch, rows: Rows, conformed: Conformed, upsert: Upsert
) -> list[tuple[int, str, str]]:
    """Those that do not fit, and those that fit and cannot take a row's place."""
    texts = [TEXT] if TEXT in batch.raw.schema.names else []
    keys = picked(batch.raw.select(["key", *texts]), rows)
    found = unplaced(upsert, conformed.rows, keys, by_text=named_by_text(batch.pins))
    return with_others(conformed.rejected, found)


def _without_misfits(
    batch: Batch, rows: Rows, rejected: Sequence[tuple[int, str, str]], codes: Codes
) -> Rows:
    if not rejected:
        return np.arange(len(rows), dtype=np.int64)
    places = np.array([row for row, _, _ in rejected], dtype=np.int64)
    names = [batch.task.book.names[code] or None for code in codes[places]]
    _refuse(batch, rows[places], [Verdict(reason, detail) for _, reason, detail in rejected], names)
    return np.setdiff1d(np.arange(len(rows), dtype=np.int64), places)


def _kafka_arrays(batch: Batch, rows: Rows) -> list[pa.Array]:
    return kafka_arrays(batch.pins.rules.columns, batch.of_kafka(rows), batch.schema_ids(rows))
