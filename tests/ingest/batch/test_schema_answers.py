from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.ingest import kafka_records as records
from tests.ingest.pipelines import checkpoint, registry, schema_book, settings

from distributary.errors import EvolutionStopped
from distributary.ingest.batch.restart import RestartToEvolve
from distributary.ingest.batch.schema_answers import SchemaAnswers
from distributary.ingest.columns.layout import Layout
from distributary.ingest.pins import PinnedTable, RecordKey, Verdict
from distributary.ingest.running.rules import run_rules
from distributary.ingest.worker.report import Questions

A = pa.schema([("a", pa.int64())])


def answers(root: Path, known: dict[str, PinnedTable] | None = None, **groups: Any) -> SchemaAnswers:
    chosen = settings(root, **groups)
    schemas = schema_book(checkpoint(root), registry())
    return SchemaAnswers(run_rules(chosen), known or {}, schemas)


def asked(counts: dict[RecordKey, int]) -> Questions:
    return Questions(records=Counter(counts))


def test_an_unknown_type_that_brings_columns_makes_the_query_start_again_with_it_pinned(
    tmp_path: Path,
) -> None:
    over = answers(tmp_path, {"t": PinnedTable("t", Layout(A))})
    total = asked({(2, (0,)): 5})
    with pytest.raises(RestartToEvolve, match="schema 2 brings event_id"):
        over.answered(total, records.pins(tmp_path), last=False)
    after = schema_book(checkpoint(tmp_path), registry())
    after.open([])
    assert [pinned.key for pinned in after.records] == [(2, (0,))]


def test_another_message_of_a_schema_that_was_met_is_no_deployment(tmp_path: Path) -> None:
    text = 'syntax = "proto3"; message First { int64 a = 1; } message Second { int64 b = 1; } message Third { int64 c = 1; }'
    known = registry()
    schema_id = known.register("others-value", text, "PROTOBUF")
    over = SchemaAnswers(
        run_rules(settings(tmp_path)),
        {"t": PinnedTable("t", Layout(A))},
        schema_book(checkpoint(tmp_path), known),
    )
    spent = []
    for place in range(3):
        with pytest.raises(RestartToEvolve) as evolved:
            over.answered(asked({(schema_id, (place,)): 5}), records.pins(tmp_path), last=False)
        spent.append(evolved.value.deployed)
    assert spent == [True, False, False]


def test_in_line_the_type_is_pinned_and_what_nobody_knows_is_refused(tmp_path: Path) -> None:
    over = answers(tmp_path, {"t": PinnedTable("t", Layout(A))}, decode={"evolution": "inline"})
    total = asked({(2, (0,)): 5, (77, (0,)): 1})
    answered = over.answered(total, records.pins(tmp_path, records=()), last=False)
    assert [pinned.key for pinned in answered.schemas.records] == [(2, (0,))]
    assert answered.schemas.refused == {
        (77, (0,)): Verdict("unknown_schema", "the registry knows no schema 77")
    }
    assert not answered.turn.schemas_final
    assert not answered.turn.count_input


def test_schemas_that_are_known_are_asked_for_however_many_and_unknown_ones_up_to_a_bound(
    tmp_path: Path,
) -> None:
    over = answers(tmp_path, registry={"url": "http://127.0.0.1:1", "max_unknown_ids": 2})
    pins = records.pins(tmp_path, records=())
    known = asked({(1, (0,)): 9, (2, (0,)): 8, (3, (0,)): 7})
    assert not (pins := over.answered(known, pins, last=False)).turn.schemas_final
    assert not (pins := over.answered(asked({(77, (0,)): 1}), pins, last=False)).turn.schemas_final
    assert over.answered(asked({(78, (0,)): 1}), pins, last=False).turn.schemas_final


def test_an_evolution_stops_the_run_where_the_settings_say_so(tmp_path: Path) -> None:
    over = answers(tmp_path, {"t": PinnedTable("t", Layout(A))}, decode={"evolution": "fail"})
    with pytest.raises(EvolutionStopped, match=r"schema 2 brings event_id.*`fail`"):
        over.answered(asked({(2, (0,)): 5}), records.pins(tmp_path), last=False)


def test_where_no_table_is_there_yet_nothing_evolves(tmp_path: Path) -> None:
    over = answers(tmp_path)
    answered = over.answered(asked({(2, (0,)): 5}), records.pins(tmp_path), last=False)
    assert [pinned.key for pinned in answered.schemas.records] == [(2, (0,))]


def test_only_the_most_frequent_types_are_asked_for(tmp_path: Path) -> None:
    over = answers(tmp_path, registry={"max_unknown_ids": 1})
    total = asked({(77, (0,)): 1, (78, (0,)): 2})
    answered = over.answered(total, records.pins(tmp_path), last=False)
    assert set(answered.schemas.refused) == {(78, (0,))}


def test_where_nothing_may_be_asked_nothing_waits_for_an_answer(tmp_path: Path) -> None:
    over = answers(tmp_path, registry={"max_unknown_ids": 0})
    assert over.answered(asked({}), records.pins(tmp_path), last=False).turn.schemas_final
