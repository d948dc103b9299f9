"""The log of a table as a source, asked without a session; rows are in test_channels.py."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from tests.ingest.storage.relay import relayed
from tests.ingest.storage.stores import Store

from distributary.errors import CheckpointMismatch, ConfigError, SetupError
from distributary.ingest.inputs.delta import channels
from distributary.ingest.inputs.delta import versions as module
from distributary.ingest.inputs.delta.channels import TableRecords, Tables
from distributary.ingest.inputs.waits import Waits
from distributary.ingest.settings.groups import Source
from distributary.ingest.settings.source.delta import DeltaTables
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place
from distributary.ingest.tables import handle, log


def make(place: Path, count: int, **more: Any) -> None:
    write_deltalake(str(place), pa.table({"a": pa.array(range(count), pa.int64())}), mode="append", **more)


def tables(*places: Path, **more: Any) -> Tables:
    given = DeltaTables.model_validate({"paths": [str(place) for place in places], **more})
    return Tables(given, StorageOptions())


def reader(opened: Tables) -> TableRecords:
    """Its records as no session reads them."""
    source = Source.model_validate({"delta": {"paths": [str(log.place) for log in opened.logs.values()]}})
    return TableRecords(None, source, opened)  # type: ignore[arg-type] # none is needed


def edit(place: Path, version: int, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Have the actions of an entry be others; those of which nothing is left go."""
    entry = place / "_delta_log" / f"{version:020d}.json"
    actions = [change(json.loads(line)) for line in entry.read_text().splitlines()]
    entry.write_text("\n".join(json.dumps(action) for action in actions if action))


def at(version: int) -> dict[str, dict[int, int]]:
    return {"t": {0: version << 32}}


def test_an_entry_that_says_nothing_of_itself_has_the_time_of_its_file(tmp_path: Path) -> None:
    place = tmp_path / "t"
    for _ in range(2):
        make(place, 1)
        make(place, 1)
    for version in (1, 2):
        edit(place, version, lambda action: {} if "commitInfo" in action else action)
        os.utime(
            place / "_delta_log" / f"{version:020d}.json", (2_000_000_000 + version, 2_000_000_000 + version)
        )
    log = tables(place).logs["t"]
    assert [file.millis for file in log.files(1, 3)] == [2_000_000_001_000, 2_000_000_002_000]
    assert log.first_since(2_000_000_002_000) == 2


@pytest.mark.parametrize("read", ["appends", "changes"])
def test_what_an_entry_says_to_be_null_it_does_not_say(tmp_path: Path, read: str) -> None:
    """As those of delta-rs 0.21 do of files whose rows nothing marks: they are no deletes."""
    place = tmp_path / "t"
    make(place, 2)
    make(place, 3)
    nothing = ("stats", "tags", "deletionVector", "baseRowId", "defaultRowCommitVersion")

    def as_before(action: dict[str, Any]) -> dict[str, Any]:
        return {"add": {**action["add"], **dict.fromkeys(nothing)}} if "add" in action else action

    edit(place, 1, as_before)
    log = tables(place, read=read).logs["t"]
    assert [(file.version, file.rows) for file in log.files(0, 2)] == [(0, 2), (1, 3)]


def timed(place: Path, *times: int) -> None:
    """A table whose versions were committed at these times."""
    for version, time in enumerate(times):
        make(place, 1)

        def told(action: dict[str, Any], time: int = time) -> dict[str, Any]:
            return {"commitInfo": {"timestamp": time}} if "commitInfo" in action else action

        edit(place, version, told)


def test_a_version_of_a_clock_that_was_ahead_is_found_though_those_behind_it_are_older(
    tmp_path: Path,
) -> None:
    timed(tmp_path / "t", 10, 30, 15, 16, 40)
    opened = tables(tmp_path / "t")
    assert [opened.offsets_from(time) for time in (0, 10, 11, 20, 31)] == [
        at(version) for version in (0, 0, 1, 1, 4)
    ]
    assert opened.offsets_from(41) == {}


def test_each_entry_of_a_long_backlog_is_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(12):
        make(tmp_path / "t", 2)
    asked, read = Counter[int](), log.entry

    def entry(place: Any, version: int) -> Any:
        asked[version] += 1
        return read(place, version)

    monkeypatch.setattr(module, "entry", entry)
    monkeypatch.setattr(module, "_ACTIONS_KEPT", 5)
    opened = tables(tmp_path / "t")
    assert opened.lag(at(0)) == {"t": {0: 24}}
    assert opened.lag(at(2)) == {"t": {0: 20}}
    assert reader(opened).next_range(at(0), at(12), 100) == {"t": {0: (0, 12 << 32)}}
    assert asked == dict.fromkeys(range(12), 1)


def test_of_versions_that_are_read_no_more_is_remembered_than_of_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(12):
        make(tmp_path / "t", 2)
    monkeypatch.setattr(module, "_READ_KEPT", 3)
    opened = tables(tmp_path / "t")
    records, log = reader(opened), opened.logs["t"]
    for version in range(12):
        assert opened.lag(at(version)) == {"t": {0: 2 * (12 - version)}}
        assert records.next_range(at(version), at(12), 2) == {"t": {0: (version << 32, (version + 1) << 32)}}
    assert (len(log._briefs), len(log._rows)) == (3, 3)
    assert opened.lag(at(0)) == {"t": {0: 24}}, "which is asked for again"


