"""A pipeline of the test's own for every test in this folder.

`TABLES_IN=s3` puts their tables and checkpoints into a store that speaks S3, `azure` and `hdfs` into those.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.storage.stores import KINDS, Store

from distributary.ingest import failpoints, supervisor
from distributary.producer_sim.stack.local import LocalStack


@pytest.fixture(autouse=True)
def ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run in this process that is told to stop looks for that often: half a second each adds up."""
    monkeypatch.setattr(supervisor, "_LOOK_SECONDS", 0.05)


@pytest.fixture
def kit(
    tmp_path: Path,
    make_topic: Callable[[int], str],
    stack: LocalStack,
    spark: SparkSession,
    request: pytest.FixtureRequest,
) -> PipelineKit:
    """A pipeline over an empty topic with two partitions."""
    made = PipelineKit(tmp_path, make_topic(2), stack, spark)
    if not (kind := os.environ.get("TABLES_IN")):
        return made
    looked_into = request.node.get_closest_marker("checkpoint_folder") is not None
    store = request.getfixturevalue("s3_store" if kind == "s3" else "other_store")
    return made.in_store(store, checkpoint=not looked_into)


@pytest.fixture(scope="session")
def other_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The store that `TABLES_IN` names; what needs it is skipped where there is none."""
    kind = os.environ["TABLES_IN"]
    with KINDS[kind](tmp_path_factory.mktemp(kind)) as running:
        yield running


@pytest.fixture
def fail_at(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes runs in this process fail once at each of these points, such as `after_manifest:1`; none ends that."""

    def arm(*points: str) -> None:
        monkeypatch.setattr(failpoints, "_fired", set())
        monkeypatch.setenv(failpoints.VARIABLE, ",".join(f"{point}=fail" for point in points))

    return arm
