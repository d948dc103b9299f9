"""What tests of the log ask for by name."""

from __future__ import annotations

import pytest

from distributary.ingest.commit_log import entry_json, writing


@pytest.fixture
def closing_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries are closed after a few instead of hundreds, and starts alone say which topics were left, be they as few."""
    monkeypatch.setattr(writing, "KEPT", 3)
    monkeypatch.setattr(writing, "AT_ONCE", 2)
    monkeypatch.setattr(writing, "BEFORE_PARKED", 0)
    monkeypatch.setattr(entry_json, "_MANY_TOPICS", 0)
