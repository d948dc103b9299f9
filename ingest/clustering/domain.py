"""What a table's log says that it is clustered by: a feature of its protocol, and a domain of its metadata.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#clustered-table
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from distributary.ingest.columns.clustering import Path
from distributary.ingest.log_paths import entry_path
from distributary.ingest.merge import live_files
from distributary.ingest.storage.contract import Files

FEATURE = "clustering"
"""By which feature a table is a clustered one, whatever it is clustered by, or by nothing."""

FEATURES = ("domainMetadata", FEATURE)
"""What writers have to know who write to one."""

DOMAIN = "delta.clustering"

ACTION = "domainMetadata"

_MARK = b'"domainMetadata"'

_PHYSICAL = "delta.columnMapping.physicalName"

# In a store each read waits for an answer.
_THREADS = 16


def clustering_action(paths: Sequence[Path]) -> dict[str, Any]:
    """The action by which a table is clustered by these columns, or by nothing any more, as Spark's `CLUSTER BY NONE` has it."""
    told = {"clusteringColumns": [list(path) for path in paths], "domainName": DOMAIN}
    text = json.dumps(told, separators=(",", ":"), ensure_ascii=False)
    return {ACTION: {"domain": DOMAIN, "configuration": text, "removed": False}}


def clustered_by(place: Files, version: int, fields: Sequence[Mapping[str, Any]]) -> tuple[Path, ...]:
    """What a table with this feature is clustered by at a version; nothing where its log says so, or says nothing.

    fields  of its schema, as Delta's JSON has them: where columns have other names in files, the log says these

    Raises FileNotFoundError where the log does not lead there (any more).
    """
    base, checkpoint = live_files.checkpoint_of(place, version)
    for told in _newest_first(place, base, version):
        if (found := _clustering(told)) is not None:
            return _named(found, fields)
    told = [one for path in checkpoint for one in live_files.in_checkpoint(place, path, ACTION)]
    return _named(_clustering(told) or [], fields)


def _newest_first(place: Files, base: int, version: int) -> Iterator[list[Mapping[str, Any]]]:
    """What each entry says of domains."""

    def domains(number: int) -> list[Mapping[str, Any]]:
        # Nearly all say nothing, and those of merges are long.
        lines = (line for line in place.read(entry_path(number)).splitlines() if _MARK in line)
        return [action[ACTION] for action in map(json.loads, lines) if ACTION in action]

    versions = range(version, base, -1)
    if not place.remote:
        yield from map(domains, versions)
        return
    with ThreadPoolExecutor(_THREADS, "clustering") as pool:
        for first in range(0, len(versions), _THREADS):
            yield from list(pool.map(domains, versions[first : first + _THREADS]))


def _clustering(domains: Iterable[Mapping[str, Any]]) -> list[Path] | None:
    """What these say of the clustering; None where they say nothing of it."""
    mine = [one for one in domains if one.get("domain") == DOMAIN]
    if not mine:
        return None
    if mine[-1].get("removed"):
        return []
    columns = json.loads(mine[-1]["configuration"]).get("clusteringColumns") or []
    # The protocol's own example has a name alone, Spark a path.
    return [(one,) if isinstance(one, str) else tuple(one) for one in columns]


def _named(paths: Iterable[Path], fields: Sequence[Mapping[str, Any]]) -> tuple[Path, ...]:
    """Columns by the names that a table has for them."""
    return tuple(tuple(_names(path, fields)) for path in paths)


def _names(path: Path, fields: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for name in path:
        found = next((one for one in fields if one["metadata"].get(_PHYSICAL, one["name"]) == name), None)
        yield name if found is None else found["name"]
        inside = None if found is None else found["type"]
        fields = inside["fields"] if isinstance(inside, Mapping) and inside["type"] == "struct" else ()
