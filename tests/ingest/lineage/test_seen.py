"""A pipeline as a graph, before anything ran."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.ingest.pipelines import make_table, owners, settings

from distributary.ingest.checkpoint.generation import Generation, World
from distributary.ingest.derivation.given import Derived
from distributary.ingest.lineage.seen import flow


def test_no_two_things_have_the_same_id(tmp_path: Path) -> None:
    """Not topics of two clusters that are called alike, nor a file that is looked up in by two names."""

    def counted(table: str, **kafka: Any) -> Derived:
        static = {name: {"path": str(tmp_path / "prices.csv")} for name in ("prices", "again")}
        sink = {"kafka": {"topic": "counts", "keys": ["n"], **kafka}}
        query = "SELECT count(*) AS n FROM quarantine"
        return Derived.model_validate(
            {"table": table, "inputs": ["quarantine"], "static": static, "sql": query, "sink": sink}
        )

    other = {"bootstrap.servers": "there:9092"}
    derive = (counted("gold"), counted("copper", kafka=other))
    found = flow(settings(tmp_path).model_copy(update={"derive": derive}))
    ids = [node.id for node in found.nodes]
    assert sorted(ids) == sorted(set(ids))
    sent = {node.id: node.about for node in found.nodes if node.kind == "sent"}
    assert sent == {"sent:counts": "127.0.0.1:1", "sent:there:9092/counts": "there:9092"}
    into = {(edge.source, edge.target) for edge in found.edges if edge.target in sent}
    assert into == {("table:gold", "sent:counts"), ("table:copper", "sent:there:9092/counts")}
    files = [node.id for node in found.nodes if node.kind == "static"]
    assert files == [f"static:{tmp_path / 'prices.csv'}"]
    assert len(set(found.edges)) == len(found.edges)


def test_a_topic_that_is_alone_of_its_name_keeps_its_id_wherever_it_is(tmp_path: Path) -> None:
    """Whose dashboards know it by that finds it again; several tables may go to the same topic, which is there once."""

    def counted(table: str, *brokers: str) -> Derived:
        kafka = {"bootstrap.servers": ",".join(brokers)}
        sink = {"kafka": {"topic": "counts", "keys": ["n"], "kafka": kafka}}
        query = "SELECT count(*) AS n FROM quarantine"
        return Derived.model_validate({"table": table, "inputs": ["quarantine"], "sql": query, "sink": sink})

    derive = (counted("gold", "a:1", "b:1"), counted("copper", "b:1", " a:1"))
    found = flow(settings(tmp_path).model_copy(update={"derive": derive}))
    assert [node.id for node in found.nodes if node.kind == "sent"] == ["sent:counts"]
    into = {(edge.source, edge.target) for edge in found.edges if edge.target == "sent:counts"}
    assert into == {("table:gold", "sent:counts"), ("table:copper", "sent:counts")}


def test_of_an_entity_with_tables_of_two_names_what_is_derived_is_of_that_which_it_has_now(
    tmp_path: Path,
) -> None:
    """As behind `start: again` with another `route.table`; what is derived in truth is of that one, too."""
    of = Generation("g", "2024-01-01T00:00:00", "games", World("c", {}, {}))
    for folder in ("a_golf", "b_golf"):
        make_table(tmp_path, folder, pa.schema({"n": pa.int64()}), "golf")
    owners(tmp_path, of, "log").claim(["a_golf", "b_golf"])
    rule = Derived.model_validate({"table": "gold_{entity}", "sql": "SELECT * FROM {table}"})
    chosen = settings(tmp_path, route={"table": "a_{entity}"}).model_copy(update={"derive": (rule,)})
    found = flow(chosen)
    assert [edge.source for edge in found.edges if edge.target == "table:gold_golf"] == ["table:a_golf"]
