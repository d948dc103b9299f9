"""How many events a second one core decodes, by ours and by what one would use otherwise: the same 14-field event.

Each is given the same bodies, all in memory, and must give a column for each field. Ours does all its checks. What runs in
Spark runs with one task and is measured without the way to Python and back. Seconds are those of the processor, which for
Spark's functions include what the JVM's collector and compiler do beside that task; by the clock they are on another core.
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
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.avro.functions import from_avro

import distributary
from distributary.codecs.base import RecordReader, load_codec
from distributary.ingest.spark.session import spark_session
from distributary.producer_sim.events.versions import event_schema
from distributary.producer_sim.formats.base import load_format
from distributary.producer_sim.traffic.events import EventMaker, Population, game_names
from distributary.registry.base import Schema

RUNS = 5
OURS = f"distributary {distributary.__version__}"
_PAYLOADS = 20_000
_COMPAT = Path(__file__).resolve().parent.parent / ".venv-compat" / "bin" / "python"


@dataclass(frozen=True, slots=True)
class Rate:
    """The processor's seconds of each run of one decoder over so many events (with `clock` in its name: the clock's).

    `by` is what decoded, with its version.
    """

    name: str
    events: int
    seconds: tuple[float, ...]
    by: str

    @property
    def rows_per_second(self) -> float:
        """Events by the seconds of the middle run."""
        return self.events / statistics.median(self.seconds)


def measure_rates(events: int, seed: int, watch: Watch) -> dict[str, Rate]:
    """Every decoder's rate; without `from_protobuf` where the environment that has it is not there."""
    found: dict[str, Rate] = {}
    avro, json_texts, protobuf = (_bodies(name, events, seed) for name in ("avro", "json", "protobuf"))
    by_protobuf = _reader("protobuf")
    with watch.step("measuring decoders on one core", 1):
        found["protobuf"] = _timed("protobuf", OURS, events, lambda: _decode(by_protobuf, protobuf))
        beside = f"fastavro {fastavro.__version__}"
        found["fastavro"] = _timed("fastavro", beside, events, lambda: _by_fastavro(avro))
        found |= _rates_beside_spark(events, avro, json_texts)
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


def _reader(name: str, schema: Schema | None = None) -> RecordReader:
    codec = load_codec(name)
    return codec.reader(schema or _schema(name), codec.default_path)


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


def _timed(name: str, by: str, events: int, work: Callable[[], int]) -> Rate:
    seconds = []
    for run in range(RUNS + 1):
        began = time.process_time()
        rows = work()
        if run:  # the first one warms up
            seconds.append(time.process_time() - began)
        if rows != events:
            raise ValueError(f"{name} gave {rows:,} rows of {events:,}")
    return Rate(name, events, tuple(seconds), by)


def _rates_beside_spark(
    events: int, avro: list[pa.BinaryArray], json_texts: list[pa.BinaryArray]
) -> dict[str, Rate]:
    """Ours and Spark's own function in turns, for the formats of which this Spark has one."""
    with tempfile.TemporaryDirectory(prefix="distributary-bench-") as folder:
        spark = spark_session("codecs", "local[1]", {"spark.driver.memory": "4g"})
        try:
            texts = _frame(spark, f"{folder}/json.parquet", json_texts, pa.string())
            inferred = spark.read.json(texts.limit(1_000).rdd.map(lambda row: row.value)).schema
            json_reader = _reader("json", Schema(1, "STRUCT", inferred.json()))
            found = _turns(
                spark, events, "json", json_reader, json_texts, sql.from_json("value", inferred), texts
            )
            bodies = _frame(spark, f"{folder}/avro.parquet", avro, pa.binary())
            by_spark = from_avro("value", _schema("avro").text)
            return found | _turns(spark, events, "avro", _reader("avro"), avro, by_spark, bodies)
        finally:
            spark.stop()


def _frame(spark: SparkSession, path: str, payloads: list[pa.BinaryArray], of: pa.DataType) -> DataFrame:
    """The payloads in Spark's memory, as one task has them."""
    whole = pa.concat_arrays(payloads).cast(of)
    # One row group is one task.
    pq.write_table(pa.table({"value": whole}), path, row_group_size=len(whole), compression="none")
    frame = spark.read.parquet(path).coalesce(1).persist()
    frame.count()
    return frame


def _turns(  # noqa: PLR0913, PLR0917 - one comparison: whose, over what, by which two ways
    spark: SparkSession,
    events: int,
    name: str,
    reader: RecordReader,
    payloads: list[pa.BinaryArray],
    by_spark: Column,
    frame: DataFrame,
) -> dict[str, Rate]:
    parsed = frame.select(by_spark.alias("event")).select("event.*")
    jvm = psutil.Process(cast("Any", spark)._jvm.java.lang.ProcessHandle.current().pid())
    # Taking turns: a machine that slows down meanwhile does so for both. The JVM compiles what is hot in the first ones.
    turns = [_turn(jvm, parsed, reader, payloads) for _ in range(RUNS + 3)][3:]
    frame.unpersist()
    theirs = f"Spark {spark.version}"
    named = ((name, OURS), (f"from_{name}", theirs), (f"from_{name}_clock", theirs))
    return {
        one: Rate(one, events, tuple(turn[place] for turn in turns), by)
        for place, (one, by) in enumerate(named)
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
    told = json.loads(done.stdout.strip().splitlines()[-1])
    return Rate("from_protobuf", events, tuple(told["seconds"]), f"Spark {told['spark']}")
