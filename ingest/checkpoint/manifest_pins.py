"""What a batch was decided by, as JSON: with it and the pinned schemas its files can be written again just the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from distributary.codecs.base import CodecName, Enveloped
from distributary.errors import CheckpointMismatch
from distributary.ingest.bronze.rule import AsTheyCame
from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.columns.clustering import ClusterBy
from distributary.ingest.expectations.given import Expectation
from distributary.ingest.kafka.offsets import stretches_from_json, stretches_to_json
from distributary.ingest.pins import (
    PinnedKeys,
    PinnedRecord,
    PinnedSchemas,
    PinnedTable,
    PinnedTables,
    Pins,
    RecordKey,
    Turn,
    Verdict,
    WorkerRules,
    by_age,
)
from distributary.ingest.reshaping.rule import Reshape, Secret
from distributary.ingest.routing.conditions import ReadCondition
from distributary.ingest.settings.erased.given import Erased
from distributary.ingest.settings.groups import Policies
from distributary.ingest.settings.patterns import Pattern
from distributary.ingest.settings.rule_book import FitRules, RuleBook, TableSpec
from distributary.ingest.settings.upserts import Upsert
from distributary.registry.base import schema_ref


def to_json(pins: Pins) -> dict[str, Any]:
    """The decisions beside schemas and tables: who was refused, admitted, denied and rejected."""
    return {
        "records": [_key_to_json(pinned.key) for pinned in pins.schemas.records],
        "refused": [
            [_key_to_json(key), [v.reason, v.detail]] for key, v in sorted_refused(pins.schemas.refused)
        ],
        "rejected": [[list(where), [v.reason, v.detail]] for where, v in sorted(pins.turn.rejected.items())],
        "vetoed": [
            [folder, _key_to_json(key), [v.reason, v.detail]]
            for folder, keys in sorted(pins.turn.vetoed.items())
            for key, v in sorted_refused(keys)
        ],
        "already": {
            table: {t: dict(ps) for t, ps in ends.items()} for table, ends in pins.tables.already.items()
        },
        "placed": stretches_to_json(pins.placed),
        "key_records": [_key_to_json(pinned.key) for pinned in (pins.keys.records if pins.keys else ())],
        "grow": pins.tables.grow,
        "guarded": pins.turn.guarded,
        "rules": {
            "check": pins.rules.decoding.check,
            **_envelope_to_json(pins.rules.decoding.codec),
            "policies": pins.rules.policies.model_dump(mode="json"),
            # Of most batches there is nothing to say, and a version from before has it so.
            **({"tables": _tables_to_json(pins.rules.tables)} if _decides(pins.rules.tables) else {}),
            **_conditions_to_json(pins.rules.tables),
            **_partitions_to_json(pins.rules.tables),
            **_clusters_to_json(pins.rules.tables),
            **_columns_to_json(pins.rules.tables),
            **_expects_to_json(pins.rules.tables),
            **_erased_to_json(pins.rules.tables.erased),
            **({"bronze": dict(pins.rules.tables.kept.by_topic)} if pins.rules.tables.kept else {}),
        },
    }


def sorted_refused(refused: Mapping[RecordKey, Verdict]) -> list[tuple[RecordKey, Verdict]]:
    """Refused record types in an order that depends on nothing but themselves."""
    return sorted(refused.items(), key=lambda item: by_age(item[0]))


def from_manifest(manifest: Manifest, pins: Pins) -> Pins:
    """Pins that give every record of the batch the place it has in the manifest; nothing is left open.

    Of `pins` they take what is never decided for a batch: the folders, the schemas that are known, what the settings say that no living
    checkpoint may change, and, as their batch, the number of the entry that is to name the files.
    """
    decided = manifest.pins.decisions
    return Pins(
        batch=replace(pins.batch, generation=manifest.generation, id=manifest.batch_id),
        rules=_rules(decided, pins.rules),
        schemas=_schemas(decided, pins.schemas),
        tables=_tables(manifest),
        keys=None if pins.keys is None else _keys(decided, pins.keys),
        placed=stretches_from_json(decided.get("placed", {})),
        turn=Turn(
            schemas_final=True,
            inferred_final=True,
            proposals_refused=frozenset(),
            tables_final=True,
            rejected={(t, p, o): Verdict(*verdict) for (t, p, o), verdict in decided["rejected"]},
            vetoed=_vetoed(decided),
            guarded=decided["guarded"],
            count_input=True,
        ),
    )


def _rules(decided: Mapping[str, Any], now: WorkerRules) -> WorkerRules:
    """The rules as they were: settings that may change between a batch and its second writing decide where a record goes."""
    if "rules" not in decided:  # of an earlier version
        return now
    then = decided["rules"]
    codec = _with_envelope(now.decoding.codec, then.get("envelope"))
    decoding = replace(now.decoding, check=then["check"], codec=codec)
    tables = _tables_from_json(then["tables"]) if "tables" in then else _undecided(now.tables)
    read = {text: ReadCondition.from_json(tree) for text, tree in then.get("conditions", {}).items()}
    tables = replace(_with_partitions(tables, then.get("partitions")), conditions=read)
    tables = _with_clusters(tables, then.get("clusters"))
    tables = replace(tables, erased=Erased.of(then.get("erased", ()), then.get("erased_keys", ())))
    tables = _with_columns(tables, then.get("columns"), now.tables)
    tables = _with_expects(tables, then.get("expects"))
    policies, by_topic = _policies(then["policies"]), then.get("bronze", {})
    tables = replace(tables, kept=AsTheyCame(by_topic, bool(by_topic) or policies.quarantine_headers))
    return replace(now, decoding=decoding, policies=policies, tables=tables)


def _envelope_to_json(codec: CodecName) -> dict[str, Any]:
    """What became a column of what envelopes say, and of records that say that a table was emptied."""
    if not isinstance(codec, Enveloped):
        return {}
    return {"envelope": {"keep": list(codec.keep), "truncate": codec.truncate}}


def _with_envelope(codec: CodecName, told: Mapping[str, Any] | None) -> CodecName:
    if told is None or not isinstance(codec, Enveloped):
        return codec
    return replace(codec, keep=tuple(told["keep"]), truncate=told["truncate"])


def _policies(then: Mapping[str, Any]) -> Policies:
    # A later version may know of others, and an earlier one did not.
    return Policies.model_validate({name: to for name, to in then.items() if name in Policies.model_fields})


def _decides(book: RuleBook) -> bool:
    """Whether rules of tables have a say in where a record goes, or in what its file tells."""
    return (
        bool(book.fits) or book.upserts or book.partitions or book.reshapes or book.clusters or book.expecting
    )


def _tables_to_json(book: RuleBook) -> list[Any]:
    """The rules of tables in their order, as far as they have a say in where a record goes."""
    return [
        [one.text, one.folds, _fit_to_json(book.fits.get(place)), *_upsert_to_json(spec.upsert)]
        for place, (spec, one) in enumerate(zip(book.specs, book.patterns, strict=True))
    ]


def _upsert_to_json(upsert: Upsert | None) -> list[Any]:
    # Versions before take a rule for three things: none of theirs has more.
    return [] if upsert is None else [upsert.to_json()]


def _conditions_to_json(book: RuleBook) -> dict[str, Any]:
    """What deletes were told by, as workers took it."""
    found = {text: one.to_json() for text, one in book.conditions.items() if isinstance(one, ReadCondition)}
    return {"conditions": found} if found else {}


def _erased_to_json(erased: Erased) -> dict[str, Any]:
    """What was to land nowhere; keys apart, of which a version from before knows nothing."""
    told = {"erased": erased.conditions, "erased_keys": sorted(erased.by_key)}
    return {name: found for name, found in told.items() if found}


def _partitions_to_json(book: RuleBook) -> dict[str, Any]:
    """What each rule's tables are in partitions by: a record that lacks it has no place there."""
    return {"partitions": [list(spec.partition_by) for spec in book.specs]} if book.partitions else {}


