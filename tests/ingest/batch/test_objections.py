from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.ingest import kafka_records as records
from tests.ingest.avro_records import GAME, event, one, pinned
from tests.ingest.pipelines import (
    make_table,
    rules_for,
    settings,
    table_book,
    written,
)

from distributary.errors import EvolutionStopped, PolicyStopped
from distributary.ingest.batch.objections import Objections
from distributary.ingest.batch.written_layouts import layouts
from distributary.ingest.columns.growth import changes
from distributary.ingest.columns.layout import Layout
from distributary.ingest.pins import PinnedTable, Pins, Verdict
from distributary.ingest.worker.report import Growth, TaskReport, Wish

A, B, AB, BA, UPPER = (
    pa.schema([(name, kind) for name, kind in columns])
    for columns in (
        [("a", pa.int64())],
        [("b", pa.string())],
        [("a", pa.int64()), ("b", pa.string())],
        [("b", pa.string()), ("a", pa.int64())],
        [("A", pa.string())],
    )
)


def objections(root: Path, known: dict[str, PinnedTable] | None = None, **groups: Any) -> Objections:
    return Objections(rules_for(settings(root, **groups)), table_book(root), known or {})


def report(*files: Any, **fields: Any) -> TaskReport:
    return records.task_report(written=list(files), **fields)


def test_files_that_go_together_are_no_reason_to_begin_again(tmp_path: Path) -> None:
    assert (
        objections(tmp_path).objection(report(written("t", A), written("t", AB)), records.pins(tmp_path))
        is None
    )


def test_a_new_tables_column_keeps_the_name_that_it_got_for_the_sake_of_kafkas(tmp_path: Path) -> None:
    field = pa.field("schema_id_0", pa.int64(), metadata={"distributary.source": "schema_id"})
    total, by = report(written("t", pa.schema([field]))), records.pins(tmp_path)
    assert objections(tmp_path).objection(total, by) is None
    assert layouts(total, by)["t"].names == ["schema_id_0"]


def test_tasks_that_named_columns_differently_begin_again_with_one_layout(tmp_path: Path) -> None:
    lower = pa.schema(
        [("a", pa.int64()), pa.field("A__1", pa.string(), metadata={"distributary.source": "A"})]
    )
    total, by = report(written("t", UPPER), written("t", lower)), records.pins(tmp_path)
    again = objections(tmp_path).objection(total, by)
    assert again is not None
    assert again.tables.known["t"].layout.names[0] == "A"


def test_tasks_that_met_different_types_begin_again_with_the_first_ones(tmp_path: Path) -> None:
    total = report(written("t", pa.schema([("a", pa.string())])), written("t", A))
    again = objections(tmp_path).objection(total, records.pins(tmp_path))
    assert again is not None
    assert again.tables.known["t"].layout.columns.field("a").type == pa.string()


def test_a_table_that_somebody_made_meanwhile_decides_what_its_columns_are(tmp_path: Path) -> None:
    make_table(tmp_path, "t", pa.schema([("a", pa.string())]))
    again = objections(tmp_path).objection(report(written("t", A)), records.pins(tmp_path))
    assert again is not None
    assert again.tables.known["t"].layout.columns.field("a").type == pa.string()


def test_a_table_that_somebody_made_meanwhile_and_that_fits_is_taken_as_it_is(tmp_path: Path) -> None:
    make_table(tmp_path, "t", B)
    assert objections(tmp_path).objection(report(written("t", A)), records.pins(tmp_path)) is None


def test_the_largest_new_tables_are_kept_where_there_is_room_for_some_only(tmp_path: Path) -> None:
    over = objections(tmp_path, {"old": PinnedTable("old", Layout(A))}, route={"max_tables": 3})
    files = [
        written(name, A, rows) for name, rows in (("few", 1), ("b", 5), ("many", 9), ("a", 5), ("few", 2))
    ]
    again = over.objection(report(*files), records.pins(tmp_path))
    assert again is not None
    assert again.tables.admitted == {"many", "a"}
    assert again.tables.denied == {"few", "b"}
    assert (again.tables.new_tables, again.turn.tables_final) == (0, True)


