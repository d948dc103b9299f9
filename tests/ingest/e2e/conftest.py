"""A pipeline of the test's own for every test in this folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.ingest import failpoints
from distributary.producer_sim.stack.local import LocalStack


@pytest.fixture
def kit(
    tmp_path: Path, make_topic: Callable[[int], str], stack: LocalStack, spark: SparkSession
) -> PipelineKit:
    """A pipeline over an empty topic with two partitions."""
    return PipelineKit(tmp_path, make_topic(2), stack, spark)


@pytest.fixture
def fail_at(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes runs in this process fail once at each of these points, such as `after_manifest:1`; none ends that."""

    def arm(*points: str) -> None:
        monkeypatch.setattr(failpoints, "_fired", set())
        monkeypatch.setenv(failpoints.VARIABLE, ",".join(f"{point}=fail" for point in points))

    return arm