def _with_partitions(book: RuleBook, told: Sequence[Sequence[str]] | None) -> RuleBook:
    each = told or [()] * len(book.specs)
    specs = (replace(spec, partition_by=tuple(by)) for spec, by in zip(book.specs, each, strict=True))
    return replace(book, specs=tuple(specs))


def _clusters_to_json(book: RuleBook) -> dict[str, Any]:
    """What each rule's tables are clustered by, and those of none: of these columns files have to tell the bounds."""
    if not book.clusters:
        return {}
    each = (spec.cluster_by for spec in (*book.specs, book.defaults))
    return {"clusters": [None if one is None else list(one.fields) for one in each]}


def _with_clusters(book: RuleBook, told: Sequence[Sequence[str] | None] | None) -> RuleBook:
    each = told or [None] * (len(book.specs) + 1)
    *specs, defaults = (
        replace(spec, cluster_by=None if by is None else ClusterBy(tuple(by)))
        for spec, by in zip((*book.specs, book.defaults), each, strict=True)
    )
    return replace(book, specs=tuple(specs), defaults=defaults)


def _columns_to_json(book: RuleBook) -> dict[str, Any]:
    """What each rule made of records' columns; no secret is written anywhere."""
    if not book.reshapes:
        return {}
    return {"columns": [None if spec.reshape is None else spec.reshape.to_json() for spec in book.specs]}


def _with_columns(book: RuleBook, told: Sequence[Mapping[str, Any] | None] | None, now: RuleBook) -> RuleBook:
    """The same rules with what they made of columns. Raises CheckpointMismatch where that took a secret which is not known now."""
    known = {
        spec.reshape.secret.fingerprint: spec.reshape.secret
        for spec in now.specs
        if spec.reshape is not None and spec.reshape.secret is not None
    }

    def secret(fingerprint: str) -> Secret:
        if fingerprint not in known:
            raise CheckpointMismatch(
                "files of a decided batch are to be written again, and a secret that its hashes were made with (tables[].columns.hash.secret) "
                "is in the settings no more: give it back until that batch is done, or restore the files"
            )
        return known[fingerprint]

    each = told or [None] * len(book.specs)
    specs = (
        replace(spec, reshape=None if one is None else Reshape.from_json(one, secret))
        for spec, one in zip(book.specs, each, strict=True)
    )
    return replace(book, specs=tuple(specs))


