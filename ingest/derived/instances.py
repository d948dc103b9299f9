"""The derived tables that there are: a rule's own, or one for each entity that it is for."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from distributary.ingest.columns.safe_names import ENTITY, table_name
from distributary.ingest.derivation.given import TABLE, Derived, in_order
from distributary.ingest.routing.queries import InSql
from distributary.ingest.settings.patterns import Pattern
from distributary.values import Keys

# What is made of the same settings by another way is another table's content.
_WAY = "1"

ENTITY_GIVEN = "distributary_entity"
"""The parameter of a query that is the entity. It comes from records, so it never is a part of what Spark parses, nor of that in which `${env:…}` is filled in."""

_IN_A_WORD = re.compile(r"\{table\}|\w*\{entity\}\w*")


@dataclass(frozen=True, slots=True)
class Instance:
    """One derived table.

    table   its folder
    inputs  those that it is made of
    rule    what the settings say of it
    query   its SQL with what is filled in; None where it is made otherwise
    entity  the entity, where it is one's: what `ENTITY_GIVEN` stands for in the SQL
    names   what fills the entity into a name
    """

    table: str
    inputs: tuple[str, ...]
    rule: Derived
    query: str | None = None
    entity: str | None = None
    names: Callable[[str], str] = str

    def filled(self, name: str) -> str:
        """A name of what is beside the table, with the entity in it."""
        return self.names(name)

    def definition(self, beside: str = "") -> str:
        """What decides its content, and what stands beside the settings, as a digest."""
        text = "\n".join((_WAY, self.rule.text, self.query or "", self.entity or "", *self.inputs, beside))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Entities:
    """The entities there are, with the folders of their tables; `folds` is whether those that differ only by case are one."""

    folders: Mapping[str, str]
    folds: bool


def instances(rules: Sequence[Derived], entities: Entities) -> list[Instance]:
    """All of them, each behind those that it is made of."""
    return [one for rule in in_order(rules) for one in _of(rule, entities)]


def within(query: str) -> str:
    """A query as it is asked, within another one."""
    # In lines of its own: what is behind a comment at its end is none.
    return f"SELECT * FROM (\n{query.strip().rstrip(';')}\n)"  # noqa: S608 - the settings are the user's own


def in_sql(rule: Derived) -> Iterator[tuple[Keys, InSql]]:
    """What a rule says in Spark SQL, each behind its place, as for some entity."""
    if rule.sql is not None:
        query = _for(rule, "entity", "table", folds=False).query if rule.an_entity else rule.sql
        yield ("sql",), InSql(query or "", within(query or ""))
    if rule.aggregate is not None:
        yield from ((("aggregate", *keys), InSql(text)) for keys, text in rule.aggregate.expressions())
    if rule.stream is not None:
        yield from ((("stream", *keys), InSql(text)) for keys, text in rule.stream.without_names())


def _of(rule: Derived, entities: Entities) -> Iterator[Instance]:
    if not rule.an_entity:
        yield Instance(rule.table, rule.of, rule, rule.sql)
        return
    pattern = Pattern(rule.match, entities.folds)
    for entity, folder in sorted(entities.folders.items(), key=lambda one: one[1]):
        if pattern.fits(entity):
            yield _for(rule, entity, folder, folds=entities.folds)


def _for(rule: Derived, entity: str, folder: str, *, folds: bool) -> Instance:
    def named(name: str) -> str:
        return folder if name == TABLE else table_name(name, entity, folds) if ENTITY in name else name

    def filled(found: re.Match[str]) -> str:
        return f":{ENTITY_GIVEN}" if found[0] == ENTITY else f"`{named(found[0])}`"

    query = None if rule.sql is None else _IN_A_WORD.sub(filled, rule.sql)
    return Instance(named(rule.table), tuple(map(named, rule.of)), rule, query, entity, named)
