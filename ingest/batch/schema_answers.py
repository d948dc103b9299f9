"""What unknown schemas mean: the registry's answers, keys, inferred schemas that grow, and what evolves by them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import TypeAlias

import pyarrow as pa

from distributary.codecs.types.row_shape import empty_rows
from distributary.ingest.batch.restart import decide_evolution
from distributary.ingest.evolution.rules import RunRules
from distributary.ingest.pins import (
    PinnedKeys,
    PinnedRecord,
    PinnedSchemas,
    PinnedTable,
    Pins,
    RecordKey,
    proposal,
)
from distributary.ingest.reshaping.shape import why_unshapeable
from distributary.ingest.schemas.inferred_per_entity import entity_name
from distributary.ingest.schemas.known import Learned, SchemaBook
from distributary.ingest.settings.rule_book import Condition
from distributary.ingest.worker.report import Questions

# Why records with some columns are refused; nothing where they are not.
Why: TypeAlias = Callable[[pa.Schema], str | None]

# How many times those who had no room to tell of all do so again, where the driver takes nothing of what it was told of, which is out
# of their way then. Few, for such records are of no table before that, which may be asked for in passes behind these.
_MOST_TELLINGS = 3

NO_ENTITIES: Mapping[str, str] = MappingProxyType({})


class SchemaAnswers:
    """Answers one batch's questions about schemas; `known` are the tables that were there when it began."""

    def __init__(
        self,
        rules: RunRules,
        known: Mapping[str, PinnedTable],
        schemas: SchemaBook,
        keys: SchemaBook | None = None,
    ) -> None:
        """`schemas` are those of values, `keys` those of keys, where these are decoded."""
        self._decode, self._rules, self._known = rules.decode, rules.changes, known
        self._book = rules.workers.tables
        most = rules.workers.decoding.max_questions
        self._schemas, self._values = schemas, _Asking(schemas, most)
        # Within a bound of their own: a key may only look as if it named a schema.
        self._keys = None if keys is None else _Asking(keys, most)
        self._tellings = _MOST_TELLINGS

    def answered(self, questions: Questions, pins: Pins, *, last: bool) -> Pins:
        """The pins for the rows that were set aside. Raises RestartToEvolve or EvolutionStopped.

        With `last` nothing may be asked any more: what is not known by then is final.
        """
        learned = self._values.learn(questions.records)
        keys = self._keys_answered(questions, pins.keys, last=last)
        grown = self._schemas.grown(questions.proposals, self._decode.max_fields, self._fits)
        records = [*learned.records, *self._met(questions, pins), *grown]
        decide_evolution(records, self._schemas, self._known, self._decode, self._rules)
        self._schemas.pin(records)
        again = bool(questions.proposals) and not grown and questions.untold and self._tellings > 0
        self._tellings -= int(again)
        turn = replace(
            pins.turn,
            # What is asked for in vain is bounded; answers may bring new questions, such as which message it is.
            schemas_final=last or pins.turn.schemas_final or self._values.spent,
            inferred_final=last
            or pins.turn.inferred_final
            or (bool(questions.proposals) and not (grown or again)),
            proposals_refused=pins.turn.proposals_refused | (_proposed(questions) if again else frozenset()),
            count_input=False,
        )
        refused = {**pins.schemas.refused, **learned.refused}
        schemas = PinnedSchemas(self._schemas.records, refused)
        return replace(pins, schemas=schemas, keys=keys, turn=turn)

    def _met(self, questions: Questions, pins: Pins) -> list[PinnedRecord]:
        """The schemas of entities that had none of their own, as far as they have a table or may have one."""
        route = self._rules.route
        unmet = {
            entity: texts
            for entity, texts in questions.unmet.items()
            if (folder := route.folder(entity)) in self._known or folder in pins.tables.admitted
        }
        own = {self._schema_name(entity): entity for entity in unmet}
        fits = partial(self._fits, entities=own)
        return self._schemas.met(unmet, self._schema_name, self._decode.max_fields, fits)

    def _fits(
        self,
        name: str | None,
        before: pa.Schema,
        after: pa.Schema,
        entities: Mapping[str, str] = NO_ENTITIES,
    ) -> bool:
        """Whether records can still be routed, held against conditions, and have the columns of their tables' rules, if a schema grows like this.

        Data makes it grow: one record would have all others refused. `entities` are those of names whose tables are to come.
        """
        own = entities or self._entities
        whys = self._whys_of_all() if name is None else self._whys_of(own.get(name))
        return not any(why(after) and not why(before) for why in whys)

    @cached_property
    def _entities(self) -> Mapping[str, str]:
        """The entities that have tables, by the names that their schemas are kept by."""
        return {self._schema_name(table.entity): table.entity for table in self._known.values()}

    def _whys_of_all(self) -> Iterator[Why]:
        rules = [self._rules, *([] if self._rules.tables is None else self._rules.tables.own.values())]
        yield from (partial(why_unshapeable, one.reshape) for one in rules if one.reshape is not None)
        yield from (partial(_why_unmet, one) for one in self._book.conditions.values())
        if self._rules.expression is not None:
            yield self._rules.expression.refusal

    def _whys_of(self, entity: str | None) -> Iterator[Why]:
        if entity is None:
            return
        reshape, upsert = self._rules.of(entity).reshape, self._book.upsert(entity)
        if reshape is not None:
            yield partial(why_unshapeable, reshape)
        deletes = None if upsert is None or upsert.deletes is None else upsert.deletes.when
        texts = {
            deletes,
            *(one.condition for one in self._book.expects(entity)),
            *self._book.erased.conditions,
        }
        mine = (one for text, one in self._book.conditions.items() if text in texts)
        yield from (partial(_why_unmet, one) for one in mine)

    def _schema_name(self, entity: str) -> str:
        return entity_name(entity, self._rules.route.fold_case)

    def _keys_answered(
        self, questions: Questions, known: PinnedKeys | None, *, last: bool
    ) -> PinnedKeys | None:
        if known is None:
            return None
        if self._keys is None or not questions.keys:
            return replace(known, final=last or known.final)
        learned = self._keys.learn(questions.keys)
        self._keys.book.pin(learned.records)
        return PinnedKeys(
            decoded=True,
            records=self._keys.book.records,
            refused={**known.refused, **learned.refused},
            final=last or known.final or self._keys.spent,
        )


def _proposed(questions: Questions) -> frozenset[bytes]:
    """All that was proposed, as pins have it."""
    return frozenset(proposal(key, text) for key, texts in questions.proposals.items() for text in texts)


def _why_unmet(condition: Condition, columns: pa.Schema) -> str:
    """Why a condition is met by no record with these columns, as its types do not go with them."""
    return condition.tried(empty_rows(columns, 0)).every


class _Asking:
    """A book of schemas that is asked a bounded number of times in vain."""

    def __init__(self, book: SchemaBook, at_most: int) -> None:
        self.book, self._left = book, at_most

    @property
    def spent(self) -> bool:
        """Whether nothing may be asked any more."""
        return self._left <= 0

    def learn(self, questions: Counter[RecordKey]) -> Learned:
        """Answers to those that most records wait for."""
        learned = self.book.learn([key for key, _ in questions.most_common(max(self._left, 0))])
        self._left -= len(learned.refused)
        return learned
