"""How many events a second one core decodes, by ours and by what one would use otherwise: the same 14-field event.

Each is given the same bodies, all in memory, and must give a column for each field. Ours does all its checks. What runs in
Spark runs with one task and is measured without the way to Python and back. Seconds are those of the processor, which for
Spark's from_json include what the JVM's collector and compiler do beside that task; by the clock they are on another core.
"""

from __future__ import annotations

import io
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import fastavro
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.watching import Watch
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from distributary.codecs.base import RecordReader, load_codec
from distributary.ingest.spark.session import spark_session
from distributary.producer_sim.events.versions import event_schema
from distributary.producer_sim.formats.base import load_format
from distributary.producer_sim.traffic.events import EventMaker, Population, game_names
from distributary.registry.base import Schema

RUNS = 5
_PAYLOADS = 20_000
_COMPAT = Path(__file__).resolve().parent.parent / ".venv-compat" / "bin" / "python"


@dataclass(frozen=True, slots=True)
class Rate:
    """The processor's seconds of each run of one decoder over so many events (with `clock` in its name: the clock's)."""

    name: str
    events: int
    seconds: tuple[float, ...]

    @property
    def rows_per_second(self) -> float:
        """Events by the seconds of the middle run."""
        return self.events / statistics.median(self.seconds)


def measure_rates(events: int, seed: int, watch: Watch) -> dict[str, Rate]:
    """Every decoder's rate; without `from_protobuf` where the environment that has it is not there."""
    found: dict[str, Rate] = {}
    avro, json_texts, protobuf = (_bodies(name, events, seed) for name in ("avro", "json", "protobuf"))
    readers = {name: _reader(name) for name in ("avro", "protobuf")}
    with watch.step("measuring decoders on one core", 1):
        found["avro"] = _timed("avro", events, lambda: _decode(readers["avro"], avro))
        found["protobuf"] = _timed("protobuf", events, lambda: _decode(readers["protobuf"], protobuf))
        found["fastavro"] = _timed("fastavro", events, lambda: _by_fastavro(avro))
        found |= _json_rates(events, json_texts)
    genuine = _from_protobuf(events, protobuf, watch)
    return found if genuine is None else {**found, "from_protobuf": genuine}


def _bodies(name: str, events: int, seed: int) -> list[pa.BinaryArray]:
    population = Population(games=game_names(10), gamers=10_000, game_skew=0.0, gamer_skew=0.0)
    maker = EventMaker(1, population, seed, name)
    chunks = -(-events // _PAYLOADS)
    return [
        pa.array(maker.chunk(0, number, min(_PAYLOADS, events - number * _PAYLOADS)).bodies, pa.binary())
        for number in range(chunks)
    ]


def _schema(name: str) -> Schema:
    described = load_format(name)
    assert described.schema_type is not None
    return Schema(1, described.schema_type, described.schema_text(event_schema(1)))


def _reader(name: str) -> RecordReader:
    codec = load_codec(name)
    return codec.reader(_schema(name), codec.default_path)


def _decode(reader: RecordReader, payloads: list[pa.BinaryArray]) -> int:
    rows = 0
    for some in payloads:
        decoded = reader.decode(some)
        rows += decoded.rows.num_rows - len(decoded.failures)
    return rows


def _by_fastavro(payloads: list[pa.BinaryArray]) -> int:
    schema = fastavro.parse_schema(json.loads(_schema("avro").text))
    rows = 0
    # A batch at a time, as ours is given them: two hundred thousand dictionaries at once would cost it twice the time.
    for some in payloads:
        read = [fastavro.schemaless_reader(io.BytesIO(body), schema, None) for body in some.to_pylist()]
        rows += len(pa.Table.from_pylist(read))
    return rows


def _timed(name: str, events: int, work: Callable[[], int]) -> Rate:
    seconds = []
    for run in range(RUNS + 1):
        began = time.process_time()
        rows = work()
        if run:  # the first one warms up
            seconds.append(time.process_time() - began)
        if rows != events:
            raise ValueError(f"{name} gave {rows:,} rows of {events:,}")
    return Rate(name, events, tuple(seconds))


def _json_rates(events: int, texts: list[pa.BinaryArray]) -> dict[str, Rate]:
    with tempfile.TemporaryDirectory(prefix="distributary-bench-") as folder:
        path = f"{folder}/texts.parquet"
        # One row group is one task.
        whole = pa.concat_arrays(texts).cast(pa.string())
        pq.write_table(pa.table({"value": whole}), path, row_group_size=events, compression="none")
        spark = spark_session("codecs", "local[1]", {"spark.driver.memory": "4g"})
        try:
            return _json_in_spark(spark, path, events, texts)
        finally:
            spark.stop()


def _json_in_spark(
    spark: SparkSession, path: str, events: int, texts: list[pa.BinaryArray]
) -> dict[str, Rate]:
    frame = spark.read.parquet(path).coalesce(1).persist()
    frame.count()
    schema = spark.read.json(frame.limit(1_000).rdd.map(lambda row: row.value)).schema
    codec = load_codec("json")
    reader = codec.reader(Schema(1, "STRUCT", schema.json()), codec.default_path)
    parsed = frame.select(sql.from_json("value", schema).alias("event")).select("event.*")

    jvm = psutil.Process(cast("Any", spark)._jvm.java.lang.ProcessHandle.current().pid())
    # Taking turns: a machine that slows down meanwhile does so for both.
    turns = [_turn(jvm, parsed, reader, texts) for _ in range(RUNS + 3)][
        3:
    ]  # the JVM compiles what is hot in the first
    names = ("json", "from_json", "from_json_clock")
    return {
        name: Rate(name, events, tuple(turn[place] for turn in turns)) for place, name in enumerate(names)
    }


def _turn(
    jvm: psutil.Process, parsed: DataFrame, reader: RecordReader, texts: list[pa.BinaryArray]
) -> tuple[float, float, float]:
    """The processor's seconds of ours and of Spark's, and the clock's of Spark's."""
    began = time.process_time()
    _decode(reader, texts)
    ours = time.process_time() - began
    used, began = _used(jvm), time.perf_counter()
    parsed.write.format("noop").mode("overwrite").save()
    return ours, _used(jvm) - used, time.perf_counter() - began


def _used(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _from_protobuf(events: int, payloads: list[pa.BinaryArray], watch: Watch) -> Rate | None:
    """The genuine function, in the environment that tools/setup_compat.sh makes."""
    if not _COMPAT.exists():
        watch.say("from_protobuf is left out: tools/setup_compat.sh makes the environment that has it")
        return None
    with watch.step("measuring the genuine from_protobuf", 1), tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "bodies.parquet")
        pq.write_table(pa.table({"value": pa.concat_arrays(payloads)}), path, row_group_size=events)
        script = Path(__file__).with_name("from_protobuf.py")
        done = subprocess.run(
            [str(_COMPAT), str(script), str(path), str(RUNS)], capture_output=True, text=True, check=False
        )
    if done.returncode:
        watch.say(f"from_protobuf is left out: {(done.stderr.strip().splitlines() or ['it failed'])[-1]}")
        return None
    return Rate("from_protobuf", events, tuple(json.loads(done.stdout.strip().splitlines()[-1])))
