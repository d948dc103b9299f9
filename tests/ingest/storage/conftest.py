"""The stores that run on this machine, each started once a run, and places in them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.ingest.storage.stores import HEAVY, KINDS, Store

from distributary.ingest.storage.contract import Files


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
