"""Clustered tables in Azure, by Google's clients and in HDFS: made, appended to, sorted beside a rival, cleaned up, and clustered otherwise. S3 has tests of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.ingest.storage.stores import KINDS, Store
from tests.ingest.upkeep.kept_up import newest
from tests.ingest.upkeep.test_clustered import COUNT, Table, amid

from distributary.ingest.columns.clustering import ClusterBy
from distributary.ingest.merge import live_files
from distributary.ingest.settings.rule_book import TableSpec
from distributary.ingest.tables.properties import retell
from distributary.ingest.upkeep.clustered import cluster
from distributary.ingest.upkeep.leftovers import Bound, delete, leftovers
from distributary.ingest.upkeep.undecided import Undecided

# A store that takes seconds to start.
pytestmark = pytest.mark.heavy


@pytest.fixture(params=["azure", "gcs", "hdfs"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Each of them; one that this machine lacks is skipped by name."""
    with KINDS[request.param](tmp_path_factory.mktemp(request.param)) as running:
        yield running


def test_rows_are_sorted_beside_a_batch_and_by_other_columns_later(store: Store) -> None:
    root = store.files()
    table = Table(root.below("games"))
    table.root = root
    for _ in range(4):
        table.append()
    with amid(table.append):
        done = cluster(table.place)
    assert (done.compacted, done.left) == (4, "")
    assert table.numbers() == list(range(5 * COUNT))
    assert cluster(table.place).left == ""
    assert sum(table.files_with(x) for x in range(100, 900, 40)) / 20 < len(table.adds()) * 0.75
    retell(table.place, TableSpec(cluster_by=ClusterBy(("n",))))
    cluster(table.place)
    assert table.numbers() == list(range(5 * COUNT))
    named = {name for name, _ in live_files.read(table.place, newest(table.place))}
    now = 4_000_000_000_000
    delete(table.place, leftovers(table.place, Bound(now, now), Undecided()))
    assert set(table.place.names()) == named
