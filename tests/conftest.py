"""What tests share: one Spark session, one real broker and registry, and fresh topics."""

from __future__ import annotations

import gc
import os
import re
import shutil
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path

import certifi
import psutil
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from hypothesis import settings
from pyspark.sql import SparkSession
from tests.examples import examples
from tests.jvms import make_jvms_start_fast
from tests.spark_3_5 import lend

from distributary.ingest.spark.session import spark_session
from distributary.producer_sim.stack.local import LocalStack

# Warnings are errors (pyproject.toml), except for what PySpark and Py4J do in their own code.
FOREIGN_WARNINGS = (
    # Py4J leaves the closing of its sockets to the garbage collector, PySpark the JVM's handle.
    r"ignore:unclosed <socket\.socket:ResourceWarning",
    r"ignore:subprocess \d+ is still running:ResourceWarning",
    r"ignore::DeprecationWarning:pyspark\.",
    r"ignore::DeprecationWarning:py4j\.",
    r"ignore::FutureWarning:pyspark\.",
)


# The same examples in every run: a failure is a change's fault, never a throw of dice. No deadlines: machines differ.
settings.register_profile("distributary", derandomize=True, deadline=None, max_examples=examples(25))
settings.load_profile("distributary")

# To compile a query takes far longer than to work it out for a few rows.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


MEMORY = Path("/dev/shm")  # noqa: S108 pytest makes a folder of its own there


def pytest_configure(config: pytest.Config) -> None:
    lend()
    make_jvms_start_fast()
    _interpret_in_other_jvms()
    _keep_files_in_memory(room=_room_for(config.option.markexpr) * 2**30)
    folder = tempfile.TemporaryDirectory()
    config.add_cleanup(folder.cleanup)
    os.environ["SSL_CERT_FILE"] = str(_one_authority(Path(folder.name)))
    # Whoever works on this may have keys of their own, by which stores of AWS's are refused.
    os.environ.update(dict.fromkeys(("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"), os.devnull))
    for line in FOREIGN_WARNINGS:
        config.addinivalue_line("filterwarnings", line)
    # Files go to the processes in the order of the collection; xdist's own would be by the number of their tests.
    config.option.loadscopereorder = False


def _interpret_in_other_jvms() -> None:
    """Have sessions in other processes interpret their queries, too: Java's properties are Spark's settings where nobody says otherwise."""
    told = " ".join(f"-D{name}={value}" for name, value in INTERPRETED.items())
    if told not in (given := os.environ["SPARK_SUBMIT_OPTS"]):
        os.environ["SPARK_SUBMIT_OPTS"] = f"{given} {told}"


def _room_for(marks: str) -> int:
    """How many gibibytes the files of tests with such marks may take: heavy ones write several, and each node of a cluster unpacks all packages."""
    return 64 if marks == "cluster" else 4 if "not heavy" in marks else 16


def _keep_files_in_memory(room: int) -> None:
    """Have the tests' folders in memory where that has room: what they write is synced thousands of times, and no loss of power is met."""
    with suppress(OSError):
        # Some tests run what they wrote, which containers often allow nowhere there.
        runs = os.access(MEMORY, os.W_OK) and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
        free = min(shutil.disk_usage(MEMORY).free, psutil.virtual_memory().available)
        if runs and free >= room:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def _one_authority(folder: Path) -> Path:
    """The first of the authorities that are trusted unless one says otherwise.

    Every client of a registry reads all hundred and forty, twice, and no test meets a certificate of theirs.
    """
    file = folder / "one-authority.pem"
    first, end, _ = Path(certifi.where()).read_text(encoding="utf-8").partition("-----END CERTIFICATE-----")
    file.write_text(f"{first}{end}\n", encoding="utf-8")
    return file


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for garbage neither while ten thousand tests are collected, of which each is kept, nor among them later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Mark whatever asks for Spark or the stack, before `-m` chooses by marks; then take the longest files first.

    `PART=3/8` takes every eighth of the tests that are left then, from the fourth on.
    """
    for item in items:
        for mark in {"spark", "stack"}.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(mark)
    yield
    part, _, parts = os.environ.get("PART", "0/1").partition("/")
    config.hook.pytest_deselected(
        items=[item for place, item in enumerate(items) if place % int(parts) != int(part)]
    )
    items[:] = items[int(part) :: int(parts)]
    seconds: defaultdict[Path, float] = defaultdict(float)
    for item in items:
        seconds[item.path] += _usual_seconds(item)
    # Two long files that come last would leave one of two processes with nothing to do.
    items.sort(key=lambda item: (-seconds[item.path], item.path))


def _usual_seconds(item: pytest.Item) -> float:
    """What such a test takes, roughly."""
    spark, stack = (item.get_closest_marker(mark) is not None for mark in ("spark", "stack"))
    return 4.0 if spark and stack else 1.5 if spark or stack else 0.03


@pytest.fixture(scope="session", autouse=True)
def temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Those of the code that is tested, and of what it starts, are where the tests' folders are: in memory, and gone with them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("temporary")))
        patch.setattr(tempfile, "tempdir", None)
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of the run: two slots, tasks retried, Delta and Kafka on the class path."""
    session = spark_session(
        "tests",
        "local[2,4]",
        {
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            "spark.driver.memory": "2g",
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            **INTERPRETED,
            # Where each column was made: half a dozen questions to the JVM for each, of which a decoder's has thousands.
            "spark.python.sql.dataFrameDebugging.enabled": "false",
        },
    )
    yield session
    session.stop()


@pytest.fixture
def compiled(spark: SparkSession) -> Iterator[None]:
    """The session compiles its queries as it does for users: for tests of what Spark itself decodes and evaluates."""
    for name in INTERPRETED:
        spark.conf.unset(name)
    yield
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """A real broker and registry on free ports. A test that stops one of them starts it again before it ends."""
    running = LocalStack(tmp_path_factory.mktemp("stack"), broker_port=0, registry_port=0)
    running.up()
    yield running
    # Nobody needs any more what they hold, and to end in good order takes seconds.
    running.broker.kill()
    running.registry.kill()


@pytest.fixture(scope="session")
def admin(stack: LocalStack) -> Iterator[AdminClient]:
    """An admin client of the broker, closed before that stops: it would go on saying that nobody answers."""
    with AdminClient({"bootstrap.servers": stack.bootstrap_servers}) as client:
        yield client


MakeTopic = Callable[[int], str]


@pytest.fixture
def make_topic(admin: AdminClient, request: pytest.FixtureRequest) -> MakeTopic:
    """Makes an empty topic with so many partitions, and returns its name; every call makes another one."""
    prefix = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-")

    def make(partitions: int) -> str:
        name = f"{prefix}-{uuid.uuid4().hex[:8]}"
        admin.create_topics([NewTopic(name, num_partitions=partitions, replication_factor=1)])[name].result(
            30
        )
        return name

    return make


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    """The name of an empty topic of this test alone, with two partitions."""
    return make_topic(2)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """An empty folder for tables."""
    folder = tmp_path / "lake"
    folder.mkdir()
    return folder
