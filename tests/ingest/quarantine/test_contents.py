"""What waits in quarantine is counted, shown and deleted as it was chosen, what was brought back apart from what is open."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable, write_deltalake
from tests.ingest.merge.test_columns import MUCH, much_text

from distributary.errors import ConfigError, PipelineError
from distributary.ingest.commit_log.entries import Owner
from distributary.ingest.commit_log.owners import Records, Whose
from distributary.ingest.erasure.record import all_gone
from distributary.ingest.quarantine.chosen import Chosen
from distributary.ingest.quarantine.contents import _first, contents, records
from distributary.ingest.quarantine.purging import Wish, purge
from distributary.ingest.quarantine.resolved import RESOLVED_SCHEMA
from distributary.ingest.settings.model import Settings, load
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.ledger import BATCHES_SCHEMA, QUARANTINE_SCHEMA
from distributary.views.quarantine import listed, shown

NOON = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    path = tmp_path / "games.yaml"
    source = {"kafka": {"bootstrap.servers": "nowhere:1"}, "topics": ["events", "others"]}
    document = {
        "name": "games",
        "source": source,
        "registry": {"url": "http://nowhere"},
        "route": {"field": "game"},
        "sink": {"root": "./lake"},
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return load(path)


def row(offset: int, reason: str = "unknown_schema", **more: Any) -> dict[str, Any]:
    known = {
        "kafka_topic": "events",
        "kafka_partition": 0,
        "kafka_offset": offset,
        "kafka_ts": NOON + timedelta(hours=offset),
        "kafka_key": b"k",
        "value": b"secret",
        "schema_id": 7,
        "reason": reason,
        "detail": "the registry knows no schema 7",
        "batch_id": 3,
        "generation": "gen",
        "pipeline": "games",
    }
    return {**known, **more}


def quarantined(tmp_path: Path, *rows: dict[str, Any]) -> None:
    table = pa.Table.from_pylist(list(rows), QUARANTINE_SCHEMA)
    write_deltalake(str(tmp_path / "lake/quarantine"), table, mode="append")


def resolved(tmp_path: Path, *rows: dict[str, Any]) -> None:
    told = {"replay": "one", "at": NOON, "outcome": "table", "table": "chess"}
    table = pa.Table.from_pylist([{**one, **told} for one in rows], RESOLVED_SCHEMA)
    write_deltalake(str(tmp_path / "lake/quarantine_resolved"), table, mode="append")


@pytest.fixture
def filled(tmp_path: Path, settings: Settings) -> Settings:
    others = [
        row(3, "malformed", schema_id=None, entity="chess"),
        row(4, kafka_topic="others", schema_id=None, schema_guid="a-b"),
        row(5, pipeline="another", generation="theirs"),
        row(6, "timestamp_overflow", kafka_ts=None),
    ]
    quarantined(tmp_path, row(0), row(1), row(2))
    quarantined(tmp_path, *others)
    resolved(tmp_path, row(1), row(1, batch_id=4))
    return settings


def test_it_is_counted_by_reason_schema_and_topic(filled: Settings) -> None:
    found = contents(filled)
    assert (found.open, found.resolved) == (5, 1)
    told = {(one.reason, one.schema, one.topic): one for one in found.groups}
    unknown = told["unknown_schema", "7", "events"]
    assert (unknown.open, unknown.resolved) == (2, 1)
    assert (unknown.first, unknown.last) == (NOON, NOON + timedelta(hours=2))
    assert told["unknown_schema", "a-b", "others"].open == 1
    assert told["timestamp_overflow", "7", "events"].first is None
    assert len(told) == 4
    assert found.groups[0] is unknown
    assert found.as_dict()["groups"][0]["first"] == "2026-01-31T12:00:00+00:00"


def test_of_as_many_records_the_schemas_come_in_their_order(tmp_path: Path, settings: Settings) -> None:
    for schema in (10, 9, None, 31, 2, 100, 7, 8):
        quarantined(tmp_path, row(schema or 0, schema_id=schema))
    told = [one.schema for one in contents(settings).groups]
    assert told == [None, "2", "7", "8", "9", "10", "31", "100"]


@pytest.mark.parametrize(
    ("chosen", "offsets"),
    [
        (Chosen(reasons=("malformed", "timestamp_overflow")), {3, 6}),
        (Chosen(entities=("chess",)), {3}),
        (Chosen(schemas=("7",)), {0, 1, 2, 6}),
        (Chosen(schemas=("a-b",)), {4}),
        (Chosen(topics=("others",)), {4}),
        (Chosen(since=NOON + timedelta(hours=1), until=NOON + timedelta(hours=3)), {1, 2}),
        (Chosen(place=(0, 2)), {2}),
        (Chosen(place=(1, None)), set()),
        (Chosen(reasons=("unknown_schema",), topics=("events",), until=NOON), set()),
    ],
)
def test_it_is_chosen_by_all_that_is_said(filled: Settings, chosen: Chosen, offsets: set[int]) -> None:
    found = records(filled, chosen, most=9)
    assert {one.told["kafka_offset"] for one in found.records} == offsets
    assert found.total == len(offsets)
    assert sum(one.open + one.resolved for one in contents(filled, chosen).groups) == len(offsets)
    assert Chosen.from_dict(chosen.as_dict()) == chosen or chosen.place != (None, None)


def test_a_record_is_shown_without_what_it_said_unless_that_is_asked_for(filled: Settings) -> None:
    (one,) = records(filled, Chosen(place=(0, 1))).records
    assert b"secret" not in str(one.as_dict()).encode()
    assert "c2VjcmV0" not in str(one.as_dict())
    assert one.as_dict()["value_bytes"] == 6
    assert one.resolved is not None
    assert (one.resolved["outcome"], one.resolved["table"]) == ("table", "chess")
    (one,) = records(filled, Chosen(place=(0, 0)), payload=True).records
    assert one.as_dict()["value"] == "c2VjcmV0"
    assert one.resolved is None


def test_the_first_records_are_shown_and_the_others_counted(filled: Settings) -> None:
    found = records(filled, Chosen(topics=("events",)), most=2)
    assert [one.told["kafka_offset"] for one in found.records] == [0, 1]
    assert found.total == 5


def test_a_pipeline_that_got_another_name_has_what_it_had_and_whoever_has_that_by_now_has_it_not(
    filled: Settings, tmp_path: Path
) -> None:
    records_of, log = Records(files_at(tmp_path / "lake")), "/log"
    assert records_of.put("chess", 0, Owner("games", log, "gen"))
    assert records_of.put("chess", 1, Owner("matches", log, "gen"))
    renamed = filled.model_copy(update={"name": "matches"})
    assert (contents(renamed).open, contents(renamed).resolved) == (5, 1)
    assert purge(renamed, Wish(dry_run=True)).rows == 1
    # All that whoever has the name by now got yet is in quarantine, so that he has no table.
    quarantined(tmp_path, row(9, generation="new"))
    assert (contents(renamed).open, contents(filled).open) == (5, 1)
    assert records_of.put("go", 0, Owner("games", "/other", "new"))
    assert (contents(renamed).open, contents(filled).open) == (5, 1)


def test_a_checkpoint_that_never_had_a_table_is_told_by_the_ledger_whatever_the_name_is_by_now(
    filled: Settings, tmp_path: Path
) -> None:
    quarantined(tmp_path, row(20, generation="first"), row(21, generation="new"))
    for number, (name, generation) in enumerate(
        [("games", "first"), ("games", "gen"), ("matches", "gen"), ("games", "new")]
    ):
        at = NOON + timedelta(days=number)
        told = dict.fromkeys(BATCHES_SCHEMA.names) | {"batch_id": 0, "started_at": at, "ended_at": at}
        rows = [{**told, "pipeline": name, "generation": generation}]
        write_deltalake(
            str(tmp_path / "lake/ledger_batches"), pa.Table.from_pylist(rows, BATCHES_SCHEMA), mode="append"
        )
    records_of = Records(files_at(tmp_path / "lake"))
    assert records_of.put("chess", 0, Owner("games", "/log", "gen"))
    assert records_of.put("chess", 1, Owner("matches", "/log", "gen"))
    renamed = filled.model_copy(update={"name": "matches"})
    assert (contents(renamed).open, contents(filled).open) == (6, 1)
    assert purge(renamed, Wish(Chosen(place=(0, 20)), open_too=True)).rows == 1
    assert (contents(renamed).open, contents(filled).open) == (5, 1)


# As of a producer that sends microseconds where Kafka counts milliseconds, and of one whose clock was never set.
BEYOND = (1_764_000_000_000_000_000, -99_999_999_999_999_999)


def test_a_time_in_a_year_that_python_lacks_is_a_number_and_in_order(
    filled: Settings, tmp_path: Path
) -> None:
    quarantined(tmp_path, *(row(7 + n, "malformed", kafka_ts=at) for n, at in enumerate(BEYOND)))
    found = contents(filled)
    (group,) = [one for one in found.groups if one.reason == "malformed" and one.schema == "7"]
    assert (group.open, group.first, group.last) == (2, BEYOND[1], BEYOND[0])
    assert any(f", {BEYOND[1]} microseconds since 1970 to {BEYOND[0]} " in line for line in listed(found))
    assert [one["last"] for one in found.as_dict()["groups"]].count(BEYOND[0]) == 1
    shown_one = records(filled, Chosen(place=(0, 7)))
    assert shown_one.records[0].as_dict()["kafka_ts"] == BEYOND[0]
    assert f"kafka_ts: {BEYOND[0]} microseconds since 1970" in [*shown(shown_one)]
    later = Chosen(since=datetime(9999, 12, 31, tzinfo=timezone.utc))
    assert [one.told["kafka_offset"] for one in records(filled, later, most=9).records] == [7]


@pytest.mark.parametrize("days", [float("nan"), float("inf"), -1.0, 800_000.0])
def test_days_that_are_none_are_refused(days: float, filled: Settings) -> None:
    with pytest.raises(ConfigError, match="in days, such as 30"):
        purge(filled, Wish(older_than_days=days, dry_run=True))


def test_without_a_quarantine_there_is_nothing(settings: Settings) -> None:
    assert contents(settings).groups == ()
    assert records(settings, Chosen()).records == ()
    assert purge(settings, Wish()).rows == 0


def test_what_cannot_be_read_is_told(filled: Settings, tmp_path: Path) -> None:
    (tmp_path / "lake/quarantine/_delta_log/00000000000000000001.json").write_text("{", encoding="utf-8")
    with pytest.raises(PipelineError, match="quarantine"):
        contents(filled)


def offsets_left(tmp_path: Path) -> list[int]:
    found = DeltaTable(tmp_path / "lake/quarantine").to_pyarrow_table()["kafka_offset"].to_pylist()
    return sorted(found)


def test_what_was_brought_back_is_deleted_and_nobody_misses_it(filled: Settings, tmp_path: Path) -> None:
    assert purge(filled, Wish(dry_run=True)).rows == 1
    assert offsets_left(tmp_path) == [0, 1, 2, 3, 4, 5, 6]
    done = purge(filled, Wish())
    assert (done.rows, done.files) == (1, 1)
    assert offsets_left(tmp_path) == [0, 2, 3, 4, 5, 6]
    ((table, gone),) = all_gone(files_at(tmp_path / "lake"), Whose.of("games"))
    assert table == "quarantine"
    assert {part: list(offsets) for part, offsets in gone.parts.items()} == {("gen", 3, "events", 0): [1]}
    assert purge(filled, Wish()).rows == 0


def test_what_is_open_is_deleted_only_where_it_is_said_which(filled: Settings, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--reason"):
        purge(filled, Wish(open_too=True))
    assert purge(filled, Wish(Chosen(reasons=("malformed",)))).rows == 0
    assert purge(filled, Wish(Chosen(reasons=("malformed",)), open_too=True)).rows == 1
    assert offsets_left(tmp_path) == [0, 1, 2, 4, 5, 6]


def test_only_what_is_old_enough_is_deleted(filled: Settings, tmp_path: Path) -> None:
    days = (datetime.now(timezone.utc) - NOON - timedelta(hours=1.5)) / timedelta(days=1)
    done = purge(filled, Wish(open_too=True, older_than_days=days))
    # One whose time no column holds is of no age.
    assert (done.rows, offsets_left(tmp_path)) == (2, [2, 3, 4, 5, 6])


def test_the_first_of_records_with_more_bytes_than_one_array_has_room_for() -> None:
    """As where very many are alike: such bytes take next to no room in a file."""
    first = _first(much_text(), 3, [("id", "ascending")])
    assert sorted(first["id"].to_pylist()) == [0, 1, 2]
    last = _first(much_text(), 2, [("id", "descending")])
    assert sorted(last["id"].to_pylist()) == [2 * MUCH - 2, 2 * MUCH - 1]


def test_what_is_shown_of_many_files_is_of_few_arrays() -> None:
    """With an empty one for each file that was looked at, the next file took longer each time: minutes for a thousand."""
    first = pa.table({"id": [0, 1]})
    for number in range(1, 20):
        some = pa.table({"id": [10 * number, 10 * number + 1]})
        first = _first(pa.concat_tables([first, some]), 2, [("id", "ascending")])
    assert (first["id"].to_pylist(), first["id"].num_chunks) == ([0, 1], 1)
