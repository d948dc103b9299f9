"""A pipeline as a graph, before anything ran."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.ingest.pipelines import settings

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
