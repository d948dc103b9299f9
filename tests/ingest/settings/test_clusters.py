"""What the settings say of clustered tables: of which, by what, and what is wrong with it, told at its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.ingest.settings.test_table_rules import SOUND

from distributary.errors import ConfigError
from distributary.ingest.columns.clustering import ClusterBy
from distributary.ingest.settings.model import Settings


def book_of(*rules: dict[str, Any], **sink: Any) -> Any:
    named = {"root": "./lake", **sink}
    return Settings.from_dict({**SOUND, "sink": named, "tables": list(rules)}).rule_book()


def fields(book: Any, entity: str) -> tuple[tuple[str, ...], str] | None:
    found = book.of(entity).cluster_by
    return None if found is None else (found.fields, found.setting)


def test_a_rule_goes_before_the_sink_and_nothing_said_is_not_nothing() -> None:
    book = book_of(
        {"match": "a", "cluster_by": ["customer.id", "kafka_ts"]},
        {"match": "b", "cluster_by": []},
        {"match": "c", "partition_by": ["land"]},
        {"match": "d", "comment": "x"},
        cluster_by=["land"],
    )
    assert [fields(book, entity) for entity in "abcde"] == [
        (("customer.id", "kafka_ts"), "tables[0].cluster_by"),
        ((), "tables[1].cluster_by"),
        None,
        (("land",), "sink.cluster_by"),
        (("land",), "sink.cluster_by"),
    ]
    assert book.of("a").cluster_by.own == {"kafka_ts"}
    assert book.clusters
    assert fields(book_of({"match": "a"}), "a") is None
    assert not book_of({"match": "a"}).clusters
    assert book_of({"match": "a", "cluster_by": []}).clusters


def test_columns_of_kafkas_go_by_the_names_that_they_have() -> None:
    book = book_of({"match": "a", "cluster_by": ["at", "kafka_offset"]}, columns={"kafka_ts": "at"})
    by = book.of("a").cluster_by
    table = pa.schema([("kafka_offset", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("a", pa.string())])
    assert by == ClusterBy(("at", "kafka_offset"), frozenset({"at", "kafka_offset"}))
    assert by.paths(table) == (("at",), ("kafka_offset",))
    assert by.lacking([pa.schema([("a", pa.string())])]) == ()


def test_tables_that_keep_what_was_may_be_clustered_by_since_when_it_was() -> None:
    rule = {"match": "a", "mode": "history", "keys": ["id"], "sequence_by": ["at"]}
    book = book_of({**rule, "cluster_by": ["valid_from", "id"]})
    assert book.of("a").cluster_by.own == {"valid_from"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "tables: [{match: a, cluster_by: [a, b, c, d, e]}]",
            "tables[0].cluster_by: write at most 4 of them",
        ),
        ("tables: [{match: a, cluster_by: [a, a]}]", "tables[0].cluster_by[1]: written twice; keep one"),
        ("tables: [{match: a, cluster_by: [a..b]}]", "tables[0].cluster_by[0]: a part between dots is empty"),
        (
            "tables: [{match: a, cluster_by: [kafka_key]}]",
            "tables[0].cluster_by[0]: it is bytes, of which a file has no bounds",
        ),
        (
            "tables: [{match: a, cluster_by: [kafka_date]}]",
            "tables[0].cluster_by[0]: there is no such column; give sink.columns.kafka_date",
        ),
        (
            "tables: [{match: a, cluster_by: ['day(at)']}]",
            "tables[0].cluster_by[0]: an expression is none of a record's fields",
        ),
        (
            "tables: [{match: a, cluster_by: [a], partition_by: [b]}]",
            "tables[0].cluster_by: Delta has no table that is in partitions and clustered; keep one of both",
        ),
        (
            "tables: [{match: a, cluster_by: [a], columns: {leave: [a]}}]",
            "tables[0].cluster_by[0]: columns.leave leaves it out",
        ),
        (
            "tables: [{match: a, cluster_by: [b.c], columns: {rename: {b: d}}}]",
            "tables[0].cluster_by[0]: columns.rename calls it d.c; write that",
        ),
        ("tables: [{match: a, properties: {cluster_by: a}}]", "what a table is clustered by is no property"),
        ("tables: [{match: a, cluster_by: a}]", "tables[0].cluster_by: write a list"),
        ("sink: {root: ./lake, cluster_by: [a, kafka_key]}", "sink.cluster_by[1]: it is bytes"),
    ],
)
def test_a_mistake_is_told_at_its_line_with_its_remedy(tmp_path: Path, text: str, expected: str) -> None:
    lines = [
        "name: games",
        "source: {kafka: {bootstrap.servers: 'x:1'}, topics: [t]}",
        "registry: {url: 'http://x'}",
        "decode: {format: protobuf}",
        "route: {by: field, field: g}",
        *([] if text.startswith("sink") else ["sink: {root: ./lake}"]),
        text,
    ]
    path = tmp_path / "games.yaml"
    path.write_text("\n".join(lines))
    with pytest.raises(ConfigError) as caught:
        Settings.from_file(path, {})
    told = [line for line in str(caught.value).splitlines() if expected in line]
    assert told, str(caught.value)
    assert f"{lines.index(text) + 1}:" in told[0]


def test_partitions_and_no_clusters_go_together() -> None:
    book = book_of({"match": "a", "partition_by": ["land"], "cluster_by": []}, cluster_by=["b"])
    assert (book.of("a").partition_by, fields(book, "a")) == (("land",), ((), "tables[0].cluster_by"))
