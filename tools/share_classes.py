"""Writes archives of the classes that Spark, broker and registry load: the tests' JVMs start from them in half the time.

`python tools/share_classes.py FOLDER` starts all three once with a little to do; each writes its archive when it ends (Java's
dynamic class-data sharing, JEP 350). A JVM that an archive does not fit goes on without it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from distributary.ingest.spark.session import spark_session
from distributary.producer_sim.stack.local import LocalStack
from distributary.registry.confluent.options import RegistryOptions
from distributary.registry.confluent.registry import ConfluentRegistry

TOPIC, SUBJECT = "classes", "classes-value"
SCHEMA = 'syntax = "proto3"; message Loaded { string name = 1; }'

# Where each of them finds options for its Java.
READ_BY = {
    "spark": "SPARK_SUBMIT_OPTS",
    "broker": "KAFKA_JVM_PERFORMANCE_OPTS",
    "registry": "JAVA_OPTS_APPEND",
}

# As the tests' JVMs run.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def write_archives(folder: Path) -> None:
    """Write `spark.jsa`, `broker.jsa` and `registry.jsa` into the folder, in place of what is there."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, variable in READ_BY.items():
        archive = folder / f"{name}.jsa"
        archive.unlink(missing_ok=True)
        os.environ[variable] = f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={archive} -Xlog:cds*=error"
    with tempfile.TemporaryDirectory() as scratch, LocalStack(Path(scratch) / "stack") as stack:
        admin = AdminClient({"bootstrap.servers": stack.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(30)
        with ConfluentRegistry(RegistryOptions(url=stack.registry_url)) as registry:
            registry.register(SUBJECT, SCHEMA, "PROTOBUF")
            registry.versions(SUBJECT)
        session = spark_session("classes", "local[2]")
        _work(session, stack.bootstrap_servers, Path(scratch))
        _end(session)
        del admin


def _work(session: SparkSession, bootstrap_servers: str, folder: Path) -> None:
    """One stream from Kafka through Python workers to a Delta table, which is read: what nearly all pipelines load."""
    broker = {"kafka.bootstrap.servers": bootstrap_servers}
    values = session.range(3).selectExpr("cast(id as string) as value")
    values.write.format("kafka").options(**broker, topic=TOPIC).save()
    reader = session.readStream.format("kafka").options(**broker, subscribe=TOPIC, startingOffsets="earliest")
    table = str(folder / "table")

    def write(records: DataFrame, _batch_id: int) -> None:
        passed_on = records.mapInArrow(lambda batches: batches, records.schema)
        passed_on.write.format("delta").mode("append").save(table)

    writer = (
        reader.load().writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "checkpoint"))
    )
    writer.trigger(availableNow=True).start().awaitTermination()
    session.read.format("delta").load(table).where("partition = 0").count()


def _end(session: SparkSession) -> None:
    """End the JVM too, and wait: it writes its archive then."""
    gateway = SparkContext._gateway
    session.stop()
    if gateway is not None:
        gateway.proc.stdin.close()
        gateway.proc.wait()


if __name__ == "__main__":
    write_archives(Path(sys.argv[1]).absolute())