def test_the_table_for_records_without_an_entity_counts_as_none(tmp_path: Path) -> None:
    strict = {"new_entity": "fail", "no_entity": {"table": "strays"}}
    by = records.pins(tmp_path)
    for policies in (strict, {**strict, "new_entity": "quarantine"}):
        over = objections(
            tmp_path, {"old": PinnedTable("old", Layout(A))}, route={"max_tables": 1}, policies=policies
        )
        total = report(written("strays", A), written("old", A))
        assert over.objection(total, by) is None
        over.check_policies(total, by)
    over = objections(
        tmp_path, {"strays": PinnedTable("", Layout(A))}, route={"max_tables": 1}, policies=strict
    )
    assert over.new_tables.room() == 1


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 4), st.integers(0, 4)), max_size=12),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
@hypothesis_settings(max_examples=examples(25), deadline=None)
def test_what_is_decided_does_not_depend_on_which_task_reported_first(
    files: list[tuple[str, int, int]], room: int, order: random.Random
) -> None:
    """Which tables are kept is a matter of rows; layouts at odds are settled once, and then hold everything."""
    layouts = (A, B, AB, BA, A)
    with TemporaryDirectory() as folder:
        over = objections(Path(folder), route={"max_tables": room})
        by = records.pins(Path(folder))
        decided = []
        for _ in range(2):
            order.shuffle(files)
            total = TaskReport()
            for name, rows, layout in files:
                total.add(report(written(name, layouts[layout], rows)))
            again = over.objection(total, by)
            decided.append(again and (again.tables.admitted, again.tables.denied))
            if again is not None and not again.tables.denied:
                for name, _, layout in files:
                    table = again.tables.known.get(name)
                    assert table is None or not changes(table.layout.columns, layouts[layout])
        assert decided[0] == decided[1]


def test_a_stop_that_a_worker_met_ends_the_batch(tmp_path: Path) -> None:
    with pytest.raises(PolicyStopped, match="batch 7: table t: no"):
        objections(tmp_path).objection(report(stops=["table t: no"]), records.pins(tmp_path))


@pytest.mark.parametrize(
    ("policies", "total", "why"),
    [
        ({"new_entity": "fail"}, report(written("new", A)), "a new entity came"),
        ({"no_entity": "fail"}, report(quarantined=Counter(no_entity=2)), "no value.*2 no_entity"),
        ({"undecodable": "fail"}, report(quarantined=Counter(malformed=1)), "cannot be decoded.*1 malformed"),
        ({"undecodable": "fail"}, report(quarantined=Counter(unknown_schema=1)), "cannot be decoded"),
    ],
)
def test_what_the_settings_call_a_failure_stops_the_run(
    tmp_path: Path, policies: dict[str, str], total: TaskReport, why: str
) -> None:
    with pytest.raises(PolicyStopped, match=why):
        objections(tmp_path, policies=policies).check_policies(total, records.pins(tmp_path))


def test_records_that_were_decoded_but_do_not_fit_their_table_are_not_called_undecodable(
    tmp_path: Path,
) -> None:
    fits = ("wider_type", "incompatible_type", "no_entity", "table_limit", "constraint", "delete_condition")
    found = Counter((*fits, "null_key", "null_sequence", "partition", "columns"))
    strict = objections(tmp_path, policies={"undecodable": "fail"})
    strict.check_policies(report(quarantined=found), records.pins(tmp_path))


@pytest.mark.parametrize(
    ("groups", "error"),
    [
        ({"decode": {"evolution": "fail"}}, EvolutionStopped),
        ({"policies": {"new_field": "fail"}}, PolicyStopped),
    ],
)
def test_a_table_that_would_grow_stops_the_run_where_the_settings_say_so(
    tmp_path: Path, groups: dict[str, Any], error: type[Exception]
) -> None:
    known = {"t": PinnedTable("t", Layout(A))}
    by = records.pins(tmp_path, known=known)
    grown = Growth("t", (2, (0,)), 2, (records.TOPIC, 1, 17))
    total = report(written("t", AB), growths=[grown])
    with pytest.raises(error, match=r"table t: schema 2 brings b, first at game-events/1/17"):
        objections(tmp_path, known, **groups).check_policies(total, by)
    objections(tmp_path, known).check_policies(total, by)