def test_what_was_appended_before_rows_were_deleted_is_read_before_that_is_told(tmp_path: Path) -> None:
    place = tmp_path / "t"
    make(place, 1)
    make(place, 2)
    DeltaTable(str(place)).delete("a = 1")
    make(place, 1)
    opened = tables(place)
    records, ends = reader(opened), opened.end_offsets()
    opened.lag(at(0))
    assert records.next_range(at(0), ends, 100) == {"t": {0: (0, 2 << 32)}}
    assert records.next_range(at(2), ends, 100)["t"][0][0] == 2 << 32
    with pytest.raises(CheckpointMismatch, match=r"version 2 of .* deletes or replaces rows"):
        opened.logs["t"].files(2, 3)


def test_a_version_with_more_rows_than_have_an_offset_is_refused_by_its_number(tmp_path: Path) -> None:
    place = tmp_path / "t"
    make(place, 1)
    make(place, 1)

    def many(action: dict[str, Any]) -> dict[str, Any]:
        if "add" in action:
            action["add"]["stats"] = json.dumps({"numRecords": (1 << 32) + 1})
        return action

    edit(place, 1, many)
    with pytest.raises(SetupError, match=r"version 1 of .* brings 4,294,967,297 rows.*starting_version: 2"):
        tables(place).logs["t"].files(1, 2)


def test_files_of_another_table_are_refused_by_what_they_are(tmp_path: Path) -> None:
    place = tmp_path / "t"
    make(place, 1)

    def elsewhere(action: dict[str, Any]) -> dict[str, Any]:
        if "add" in action:
            action["add"]["path"] = f"file:/elsewhere/{action['add']['path']}"
        return action

    edit(place, 0, elsewhere)
    with pytest.raises(ConfigError, match="shallow clone"):
        tables(place).lag(at(0))


def test_a_table_is_opened_only_where_its_columns_may_be_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, count = tmp_path / "t", list[int]()
    for _ in range(4):
        make(place, 1)
    for _ in range(2):
        rows = pa.table({"a": [1], "b": ["x"]})
        write_deltalake(str(place), rows, mode="append", schema_mode="merge")
    opened, handle_of = tables(place), handle.opened

    def counted(place: Any, **more: Any) -> DeltaTable:
        count.append(1)
        return handle_of(place, **more)

    monkeypatch.setattr(channels, "opened", counted)
    names = [opened.layout("t", version << 32).names for version in (1, 2, 3, 4, 5, 6)]
    assert names == [["a"]] * 4 + [["a", "b"]] * 2
    assert len(count) == 2
    assert opened.layout("t", 2 << 32).names == ["a"], "as of before"
    count.clear()
    assert len({opened.topic_ids()["t"] for _ in range(3)}) == 1
    assert len(count) == 1


def test_a_table_that_is_replaced_in_its_log_is_another_one(tmp_path: Path) -> None:
    place = tmp_path / "t"
    make(place, 1)
    opened = tables(place)
    first = opened.topic_ids()
    make(place, 1)
    assert opened.topic_ids() == first
    columns = Schema.from_arrow(pa.schema([("b", pa.string())]))
    DeltaTable.create(str(place), schema=columns, mode="overwrite")
    assert opened.topic_ids() == {"t": str(DeltaTable(str(place)).metadata().id)}
    assert opened.topic_ids() != first


def test_a_log_that_is_another_one_by_now_is_told_from_its_beginning(tmp_path: Path) -> None:
    for _ in range(5):
        make(tmp_path / "t", 1)
    log = tables(tmp_path / "t").logs["t"]
    assert (log.first(), log.behind_newest()) == (0, 5)
    make(tmp_path / "t", 1)
    assert log.behind_newest() == 6
    (tmp_path / "t").rename(tmp_path / "old")
    make(tmp_path / "t", 1)
    assert log.behind_newest() == 1


def test_a_store_that_does_not_answer_is_waited_for_and_that_is_told(s3_store: Store) -> None:
    with relayed(s3_store.port) as relay:
        options = s3_store.options_by(relay.port)
        once = options.model_copy(update={"http": options.http.model_copy(update={"retry_seconds": 0.0})})
        place = open_files(Place.parse(s3_store.files().url), once).below("t")
        for _ in range(2):
            write_deltalake(
                place.url, pa.table({"a": [1]}), mode="append", storage_options=dict(place.options)
            )
        told = list[str]()

        def tell(why: str, seconds: float) -> None:
            told.append(why)
            relay.away = None

        given = DeltaTables.model_validate({"paths": place.url})
        opened = Tables(given, once, Waits(tell))
        for ask in (opened.topic_ids, opened.end_offsets, opened.columns, lambda: opened.lag(at(0))):
            relay.away = "503"
            assert ask()
        assert len(told) == 4
        assert all(why.startswith(f"{place.url} does not answer") for why in told)
        relay.away = "cut"
        assert opened.was_away()
        relay.away = "503"
        with pytest.raises(OSError, match=r"does not answer|503"):
            Tables(given, once).end_offsets()
