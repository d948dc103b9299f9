"""A payload that kills the process that decodes it: it alone goes to quarantine, and the run goes on."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.ingest.e2e.handmade import (
    assert_each_record_in_one_place,
    column,
    quarantined,
    registered,
)
from tests.ingest.e2e.pipeline_kit import PipelineKit

pytestmark = [pytest.mark.spark, pytest.mark.stack]

# Another package's codec, as its entry point offers it: Protobuf, until a payload says the word.
CODEC = """
import os
import signal

from distributary import RecordReader
from distributary.codecs.protobuf.codec import ProtobufCodec


class DeadlyReader(RecordReader):
    def __init__(self, reader):
        self._reader, self.name, self.schema = reader, reader.name, reader.schema

    def decode(self, payloads):
        if any(b"KILLS" in payload for payload in payloads.to_pylist()):
            os.kill(os.getpid(), signal.SIGKILL)
        if sum(b"CROWD" in payload for payload in payloads.to_pylist()) > 5:
            os.kill(os.getpid(), signal.SIGKILL)
        if sum(b"LARGE" in payload for payload in payloads.to_pylist()) > 5:
            raise MemoryError
        return self._reader.decode(payloads)


class DeadlyCodec(ProtobufCodec):
    def reader(self, schema, path):
        return DeadlyReader(super().reader(schema, path))
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A package with the codec, as a zip that workers have on their path."""
    path = tmp_path_factory.mktemp("package") / "deadly_codec.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("deadly_codec.py", CODEC)
        info = "deadly_codec-1.0.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: deadly-codec\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/entry_points.txt", "[distributary.codecs]\ndeadly = deadly_codec:DeadlyCodec\n"
        )
    spark.sparkContext.addPyFile(str(path))
    return path


def test_a_payload_that_kills_its_worker_is_found_and_quarantined_alone(
    kit: PipelineKit, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(package))
    schema = registered(kit)
    kit.configured(decode={"format": "deadly"})
    good = [schema.value(game=f"game{n % 3}", player="good", level=n) for n in range(200)]
    deadly = schema.value(game="game0", player="this one KILLS")
    kit.send([*good[:70], deadly, *good[70:], deadly])
    kit.send(good, partition=1)

    outcome = kit.run()

    assert outcome.summary.failures == 0
    assert [(row["kafka_partition"], row["kafka_offset"]) for row in quarantined(kit)] == [(0, 70), (0, 201)]
    assert {(row["reason"], row["value"]) for row in quarantined(kit)} == {("killed_worker", deadly)}
    assert sum(len(column(kit, f"game{n}", "level")) for n in range(3)) == 400
    assert_each_record_in_one_place(kit)

    kit.send(good)
    assert kit.run().summary.written == 200
    assert_each_record_in_one_place(kit)
    # Files of the workers that died are nobody's; the next start has removed them.
    assert kit.unnamed_files() == set()


# The other way to an end is a test of pieces (tests/ingest/worker/test_child_process.py).
@pytest.mark.parametrize("word", ["CROWD", pytest.param("LARGE", marks=pytest.mark.heavy)])
def test_payloads_that_are_deadly_together_and_harmless_alone_all_land(
    kit: PipelineKit, package: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.syspath_prepend(str(package))
    schema = registered(kit)
    kit.configured(decode={"format": "deadly"})
    kit.send([schema.value(game="chess", player=f"{word} {n}", level=n) for n in range(40)])

    outcome = kit.run()

    assert (outcome.summary.failures, quarantined(kit)) == (0, [])
    assert column(kit, "chess", "level") == list(range(40))
    assert_each_record_in_one_place(kit)
