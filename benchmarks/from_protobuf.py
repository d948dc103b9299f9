"""Run by another Spark's own Python: its version and the seconds of its `from_protobuf` over a file of events, on one core.

python from_protobuf.py BODIES.parquet RUNS
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.protobuf.functions import from_protobuf

ROOT = Path(__file__).resolve().parent.parent
sys.path[0:1] = [str(ROOT), str(ROOT / "src")]

from distributary.ingest.spark.artifact_list import read_artifact_list
from distributary.ingest.spark.artifacts import resolve
from distributary.producer_sim.formats.protobuf import schema_text
from distributary.registry.protobuf.text import compile_text


def main(path: str, runs: int) -> dict[str, Any]:
    """Spark's version, and the seconds of each run after two that let the JVM compile what is hot."""
    os.environ.pop("SPARK_HOME", None)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    jars = resolve(read_artifact_list(ROOT / "tests" / "compat" / "compat_jars.lock"))
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", ",".join(map(str, jars)))
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "4g")
        .getOrCreate()
    )
    try:
        return {"spark": spark.version, "seconds": _seconds(spark, path, runs)}
    finally:
        spark.stop()


def _seconds(spark: SparkSession, path: str, runs: int) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        descriptors = Path(folder, "event.desc")
        descriptors.write_bytes(compile_text(schema_text(1), {}))
        frame = spark.read.parquet(path).coalesce(1).persist()
        frame.count()
        event = from_protobuf("value", "games.GameEvent", str(descriptors)).alias("event")
        decoded = frame.select(event).select("event.*")
        return [_timed(decoded) for _ in range(runs + 2)][2:]


def _timed(decoded: object) -> float:
    began = time.perf_counter()
    decoded.write.format("noop").mode("overwrite").save()  # type: ignore[attr-defined]
    return time.perf_counter() - began


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))