def _expects_to_json(book: RuleBook) -> dict[str, Any]:
    """What each rule's tables expected of records: one that did not meet it may have landed nowhere."""
    if not book.expecting:
        return {}
    return {"expects": [[one.to_json() for one in spec.expects] for spec in book.specs]}


def _with_expects(book: RuleBook, told: Sequence[Sequence[list[str]]] | None) -> RuleBook:
    each = told or [()] * len(book.specs)
    specs = (
        replace(spec, expects=tuple(map(Expectation.from_json, of)))
        for spec, of in zip(book.specs, each, strict=True)
    )
    return replace(book, specs=tuple(specs))


def _fit_to_json(fit: FitRules | None) -> Any:
    return None if fit is None else [fit.policies.model_dump(mode="json"), fit.grows, fit.widens]


def _undecided(book: RuleBook) -> RuleBook:
    """The rules of a batch in which they had no say in where a record went."""
    return RuleBook(
        specs=tuple(replace(spec, upsert=None, reshape=None) for spec in book.specs),
        patterns=book.patterns,
        defaults=book.defaults,
    )


def _tables_from_json(rules: Iterable[Any]) -> RuleBook:
    found = list(rules)
    return RuleBook(
        specs=tuple(
            TableSpec(place, text, upsert=Upsert.from_json(more[0]) if more else None)
            for place, (text, _, _, *more) in enumerate(found)
        ),
        patterns=tuple(Pattern(text, folds) for text, folds, *_ in found),
        fits={
            # The columns are as wide as they became: what did not fit was rescued.
            place: FitRules(_policies(fit[0]), fit[1], widens=False)
            for place, (_, _, fit, *_) in enumerate(found)
            if fit is not None
        },
    )


def undecodable(manifest: Manifest, pins: Pins) -> tuple[frozenset[RecordKey], frozenset[RecordKey]]:
    """Record types that the batch was decided by and the pins do not have: those of keys, and those of values."""
    decided = manifest.pins.decisions
    keys = pins.keys
    of_keys = _lacking(keys.records, decided.get("key_records", ())) if keys and keys.decoded else frozenset()
    return of_keys, _lacking(pins.schemas.records, decided["records"])


def _lacking(records: Iterable[PinnedRecord], keys: Iterable[list[Any]]) -> frozenset[RecordKey]:
    return frozenset(map(_key_from_json, keys)) - {pinned.key for pinned in records}


def _schemas(decided: Mapping[str, Any], known: PinnedSchemas) -> PinnedSchemas:
    return PinnedSchemas(
        records=_named(known.records, decided["records"]),
        refused={_key_from_json(key): Verdict(*verdict) for key, verdict in decided["refused"]},
    )


def _tables(manifest: Manifest) -> PinnedTables:
    decided = manifest.pins.decisions
    entities = {folder: entity for entity, folder in manifest.entities.items()}
    written = {table.folder for table in manifest.tables}
    return PinnedTables(
        known={
            table.folder: PinnedTable(
                entities.get(table.folder, table.folder), table.layout, partitions=table.partitions
            )
            for table in manifest.tables
            if table.role == "events"
        },
        met={},
        already={
            table: {topic: {int(p): end for p, end in ps.items()} for topic, ps in ends.items()}
            for table, ends in decided["already"].items()
        },
        grow=decided["grow"],
        # The columns are as wide as they became: what did not fit was rescued.
        widen=False,
        # Of which no record came, or none stayed. Every other table that is not known is denied as it is.
        admitted=frozenset({*entities, *decided.get("admitted", ())} - written),
        denied=frozenset(decided.get("rules", {}).get("bronze", {}).values()),
        new_tables=0,
    )


def _vetoed(decided: Mapping[str, Any]) -> dict[str, dict[RecordKey, Verdict]]:
    found: dict[str, dict[RecordKey, Verdict]] = {}
    # Versions before knew of none.
    for folder, key, verdict in decided.get("vetoed", ()):
        found.setdefault(folder, {})[_key_from_json(key)] = Verdict(*verdict)
    return found


def _keys(decided: Mapping[str, Any], known: PinnedKeys) -> PinnedKeys:
    # Manifests of earlier versions know of no schemas of keys.
    return replace(known, records=_named(known.records, decided.get("key_records", ())), final=True)


def _named(records: Iterable[PinnedRecord], keys: Iterable[list[Any]]) -> tuple[PinnedRecord, ...]:
    """Those of these record types that a manifest names."""
    wanted = {_key_from_json(key) for key in keys}
    return tuple(pinned for pinned in records if pinned.key in wanted)


def _key_to_json(key: RecordKey) -> list[Any]:
    return [key[0], list(key[1])]


def _key_from_json(value: list[Any]) -> RecordKey:
    return schema_ref(value[0]), tuple(value[1])
