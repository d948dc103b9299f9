"""A registry that refuses the schema of a derived table's rows, as one that breaks what readers of the topic were promised."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession
from tests.registry.conftest import AnswerServer, serving

from distributary.errors import BadSchema
from distributary.ingest.derivation.given import Derived
from distributary.ingest.derived import sinks, to_kafka
from distributary.ingest.derived.instances import Entities, instances
from distributary.ingest.derived.sinks import Outside
from distributary.ingest.derived.to_kafka import Uuids
from distributary.ingest.storage.posix import PosixFiles
from distributary.registry.confluent.options import RegistryAccess

REFUSED = {"error_code": 409, "message": "Schema being registered is incompatible with an earlier schema"}


@pytest.fixture
def server() -> Iterator[AnswerServer]:
    yield from serving(None)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[bytes | None]:
    """The values that a topic is sent, without brokers."""
    found = list[bytes | None]()

    def send(_: Any, __: str, records: Iterator[tuple[bytes, bytes | None]], *___: Any) -> int:
        values = [value for _, value in records]
        found.extend(values)
        return len(values)

    monkeypatch.setattr(Uuids, "of", lambda *_: "first")
    monkeypatch.setattr(Uuids, "_ends", lambda *_: {})
    monkeypatch.setattr(to_kafka, "sending", lambda _: nullcontext())
    monkeypatch.setattr(to_kafka, "send", send)
    return found


@pytest.mark.spark
def test_a_schema_that_the_registry_refuses_is_told_each_turn_and_sent_once_it_is_taken(
    tmp_path: Path, spark: SparkSession, server: AnswerServer, sent: list[bytes | None]
) -> None:
    root = PosixFiles(tmp_path)
    outside = Outside(
        "games",
        kafka={"bootstrap.servers": "there"},
        registry=RegistryAccess(url=server.url, retry_seconds=0),
        marks=root.below("checkpoint"),
    )
    sink = {"kafka": {"topic": "cities", "format": "avro", "keys": ["city"]}}
    rule = {"table": "gold", "inputs": ["t"], "sql": "FROM t", "sink": sink}
    (one,) = instances([Derived.model_validate(rule)], Entities({}, folds=False))

    def turn() -> int:
        given = sinks.bring_up(spark, one, root.below("gold"), outside, whole=False)
        return given.counts.get("kafka", 0)

    def takes(number: int, columns: list[str]) -> None:
        fields = [{"name": name, "type": ["null", "string"], "default": None} for name in columns]
        text = json.dumps({"type": "record", "name": "gold", "fields": fields})
        server.on("/subjects/cities-value/versions", server.json({"id": number}))
        server.on(f"/schemas/ids/{number}", server.json({"schema": text}))

    takes(7, ["city"])
    write_deltalake(f"{root.url}/gold", pa.table({"city": ["Ulm", "Bonn"]}))
    assert turn() == 2
    write_deltalake(
        f"{root.url}/gold",
        pa.table({"city": ["Ulm"], "of": ["x"]}),
        mode="overwrite",
        schema_mode="overwrite",
    )
    server.on("/subjects/cities-value/versions", server.json(REFUSED, 409))
    for _ in range(2):
        with pytest.raises(
            BadSchema, match=r"'cities-value'.*HTTP 409 Schema being registered is incompatible"
        ):
            turn()
    assert len(sent) == 2, "and nothing of the newer rows goes there"
    takes(8, ["city", "of"])
    assert turn() == 2
    assert sent[2:].count(None) == 1, "Bonn, which went meanwhile"
    assert turn() == 0
