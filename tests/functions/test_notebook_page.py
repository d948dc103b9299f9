"""The code of docs/how-to/move-a-databricks-notebook.md runs, top to bottom, against a real broker and registry."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from tests.codecs.protobuf_samples import message_class

from distributary.producer_sim.stack.local import LocalStack
from distributary.registry.confluent.options import RegistryOptions
from distributary.registry.confluent.registry import ConfluentRegistry

pytestmark = [pytest.mark.spark, pytest.mark.stack]

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/move-a-databricks-notebook.md"
EVENT = 'syntax = "proto3"; message Event { string game = 1; int32 score = 2; }'


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


# What it calls is in the other tests of this folder.
@pytest.mark.heavy
def test_the_code_of_the_page_runs(
    spark: SparkSession, stack: LocalStack, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with ConfluentRegistry(RegistryOptions(url=stack.registry_url)) as registry:
        schema_id = registry.register(f"{topic}-value", EVENT, "PROTOBUF")
    send(stack, topic, b"\0" + schema_id.to_bytes(4, "big") + b"\0", [b"chess", b"go"])
    code = "\n".join(blocks())
    for shown, real in (
        ("http://127.0.0.1:8081", stack.registry_url),
        ("127.0.0.1:9092", stack.bootstrap_servers),
        ("game-events", topic),
    ):
        assert shown in code
        code = code.replace(shown, real)
    names: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), names)  # noqa: S102 - the page's own code is what is tested
    assert sorted(row.game for row in names["games"].collect()) == ["chess", "go"]
    printed = capsys.readouterr().out
    assert "score: integer" in printed
    assert "chess" in printed


def send(stack: LocalStack, topic: str, header: bytes, games: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": stack.bootstrap_servers})
    for game in games:
        message = message_class(EVENT, "Event")(game=game.decode(), score=3)
        producer.produce(topic, header + message.SerializeToString())
    assert producer.flush(30) == 0
