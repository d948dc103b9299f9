"""What tests of the pipeline share: a broker that asks who it speaks to, and the stores that run on this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.ingest.secured_broker import SecuredBroker
from tests.ingest.storage.stores import HEAVY, KINDS, Store, s3

from distributary.ingest.storage.contract import Files


@pytest.fixture(scope="session")
def secured_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A running broker with a listener for each way to log in."""
    broker = SecuredBroker(tmp_path_factory.mktemp("secured") / "broker")
    try:
        broker.launch()
        broker.wait_ready()
        broker.add_users()
        yield broker
    finally:
        broker.stop()


@pytest.fixture(
    scope="session",
    params=[pytest.param(kind, marks=[pytest.mark.heavy] if kind in HEAVY else []) for kind in KINDS],
)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store of each kind; one that this machine lacks is skipped by name."""
    with KINDS[request.param](tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest.fixture
def files(store: Store) -> Files:
    """The files of a place that no other test has."""
    return store.files()


@pytest.fixture(scope="session")
def s3_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """S3 on this machine; what needs it is skipped where there is none."""
    with s3(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def in_s3(s3_store: Store) -> Files:
    """A place in S3 that no other test has."""
    return s3_store.files()


@pytest.fixture
def place(files: Files) -> Files:
    """The same, for tests of tables, which have files of their own."""
    return files
