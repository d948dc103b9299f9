"""The functions over Spark Connect, where there is no JVM beside the program: sessions of shared and serverless clusters are such."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pyspark
import pytest
from tests.ingest.avro_records import GAME, one, sent_as

from distributary.producer_sim.stack.local import LocalStack
from distributary.registry.base import Schema
from distributary.registry.confluent.options import RegistryOptions
from distributary.registry.confluent.registry import ConfluentRegistry

NOTEBOOK = Path(__file__).with_name("connected.py")

SCHEMA = {"type": "record", "name": "Event", "fields": [GAME, one("int", "score")]}


# Heavy: a JVM of its own, and the functions are the ones of test_functions.py; only the session is another one.
@pytest.mark.heavy
@pytest.mark.stack
@pytest.mark.skipif(
    pyspark.__version__.startswith("3."), reason="the package of Spark 3.5 has no server of Spark Connect"
)
def test_the_functions_run_over_spark_connect(stack: LocalStack) -> None:
    subject = f"games-{uuid.uuid4().hex[:8]}-value"
    with ConfluentRegistry(RegistryOptions(url=stack.registry_url)) as registry:
        schema_id = registry.register(subject, json.dumps(SCHEMA), "AVRO")
    record = sent_as(Schema(schema_id, "AVRO", json.dumps(SCHEMA)), game="chess", score=7)
    command = [sys.executable, str(NOTEBOOK), stack.registry_url, subject, record.hex()]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["session"] == "pyspark.sql.connect.session"
    event = {"game": "chess", "score": 7}
    assert found["decode"] == [{"n": number, **event} for number in range(3)]
    assert found["from_avro"] == [{"n": number, "event": event} for number in range(3)]
