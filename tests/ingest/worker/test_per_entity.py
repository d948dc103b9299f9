"""Records of inferred schemas, one an entity, in a worker: each finds its schema before it is decoded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.ingest.kafka_records import TOPIC, Sent, aside_rows, batch, pins, rows_of

from distributary.codecs.base import INFERRED
from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.pins import PinnedRecord, PinnedTable, Pins, for_workers
from distributary.ingest.settings.groups import NamedTable, Policies, Route
from distributary.ingest.worker.demux import Demultiplexer
from distributary.ingest.worker.fields_seen import Sighting
from distributary.ingest.worker.report import TaskReport
from distributary.registry.base import Schema

ROUTE = Route(field="game", table="{entity}")


def pinned(number: int, entity: str | None, **types: str) -> PinnedRecord:
    fields = [{"name": n, "type": of, "nullable": True, "metadata": {}} for n, of in types.items()]
    text = json.dumps({"type": "struct", "fields": fields})
    return PinnedRecord((number, ()), Schema(number, "STRUCT", text, entity=entity))


OLD_GO, CHESS = pinned(1, "go", game="string"), pinned(3, "chess", game="string", score="string")
GO, LUDO = pinned(2, "go", game="string", score="long"), pinned(4, "ludo", game="string", score="long")
NOBODY = pinned(5, None)


def entity_pins(root: Path, **changes: Any) -> Pins:
    given = {"codec": "json", "route": ROUTE, "records": (OLD_GO, GO, CHESS, LUDO, NOBODY), "by_entity": True}
    return pins(root, **{**given, **changes})


def demuxed(by: Pins, *values: bytes | None, key: bytes | None = None) -> TaskReport:
    task = Demultiplexer(for_workers(by))
    task.take(batch([Sent(value, offset, key=key) for offset, value in enumerate(values)]))
    return task.finish()


def raw(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def seen(by: Pins, report: TaskReport, table: str) -> list[tuple[int, Any]]:
    return [(row["schema_id"], row["score"]) for row in rows_of(by, report, table)]


def test_each_record_is_decoded_by_its_entitys_newest_schema(tmp_path: Path) -> None:
    by = entity_pins(tmp_path)
    values = [raw(game="go", score=1), raw(game="chess", score="1-0"), raw(game="ludo", score=2)]
    report = demuxed(by, *values, raw(game="go", score=3))
    assert seen(by, report, "go") == [(2, 1), (2, 3)]
    assert seen(by, report, "chess") == [(3, "1-0")]
    # Go and ludo are decoded together, and each is told of by its own number.
    assert seen(by, report, "ludo") == [(4, 2)]
    assert report.counts.decoded == {2: 2, 3: 1, 4: 1}
    assert {key: set(folders) for key, folders in report.sightings.met.items()} == {
        (2, ()): {"go"}, (3, ()): {"chess"}, (4, ()): {"ludo"},
    }  # fmt: skip
    assert {(growth.table, growth.schema_id) for growth in report.files.growths} == {
        ("go", 2),
        ("chess", 3),
        ("ludo", 4),
    }


def test_only_the_schema_of_the_entity_that_brought_a_field_is_to_grow(tmp_path: Path) -> None:
    report = demuxed(entity_pins(tmp_path), raw(game="go", score=1, level=2), raw(game="ludo", score=1))
    assert set(report.questions.proposals) == {(2, ())}
    assert [row["offset"] for row in aside_rows(tmp_path, report)] == [0]


def test_an_entity_that_nobody_met_is_asked_for_with_what_its_records_have(tmp_path: Path) -> None:
    report = demuxed(entity_pins(tmp_path), raw(game="Go!", level=2), raw(game="Go!", at=1.5), raw(game="go"))
    ((entity, texts),) = report.questions.unmet.items()
    assert (entity, dict(report.questions.newcomers), len(aside_rows(tmp_path, report))) == (
        "Go!",
        {"Go!": 2},
        2,
    )
    assert {field["name"] for text in texts for field in json.loads(text)["fields"]} == {
        "game",
        "level",
        "at",
    }
    assert not report.questions.records


def test_records_that_are_broken_or_of_nobody_go_the_way_they_always_go(tmp_path: Path) -> None:
    by = entity_pins(tmp_path)
    values = (b"{", raw(score=1), raw(game=["go"]), raw(game=""), None)
    assert demuxed(by, *values).counts.quarantined == {"malformed": 1, "no_entity": 3}
    named = entity_pins(tmp_path, policies=Policies(no_entity=NamedTable(table="strays")))
    assert set(demuxed(named, raw(score=1)).questions.proposals) == {NOBODY.key}
    # Where there is no schema for them yet, it is asked for as everybody's is.
    nobody = demuxed(entity_pins(tmp_path, records=(GO,)), raw(score=1), raw(game="go", score=1))
    assert dict(nobody.questions.records) == {(INFERRED, ()): 1}


@pytest.mark.parametrize("changes", [{"tables_final": True, "new_tables": 0}, {"denied": frozenset({"new"})}])
def test_an_entity_that_may_have_no_table_gets_no_schema(tmp_path: Path, changes: dict[str, Any]) -> None:
    by = entity_pins(tmp_path, **changes)
    report = demuxed(by, raw(game="new", level=1))
    assert (
        report.counts.quarantined,
        report.questions.unmet,
        report.questions.proposals,
    ) == (
        {"table_limit": 1},
        {},
        {},
    )
    assert [row["entity"] for row in rows_of(by, report, QUARANTINE_TABLE)] == ["new"]


def test_keys_tell_an_entity_without_a_look_at_the_payload(tmp_path: Path) -> None:
    by = entity_pins(tmp_path, route=Route(by="key", table="{entity}"))
    report = demuxed(by, raw(score=1), b"{", key=b"go")
    assert seen(by, report, "go") == [(2, 1)]
    assert report.counts.quarantined == {"malformed": 1}


def test_a_record_with_names_made_of_data_keeps_no_other_out(tmp_path: Path) -> None:
    by = entity_pins(tmp_path, max_fields=3)
    made_of_data = raw(game="go", score=1, **{f"k{number}": number for number in range(9)})
    values = [made_of_data, raw(game="go", score=2, level=2), raw(game="ludo", score=1, a=1, b=2)]
    report = demuxed(by, *values)
    (proposed,) = report.questions.proposals[2, ()]
    assert [field["name"] for field in json.loads(proposed)["fields"]] == ["game", "score", "level"]
    # What may not grow waits for nobody: ludo's record has its place, with what has no column beside it.
    assert [row["offset"] for row in aside_rows(tmp_path, report)] == [0, 1]
    assert [row["_rescued_data"] for row in rows_of(by, report, "ludo")] == ['{"a":1,"b":2}']
    assert report.sightings.outgrown == {"ludo": Sighting(1, (TOPIC, 0, 2))}
    grown = entity_pins(tmp_path, max_fields=2)
    report = demuxed(grown, raw(game="Go!", a=1, b=2), raw(game="Go!"))
    assert [json.loads(text)["fields"][0]["name"] for text in report.questions.unmet["Go!"]] == ["game"]


def test_nothing_waits_where_all_was_decided_before(tmp_path: Path) -> None:
    tables = {name: PinnedTable(name, Layout(pa.schema([("score", pa.int64())]))) for name in ("go", "ludo")}
    final = {"tables_final": True, "schemas_final": True, "inferred_final": True, "new_tables": 0}
    by = entity_pins(tmp_path, known=tables, **final)
    report = demuxed(
        by, raw(game="go", score=1, level=2), raw(game="ludo", score=2), raw(game="new"), raw(a=1)
    )
    assert (seen(by, report, "go"), seen(by, report, "ludo")) == ([(2, 1)], [(4, 2)])
    assert [row["_rescued_data"] for row in rows_of(by, report, "go")] == ['{"level":2}']
    assert report.counts.quarantined == {"table_limit": 1, "no_entity": 1}
    assert (
        report.questions.waiting,
        report.questions.unmet,
        report.questions.proposals,
    ) == (0, {}, {})


def test_no_schema_is_asked_for_an_entity_whose_name_is_too_long_for_a_table(tmp_path: Path) -> None:
    by = entity_pins(tmp_path)
    report = demuxed(by, raw(game="x" * 20_001, score=1), raw(game="go", score=1))
    assert (report.questions.unmet, report.questions.newcomers) == ({}, {})
    assert (report.counts.quarantined, report.counts.rows) == ({"table_limit": 1}, {"go": 1})


@pytest.mark.parametrize("known", [True, False])
def test_schemas_that_are_asked_for_are_no_more_than_the_driver_can_hold_of_all_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    monkeypatch.setattr("distributary.ingest.worker.task._MOST_LETTERS", 2_000)
    games = ["go", "chess", "ludo"] if known else ["new", "newer", "newest"]
    task = Demultiplexer(for_workers(entity_pins(tmp_path)))
    for turn in range(20):
        values = [
            raw(game=game, **{f"f{turn}_{number}": 1 for number in range(20)})
            for game in games
            for _ in range(2)
        ]
        task.take(batch([Sent(value, turn * 10 + offset) for offset, value in enumerate(values)]))
    report = task.finish()
    told = [*report.questions.proposals.values(), *report.questions.unmet.values()]
    assert 2_000 < sum(len(text) for texts in told for text in texts) < 5_000
    # All wait, those that nothing is told of too: in the next pass it is their turn.
    assert len(aside_rows(tmp_path, report)) == report.questions.waiting == 120
    assert report.questions.untold
