"""What several pipelines keep of one registry's answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ingest.settings.test_table_rules import SOUND

from distributary.errors import RegistryUnavailable
from distributary.ingest.run import _kept
from distributary.ingest.settings.model import Settings
from distributary.registry.disk.cache import to_log
from distributary.registry.memory import MemoryRegistry
from distributary.registry.protobuf.text import with_named_entries

LOST = 'syntax = "proto3"; message M { repeated TagsEntry tags = 1; message TagsEntry { string key = 1; int32 value = 2; } }'


def answering(text: str) -> MemoryRegistry:
    registry = MemoryRegistry()
    registry.register("games-value", text, "PROTOBUF")
    return registry


def test_one_registry_is_no_other_one_by_what_pipelines_take_for_maps(tmp_path: Path) -> None:
    """They may share a folder, and one that was to wait for the registry would else read lists as the other's maps."""
    named = with_named_entries(LOST, {})
    assert named != LOST
    for entries, text in {"marked": LOST, "named": named}.items():
        given = {"url": "http://r:8081", "cache": str(tmp_path), "map_entries": entries}
        settings = Settings.from_dict({**SOUND, "registry": given})
        registry = answering(text)
        registry.down = True
        with pytest.raises(RegistryUnavailable):
            _kept(registry, settings, to_log).by_ref(1)
        registry.down = False
        assert _kept(registry, settings, to_log).by_ref(1).text == text
        registry.down = True
        assert _kept(registry, settings, to_log).by_ref(1).text == text
