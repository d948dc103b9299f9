"""Whether a schema that brings columns restarts the query, stops the run, or is taken in as the batch goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from distributary.errors import EvolutionStopped
from distributary.ingest.evolution.rules import Rules
from distributary.ingest.pins import PinnedRecord, PinnedTable, describe
from distributary.ingest.reshaping.rule import Reshape
from distributary.ingest.schemas.inferred_per_entity import entity_name
from distributary.ingest.schemas.known import SchemaBook
from distributary.ingest.settings.groups import Decode


class RestartToEvolve(Exception):
    """The attempt is given up, nothing of it visible, so that the next one starts with the new schemas pinned.

    `deployed` says whether somebody registered one of them since: what records themselves let grow is not counted as that, nor is another
    message of a schema that was met before, which some record is the first to be of.
    """

    def __init__(self, changes: Sequence[str], *, deployed: bool = True) -> None:
        super().__init__("; ".join(changes))
        self.changes, self.deployed = tuple(changes), deployed


def decide_evolution(
    records: Sequence[PinnedRecord],
    schemas: SchemaBook,
    known: Mapping[str, PinnedTable],
    decode: Decode,
    rules: Rules,
) -> None:
    """What `decode.evolution` says of record types that bring columns to the tables that are known.

    Raises RestartToEvolve, with the schemas pinned for the next attempt, or EvolutionStopped.
    """
    if not known:
        return
    shapes = dict.fromkeys(rules.of(table.entity).reshape for table in known.values())
    evolved = _evolved(_changing(records, known, rules), schemas, rules, tuple(shapes))
    mode, told = decode.evolution, [sentence for _, sentence in evolved]
    if evolved and mode == "fail":
        raise EvolutionStopped(
            f"{'; '.join(told)}, and decode.evolution is `fail`. Run once with `restart` or `inline` to take it in"
        )
    registered = [record for record, _ in evolved if not record.schema.inferred]
    if registered if mode == "auto" else evolved and mode == "restart":
        deployed = any(not schemas.met_before(record.key[0]) for record in registered)
        schemas.pin(records)
        raise RestartToEvolve(told, deployed=deployed)


def _evolved(
    records: Sequence[PinnedRecord],
    schemas: SchemaBook,
    rules: Rules,
    shapes: Sequence[Reshape | None],
) -> list[tuple[PinnedRecord, str]]:
    """Those that bring columns, and which."""
    # Whether tables get columns or leave them out, this is what they would get.
    growth = replace(rules.growth, adds=True, widens=rules.widens_any)
    brought = [(record, schemas.brings(record, growth, shapes)) for record in records]
    return [
        (record, f"schema {describe(record)} brings {', '.join(names)}") for record, names in brought if names
    ]


def _changing(
    records: Sequence[PinnedRecord], known: Mapping[str, PinnedTable], rules: Rules
) -> list[PinnedRecord]:
    """Those that may change a table: one that is only coming is not changed by what its first records bring."""
    fold_case = rules.route.fold_case
    there = {None, *(entity_name(table.entity, fold_case) for table in known.values())}
    return [record for record in records if record.schema.entity in there]