def test_what_a_table_does_not_take_is_read_again_without_it_or_stops_the_run(tmp_path: Path) -> None:
    old, new = pinned(event(1, GAME, one("int", "level")), event(2, GAME))
    known = {"t": PinnedTable("t", Layout(A)), "u": PinnedTable("u", Layout(A))}
    history = (old.key,)
    by = records.pins(
        tmp_path, codec="avro", records=(old, new), known=known, met={"t": history, "u": history}
    )

    def total() -> TaskReport:
        met = {new.key: dict.fromkeys(known, (records.TOPIC, 1, 17))}
        growths = [Growth(name, new.key, 2, (records.TOPIC, 1, 17)) for name in known]
        # What a worker met of it counts for nothing where the table does not take it.
        return report(written("u", A), met=met, growths=growths, stops=["table t: something"])

    def objected(policy: str) -> tuple[Pins | None, TaskReport]:
        own = [{"match": "t", "policies": {"dropped_field": policy}}]
        reported = total()
        return objections(tmp_path, known, tables=own).objection(reported, by), reported

    again, reported = objected("quarantine")
    assert again is not None
    why = "field level is gone with schema 2, and tables[0].policies.dropped_field is `quarantine`"
    assert again.turn.vetoed == {"t": {new.key: Verdict("schema_change", why)}}
    assert [growth.table for growth in reported.files.growths] == ["u"]
    assert by.turn.vetoed == {}
    with pytest.raises(PolicyStopped, match=r"table t: field level is gone .* first at game-events/1/17"):
        objected("fail")
    with pytest.raises(PolicyStopped, match="table t: something"):
        objected("keep")


def test_whether_a_table_that_would_grow_stops_the_run_its_own_rule_says(tmp_path: Path) -> None:
    known = {"t": PinnedTable("t", Layout(A)), "u": PinnedTable("u", Layout(A))}
    by = records.pins(tmp_path, known=known)
    total = {
        name: report(written(name, AB), growths=[Growth(name, (2, (0,)), 2, (records.TOPIC, 1, 17))])
        for name in known
    }
    lax = {"tables": [{"match": "t", "policies": {"new_field": "add"}}], "policies": {"new_field": "fail"}}
    strict = {"tables": [{"match": "t", "policies": {"new_field": "fail"}}]}
    objections(tmp_path, known, **lax).check_policies(total["t"], by)
    objections(tmp_path, known, **strict).check_policies(total["u"], by)
    with pytest.raises(PolicyStopped, match=r"table u: .* policies\.new_field is `fail`"):
        objections(tmp_path, known, **lax).check_policies(total["u"], by)
    with pytest.raises(PolicyStopped, match=r"table t: .* tables\[0\]\.policies\.new_field is `fail`"):
        objections(tmp_path, known, **strict).check_policies(total["t"], by)


NARROW = pa.schema([("a", pa.int32())])


def test_tables_are_written_again_as_wide_as_their_records_ask_the_oldest_schema_first(
    tmp_path: Path,
) -> None:
    whole, real, decimal = (
        Layout(pa.schema([("a", dtype), ("b", pa.string())]))
        for dtype in (pa.int64(), pa.float64(), pa.decimal128(20, 0))
    )
    known = {
        name: PinnedTable(name, Layout(NARROW), frozenset({"a"} if name == "u" else ())) for name in "tu"
    }
    over = objections(tmp_path, known, policies={"wider_type": "widen"})
    by = records.pins(tmp_path, known=known)
    wishes = [
        Wish("t", "t", (10, ()), real),
        Wish("t", "t", (2, ()), whole),
        Wish("t", "t", (11, ()), decimal),
        Wish("new", "new", (2, ()), whole),
    ]
    total = report(written("t", NARROW), written("u", NARROW), written("new", AB), wishes=wishes)

    again = over.objection(total, by)

    assert again is not None
    assert {name: table.layout for name, table in again.tables.known.items()} == {
        # A double does not hold every long, so there was no place for it.
        "t": decimal,
        "u": Layout(NARROW),
        "new": whole,
    }
    assert again.tables.known["u"].fixed == {"a"}
    assert over.objection(report(written("t", NARROW)), by) is None


def test_a_column_that_would_become_wider_stops_the_run_where_the_settings_say_so(tmp_path: Path) -> None:
    known, groups = {"t": PinnedTable("t", Layout(NARROW))}, {"wider_type": "widen", "new_field": "fail"}
    wide = PinnedTable("t", Layout(pa.schema([("a", pa.int64())])))
    by = records.pins(tmp_path, known={"t": wide})
    total = report(
        written("t", wide.layout.columns), growths=[Growth("t", (2, (0,)), 2, (records.TOPIC, 1, 17))]
    )
    objections(tmp_path, known, policies=groups).check_policies(total, by)
    strict = objections(tmp_path, known, policies=groups, decode={"evolution": "fail"})
    with pytest.raises(EvolutionStopped, match=r"table t: schema 2 brings a, first at game-events/1/17"):
        strict.check_policies(total, by)
