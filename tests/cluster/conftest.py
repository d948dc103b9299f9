"""A cluster, what `distributary package` makes, a store, and a pipeline over them that is submitted as its page says."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cluster import nodes
from tests.cluster.nodes import Cluster
from tests.cluster.submitted import SECRETS, ClusterKit, environment, first_block
from tests.ingest.storage.stores import Store, s3

from distributary.producer_sim.stack.local import LocalStack


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master, and two workers that see neither the driver's folders nor each other's."""
    with nodes.cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """S3 on this machine."""
    with s3(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the page's first command makes."""
    folder = tmp_path_factory.mktemp("packed")
    done = subprocess.run(
        ["bash", "-ec", first_block()],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def in_s3(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store, with what settings name of it, and only the environment has, here as in drivers."""
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    return store


@pytest.fixture
def machines(cluster: Cluster, packed: Path) -> tuple[Cluster, Path]:
    """The cluster, and the folder with what it is handed."""
    return cluster, packed


@pytest.fixture
def kit(
    tmp_path: Path,
    make_topic: Callable[[int], str],
    stack: LocalStack,
    in_s3: Store,
    machines: tuple[Cluster, Path],
) -> Iterator[ClusterKit]:
    """A pipeline over an empty topic with two partitions, its tables and inferred schemas in the store."""
    made = ClusterKit(tmp_path, make_topic(2), stack, *machines)
    yield made.in_s3(in_s3)
    made.end()
