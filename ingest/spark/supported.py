"""What goes with what: each Spark that distributary runs on, and everything whose version it decides.

The lists of jars beside this file are made from it by `tools/lock_jars.py`; docs/reference/what-runs-with-what.md tells it to people.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# The same for every Spark. Kafka's clients below 3.9.1 have known vulnerabilities, those from 4.0 on lack what Spark calls.
KAFKA_CLIENTS, COMMONS_POOL = "3.9.2", "2.12.0"


@dataclass(frozen=True, slots=True)
class SparkLine:
    """A minor version of Spark, and what belongs to it.

    name        the minor version, such as `4.0`
    pyspark     the oldest PySpark of it that goes with this Delta
    scala       the Scala that it is built with
    connectors  the build of Spark's own jars that is fetched: Kafka's source, logins for it, Avro
    delta       name and revision of Delta's jar; the revision is that of PyPI's `delta-spark`, too
    hadoop      the Hadoop that PySpark ships: what a connector to a store, such as hadoop-aws, has to be of
    javas       the Javas on which it runs here
    pythons     the Pythons in which it runs
    """

    name: str
    pyspark: str
    scala: str
    connectors: str
    delta: str
    hadoop: str
    javas: tuple[int, ...]
    pythons: tuple[str, ...]

    @property
    def delta_revision(self) -> str:
        """Delta's version, of the jar and of the package."""
        return self.delta.partition(":")[2]

    @property
    def jars(self) -> tuple[str, ...]:
        """The coordinates of all jars that a session needs, in the order of their names."""
        spark = (
            f"org.apache.spark:{name}_{self.scala}:{self.connectors}"
            for name in ("spark-avro", "spark-sql-kafka-0-10", "spark-token-provider-kafka-0-10")
        )
        return (
            f"io.delta:{self.delta}",
            f"io.delta:delta-storage:{self.delta_revision}",
            f"org.apache.commons:commons-pool2:{COMMONS_POOL}",
            f"org.apache.kafka:kafka-clients:{KAFKA_CLIENTS}",
            *spark,
        )

    @property
    def jar_list(self) -> Path:
        """The list of these jars with their checksums."""
        return Path(__file__).with_name(f"spark_jars_{self.name}.lock")

    @property
    def packages(self) -> tuple[str, str]:
        """What pip is to install, as requirements: PySpark and Delta's package."""
        delta = self.delta_revision
        return (
            f"pyspark>={self.pyspark},<{_after(self.name)}",
            f"delta-spark>={delta},<{_after(line_of(delta))}",
        )

    @property
    def protobuf(self) -> str:
        """The optional package with Spark's own `from_protobuf`; its version is Spark's."""
        return f"org.apache.spark:spark-protobuf_{self.scala}"

    @property
    def plain_checkpoint_files(self) -> str:
        """The class that writes a query's own files through Hadoop's file system alone; 4.1 moved it into a folder below."""
        folder = "checkpointing." if _numbers(self.name) >= (4, 1) else ""
        return f"org.apache.spark.sql.execution.streaming.{folder}FileSystemBasedCheckpointFileManager"

    @property
    def widens_columns(self) -> bool:
        """Whether its Delta makes integers, floats and dates of a table wider; before 4.0 a preview did so for the smallest."""
        return int(self.delta_revision.partition(".")[0]) >= 4


SPARKS = (
    SparkLine(
        name="3.5",
        pyspark="3.5.3",
        scala="2.12",
        connectors="3.5.3",
        delta="delta-spark_2.12:3.3.2",
        hadoop="3.3.4",
        javas=(17,),
        # It imports distutils, which Python 3.12 no longer has.
        pythons=("3.10", "3.11"),
    ),
    SparkLine(
        name="4.0",
        pyspark="4.0.1",
        scala="2.13",
        connectors="4.0.0",
        delta="delta-spark_4.0_2.13:4.4.0",
        hadoop="3.4.1",
        javas=(17, 21),
        pythons=("3.10", "3.11", "3.12", "3.13"),
    ),
    SparkLine(
        name="4.1",
        pyspark="4.1.1",
        scala="2.13",
        connectors="4.1.1",
        delta="delta-spark_4.1_2.13:4.4.0",
        hadoop="3.4.2",
        javas=(17, 21),
        pythons=("3.10", "3.11", "3.12", "3.13"),
    ),
)


def line_of(version: str) -> str:
    """The minor version of a full one: `4.0` of `4.0.5`."""
    return ".".join(version.split(".")[:2])


def spark_line(version: str) -> SparkLine | None:
    """The line of a full version of Spark; None for one that is not supported."""
    return next((one for one in SPARKS if one.name == line_of(version)), None)


def _numbers(line: str) -> tuple[int, ...]:
    return tuple(map(int, line.split(".")))


def _after(line: str) -> str:
    major, minor = _numbers(line)
    return f"{major}.{minor + 1}"
