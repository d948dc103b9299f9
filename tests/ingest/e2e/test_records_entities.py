"""Which table a record goes to: how many there may be, what they are called, and what becomes of records without one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.ingest.e2e.handmade import (
    EVENT,
    Schema,
    assert_each_record_in_one_place,
    column,
    quarantined,
    reasons,
    registered,
    registered_beside,
)
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.errors import PolicyStopped
from distributary.ingest.columns.safe_names import RESERVED_TABLES, table_name

pytestmark = [pytest.mark.spark, pytest.mark.stack]

TEMPLATE = "silver_{entity}_events"
HOSTILE_NAMES = [
    "../../x",
    "..",
    ".",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "C:\\x",
    "con",
    "quarantine",
    "ledger_batches",
    "_delta_log",
    " ",
    "a b",
    "a\nb",
    "a\0b",
    "%2e%2e%2f",
    "{entity}",
    "$(reboot)",
    "'; drop table x; --",
    "schach♟",
    "шахматы",
    "\u202egnp",
    "x" * 10_000,
    "x" * 10_001,
    "Chess",
    "chess",
    "CHESS",
    "\u017fchach",
    "schach",
    "chess_0123456789abcdef",
    *(f"../{n}/{'x' * (n % 90)}" for n in range(150)),
]


def folders(kit: PipelineKit) -> set[str]:
    # Who owns the tables is told beside them.
    return set(kit.lake.root.folders()) - RESERVED_TABLES - {".distributary"}


def paths_beside(kit: PipelineKit) -> set[Path]:
    root = Path(kit.lake.root.url)
    return {path for path in kit.folder.rglob("*") if root not in (path, *path.parents)}


# Those that lead out of the root, that are ours, that differ in case alone, and one too long for a file's name.
SHORT = ("../../x", "/etc/passwd", "a\0b", "quarantine", "_delta_log", "x" * 10_000, "Chess", "chess", " ")


# Two hundred tables each: `make test` has the short list, and all names in tests/ingest/columns/test_safe_names.py.
@pytest.mark.parametrize(
    ("fold_case", "names"),
    [
        pytest.param(True, SHORT, id="short"),
        pytest.param(True, HOSTILE_NAMES, marks=pytest.mark.heavy, id="folded"),
        pytest.param(False, HOSTILE_NAMES, marks=pytest.mark.heavy, id="as they are"),
    ],
)
def test_hostile_names_get_tables_inside_the_root_each_value_its_own(
    kit: PipelineKit, fold_case: bool, names: Sequence[str]
) -> None:
    schema = registered(kit)
    kit.configured(route={"fold_case": fold_case, "max_tables": 5000})
    values = [schema.value(game=name, player=name[:200]) for name in names]
    kit.send(values)
    kit.send(values[::2], partition=1)
    kit.run()
    expected: dict[str, Counter[str]] = {}
    for place, name in enumerate(names):
        table = table_name(TEMPLATE, name, fold_case)
        expected.setdefault(table, Counter())[name] += 2 - place % 2

    assert folders(kit) == set(expected)
    assert not [path for path in paths_beside(kit) if path.suffix == ".parquet"]
    for table, held in expected.items():
        assert Counter(kit.rows(table).column("game").to_pylist()) == held
    assert len(expected) == len({name.casefold() for name in names} if fold_case else names)
    assert_each_record_in_one_place(kit)


def test_max_tables_bounds_what_two_tasks_make_together_and_the_rest_is_quarantined(kit: PipelineKit) -> None:
    schema = registered(kit)
    kit.configured(route={"max_tables": 3})
    # Each task may make three; together they would have six. The most frequent entities get the tables.
    kit.send([schema.value(game=name) for name in "aaaabbbccd"])
    kit.send([schema.value(game=name) for name in "eeeeffh"], partition=1)
    kit.run()

    assert folders(kit) == {kit.folder_of(name) for name in "aeb"}
    assert reasons(kit) == {"table_limit": 2 + 1 + 2 + 1}
    assert [row["entity"] for row in quarantined(kit)] == ["c", "c", "d", "f", "f", "h"]

    # The limit holds over batches, for known entities it is none.
    kit.send([schema.value(game=name) for name in "abz"])
    kit.run()
    assert folders(kit) == {kit.folder_of(name) for name in "aeb"}
    assert len(column(kit, "a", "game")) == 5
    assert reasons(kit) == {"table_limit": 7}
    assert_each_record_in_one_place(kit)


# Lighter: test_max_tables_bounds_what_two_tasks_make_together_and_the_rest_is_quarantined.
@pytest.mark.heavy
def test_thousands_of_entities_beyond_the_limit_cost_no_record(kit: PipelineKit) -> None:
    schema = registered(kit)
    kit.configured(route={"max_tables": 2})
    kit.send([schema.value(game="chess")] * 30)
    kit.send([schema.value(game=f"hostile {n}") for n in range(12_000)])
    kit.send([schema.value(game="go")] * 20, partition=1)
    kit.run()

    assert folders(kit) == {kit.folder_of("chess"), kit.folder_of("go")}
    assert reasons(kit) == {"table_limit": 12_000}
    assert_each_record_in_one_place(kit)


# Lighter: test_every_record_ends_in_exactly_one_place_and_the_counts_say_so (tests/ingest/worker/test_demux.py) draws either policy.
@pytest.mark.parametrize("policy", ["quarantine", pytest.param("drop", marks=pytest.mark.heavy)])
def test_records_without_an_entity_are_quarantined_or_dropped_and_counted(
    kit: PipelineKit, policy: str
) -> None:
    schema = registered(kit)
    kit.configured(policies={"no_entity": policy})
    kit.send([schema.value(game="chess"), schema.value(player="lost"), schema.value(game="", player="lost")])

    summary = kit.run().summary

    assert (summary.rows, summary.written) == (3, 1)
    assert (summary.quarantined, summary.dropped) == ((2, 0) if policy == "quarantine" else (0, 2))
    assert reasons(kit) == ({"no_entity": 2} if policy == "quarantine" else {})
    assert_each_record_in_one_place(kit)


# Lighter: the next test, and test_records_without_an_entity_go_to_the_table_that_is_named_for_them (tests/ingest/worker/test_demux.py).
@pytest.mark.heavy
def test_records_without_an_entity_go_to_the_table_that_the_settings_name(kit: PipelineKit) -> None:
    schema = registered(kit)
    kit.configured(policies={"no_entity": {"table": "homeless"}})
    kit.send([schema.value(game="chess", player="a"), schema.value(player="lost")])
    kit.send([schema.value(player="lost too")], partition=1)
    kit.run()
    kit.send([schema.value(player="lost again")])
    kit.run()

    assert sorted(kit.rows("homeless").column("player").to_pylist()) == ["lost", "lost again", "lost too"]
    assert column(kit, "chess", "player") == ["a"]
    assert_each_record_in_one_place(kit)


# A new entity stops such a run in test_a_new_entity_stops_the_run_where_the_settings_say_so_and_is_named.
@pytest.mark.parametrize(
    "settings",
    [
        {"route": {"max_tables": 1}},
        pytest.param({"policies": {"new_entity": "fail"}}, marks=pytest.mark.heavy),
    ],
)
def test_the_table_for_records_without_an_entity_is_none_of_those_that_are_limited(
    kit: PipelineKit, settings: dict[str, dict[str, object]]
) -> None:
    schema = registered(kit)
    kit.send([schema.value(game="chess")])
    kit.run()
    kit.configured(policies={"no_entity": {"table": "homeless"}}).configured(**settings)
    kit.send([schema.value(game="chess", player="a"), schema.value(player="lost")])
    kit.run()

    assert kit.rows("homeless").column("player").to_pylist() == ["lost"]
    assert len(column(kit, "chess", "player")) == 2
    assert quarantined(kit) == []


# Lighter: test_what_the_settings_call_a_failure_stops_the_run (tests/ingest/batch/test_objections.py), and a new entity that stops a run below.
@pytest.mark.heavy
def test_no_entity_stops_the_run_where_the_settings_say_so(kit: PipelineKit) -> None:
    schema = registered(kit)
    kit.configured(policies={"no_entity": "fail"})
    kit.send([schema.value(game="chess"), schema.value(player="lost")])

    with pytest.raises(PolicyStopped, match=rf"policies.no_entity.*{kit.topic}/0/1"):
        kit.run()

    assert kit.versions() == {}
    assert kit.unnamed_files() == set()


# Lighter: test_new_entities_that_go_to_quarantine_need_no_room (tests/ingest/batch/test_new_tables.py), and those beyond max_tables above.
@pytest.mark.heavy
def test_new_entities_are_quarantined_where_the_settings_say_so(kit: PipelineKit) -> None:
    schema = registered(kit)
    kit.send([schema.value(game="chess")])
    kit.run()
    kit.configured(policies={"new_entity": "quarantine"})
    kit.send([schema.value(game="go"), schema.value(game="chess"), schema.value(game="ludo")])
    kit.run()

    assert folders(kit) == {kit.folder_of("chess")}
    assert len(column(kit, "chess", "game")) == 2
    assert reasons(kit) == {"table_limit": 2}
    assert_each_record_in_one_place(kit)


def test_a_new_entity_stops_the_run_where_the_settings_say_so_and_is_named(kit: PipelineKit) -> None:
    schema = registered(kit)
    kit.send([schema.value(game="chess")])
    kit.run()
    before = kit.versions()
    kit.configured(policies={"new_entity": "fail"})
    kit.send([schema.value(game="chess"), schema.value(game="go")])

    with pytest.raises(PolicyStopped, match=rf"{kit.folder_of('go')}.*policies.new_entity"):
        kit.run()

    assert kit.versions() == before
    assert folders(kit) == {kit.folder_of("chess")}


@pytest.mark.parametrize(
    ("kind", "values", "tables"),
    [
        ("bytes", ["Y2hlc3M=", "/w=="], ["chess"]),
        # The text of each type is tested in tests/ingest/routing.
        pytest.param("int64", [7, -7], ["7", "-7"], marks=pytest.mark.heavy),
        pytest.param("bool", [True], ["true"], marks=pytest.mark.heavy),
    ],
)
def test_a_routing_field_that_is_no_text_routes_by_its_text(
    kit: PipelineKit, kind: str, values: list[object], tables: list[str]
) -> None:
    text = EVENT.replace("string game", f"{kind} game")
    schema = registered(kit, text)
    kit.send([schema.value(game=value) for value in values])
    kit.run()

    assert folders(kit) == {kit.folder_of(name) for name in tables}
    assert reasons(kit) == ({"no_entity": 1} if kind == "bytes" else {})
    assert_each_record_in_one_place(kit)


# Lighter: test_where_each_record_belongs (tests/producer_sim/verify/test_routes.py) has a nested field, test_routes.py one with JSON.
@pytest.mark.heavy
def test_a_nested_routing_field_routes_and_a_schema_without_it_has_no_entity(kit: PipelineKit) -> None:
    nested = 'syntax = "proto3"; message Event { Head head = 1; message Head { string game = 1; } }'
    schema = registered(kit, nested)
    flat: Schema = registered_beside(kit, EVENT)
    kit.configured(route={"field": "head.game"})
    kit.send([schema.value(head={"game": "chess"}), schema.value(head={}), schema.value(), flat.value()])
    kit.run()

    assert column(kit, "chess", "head") == [{"game": "chess"}]
    assert reasons(kit) == {"no_entity": 3}
    assert_each_record_in_one_place(kit)
