"""What tests of the pipeline share: a broker that asks who it speaks to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.ingest.secured_broker import SecuredBroker


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
