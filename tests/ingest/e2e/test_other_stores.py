"""Tables and checkpoint in Azure, in HDFS and by Google's clients: evolved, upserted, crashed amid their commits and brought to their end. S3 has tests of its own."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.storage.stores import KINDS, Store

# A store that takes seconds to start, and for HDFS minutes to be filled.
pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.heavy, pytest.mark.folder]


@pytest.fixture(scope="module", params=["azure", "gcs", "hdfs"])
def other(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Each of them; one that this machine lacks is skipped by name."""
    with KINDS[request.param](tmp_path_factory.mktemp(request.param)) as running:
        yield running


def test_tables_evolve_and_a_batch_that_died_amid_its_commits_is_brought_to_its_end(
    kit: PipelineKit, other: Store
) -> None:
    kit.in_store(other).configured(decode={"evolution": "inline"}, limits={"commit_threads": 1})
    kit.simulate(1, corrupt=0.05, tombstones=0.02)
    kit.run()
    before = kit.versions()
    kit.simulate(2, games=4, corrupt=0.05, tombstones=0.02, old_producers=0.3)

    killed = kit.run_apart("between_commits:3=kill")

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    kit.run()
    kit.assert_clean()
    assert kit.unnamed_files() == set()
    assert set(before) < set(kit.versions())
