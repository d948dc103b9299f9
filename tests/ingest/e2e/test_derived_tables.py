"""Tables made of a pipeline's tables on the real broker, held against a recomputation by another program (DuckDB)."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.ingest.e2e.dying import WITHIN_OR_APART, dies
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.test_upkeep import kept_up

from distributary.errors import ConfigError, PipelineError
from distributary.ingest.derived import in_runs
from distributary.ingest.derived.in_runs import DerivedInRuns
from distributary.ingest.derived.refresh import Refreshed, derive
from distributary.ingest.erasure.erase import MADE_OF_OTHERS, Wanted, erase
from distributary.ingest.storage.opening import open_files
from distributary.ingest.tables.log import entry

pytestmark = [pytest.mark.spark, pytest.mark.stack]

COLUMNS = {
    "events": "count(*)",
    "devices": "count(DISTINCT device)",
    "first_event": "min(kafka_ts)",
    "last_offset": "max(kafka_offset)",
    "mean_offset": "avg(kafka_offset)",
    "odd": "count(*) FILTER (WHERE kafka_offset % 2 = 1)",
    "newest": "max_by(kafka_offset, struct(kafka_ts, kafka_offset))",
}

PLAYERS = {"table": "gold_{entity}_players", "aggregate": {"by": ["gamer_id"], "columns": COLUMNS}}

BY_HAND = """
SELECT gamer_id, count(*) AS events, count(DISTINCT device) AS devices, min(kafka_ts) AS first_event,
       max(kafka_offset) AS last_offset, avg(kafka_offset) AS mean_offset,
       count(*) FILTER (WHERE kafka_offset % 2 = 1) AS odd,
       arg_max(kafka_offset, (kafka_ts, kafka_offset)) AS newest
FROM events GROUP BY gamer_id ORDER BY gamer_id
"""


def rows(kit: PipelineKit, folder: str) -> pa.Table:
    return kit.rows(folder)


def by_hand(kit: PipelineKit, query: str, **tables: str) -> list[dict[str, Any]]:
    with duckdb.connect() as base:
        for name, folder in tables.items():
            base.register(name, rows(kit, folder))
        found: list[dict[str, Any]] = base.sql(query).to_arrow_table().to_pylist()
        return found


def assert_players(kit: PipelineKit, game: int) -> None:
    source = kit.folder_of(game)
    have = rows(kit, source.replace("silver", "gold").replace("events", "players"))
    expected = by_hand(kit, BY_HAND, events=source)
    have = have.select(["gamer_id", *COLUMNS]).sort_by("gamer_id")
    assert have.to_pylist() == expected


COUNTED = "SELECT game_name AS game, count(*) AS n FROM every GROUP BY 1"


def all_of(kit: PipelineKit, game: int) -> str:
    return f"TABLE {kit.folder_of(game)}"


def how(done: list[Refreshed]) -> list[str]:
    assert not [one.why for one in done if one.how == "failed"]
    return [one.how for one in done]


def test_what_was_added_is_added_and_equals_all_of_it_worked_out_again(kit: PipelineKit) -> None:
    kit.configured(derive=[PLAYERS])
    kit.simulate(1)
    kit.run()
    for game in range(3):
        assert_players(kit, game)
    assert how(derive(kit.settings, kit.spark)) == ["current"] * 3
    kit.simulate(2, games=4, old_producers=0.3)
    # By this run some is made of what was added, and of the new game of all.
    kit.run()
    for game in range(4):
        assert_players(kit, game)
    assert how(derive(kit.settings, kit.spark)) == ["current"] * 4
    again = derive(kit.settings, kit.spark, whole=True)
    assert how(again) == ["made"] * 4
    for game in range(4):
        assert_players(kit, game)


def test_an_aggregate_reads_what_was_added_alone(kit: PipelineKit) -> None:
    kit.simulate(1, games=1)
    kit.run()
    kit.configured(derive=[PLAYERS])
    assert how(derive(kit.settings, kit.spark)) == ["made"]
    kit.simulate(1, games=1)
    kit.configured(derive=[])
    kit.run()
    kit.configured(derive=[PLAYERS])
    kept_up(kit)
    # Upkeep put all rows into one file meanwhile: those that were added are still there.
    assert how(derive(kit.settings, kit.spark)) == ["added"]
    assert_players(kit, 0)
    # And later they are not, so that all is read.
    kit.configured(derive=[])
    kit.simulate(1, games=1)
    kit.run()
    kept_up(kit)
    cleaned = kit.delta(kit.folder_of(0)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert cleaned
    kit.configured(derive=[PLAYERS])
    assert how(derive(kit.settings, kit.spark)) == ["made"]
    assert_players(kit, 0)


@pytest.mark.folder
def test_rows_that_were_deleted_by_others_count_no_more(kit: PipelineKit) -> None:
    kit.configured(derive=[PLAYERS])
    kit.simulate(1, games=1)
    kit.run()
    DeltaTable(str(kit.root / kit.folder_of(0))).delete("kafka_offset % 3 = 0")
    assert how(derive(kit.settings, kit.spark)) == ["made"]
    assert_players(kit, 0)
    gamer = rows(kit, kit.folder_of(0))["gamer_id"][0].as_py()
    erased = erase(kit.settings, Wanted(f"gamer_id = '{gamer}'"))
    gold = kit.folder_of(0).replace("silver", "gold").replace("events", "players")
    assert [one.left for one in erased.tables if one.table == gold] == [(MADE_OF_OTHERS,)]
    kit.simulate(1, games=1, gamers=1)
    kit.run()
    assert_players(kit, 0)
    kept = {one.table: one for one in kept_up(kit, days=100).tables}
    assert kept[gold].deleted.files > 0
    assert_players(kit, 0)


def test_tables_of_tables_are_made_in_their_order_by_sql_and_by_functions(
    kit: PipelineKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kit.folder / "our_tables.py").write_text(
        "def busiest(spark, tables):\n"
        "    counts = tables['gold_counts']\n"
        "    return counts.orderBy(counts.n.desc(), 'game').limit(1)\n"
    )
    monkeypatch.syspath_prepend(str(kit.folder))
    kit.simulate(1)
    kit.run()
    union = " UNION ALL ".join(f"TABLE names_{game}" for game in range(3))
    named = ", ".join(f"names_{game} AS ({all_of(kit, game)})" for game in range(3))
    counts = f"WITH {named}, every AS ({union}) {COUNTED} -- all;"
    kit.configured(
        derive=[
            {"table": "gold_busiest", "inputs": ["gold_counts"], "python": "our_tables:busiest"},
            {"table": "gold_counts", "inputs": [kit.folder_of(game) for game in range(3)], "sql": counts},
            {
                "table": "gold_{entity}_name",
                "sql": "SELECT {entity} AS entity, count(*) AS n FROM {table}",
                "match": "/.*/",
            },
        ]
    )
    done = derive(kit.settings, kit.spark)
    assert how(done) == ["made"] * 5
    expected = by_hand(kit, "SELECT game, n FROM counts ORDER BY n DESC, game LIMIT 1", counts="gold_counts")
    assert rows(kit, "gold_busiest").to_pylist() == expected
    assert (
        sum(rows(kit, "gold_counts")["n"].to_pylist()) == len(kit.truth.records)
        if hasattr(kit.truth.records, "__len__")
        else True
    )
    for game in range(3):
        name = kit.folder_of(game).replace("silver", "gold").replace("events", "name")
        (one,) = rows(kit, name).to_pylist()
        assert one["n"] == rows(kit, kit.folder_of(game)).num_rows
    # Of an OPTIMIZE nothing follows.
    kept_up(kit)
    assert how(derive(kit.settings, kit.spark)) == ["current"] * 5
    kit.simulate(1)
    kit.run()
    expected = by_hand(kit, "SELECT game, n FROM counts ORDER BY n DESC, game LIMIT 1", counts="gold_counts")
    assert rows(kit, "gold_busiest").to_pylist() == expected


@WITHIN_OR_APART
@pytest.mark.folder
def test_it_is_killed_between_files_and_entry_and_nothing_counts_twice(
    kit: PipelineKit, fail_at: Callable[..., None], apart: bool
) -> None:
    kit.configured(derive=[PLAYERS])
    kit.simulate(1, games=1)
    kit.run()
    table = kit.root / kit.folder_of(0).replace("silver", "gold").replace("events", "players")
    before = DeltaTable(str(table)).version()
    kit.simulate(1, games=1)
    dies(kit, f"amid_deriving:{before}", fail_at, apart=apart)
    assert DeltaTable(str(table)).version() == before
    kit.run()
    assert_players(kit, 0)


def test_one_that_fails_keeps_none_of_the_others_and_is_told_at_the_end(kit: PipelineKit) -> None:
    kit.configured(
        derive=[
            {"table": "gold_bad", "inputs": ["quarantine"], "sql": "SELECT nobody FROM quarantine"},
            {
                "table": "gold_void",
                "inputs": ["quarantine"],
                "sql": "SELECT NULL AS nothing, reason FROM quarantine",
            },
            PLAYERS,
        ]
    )
    kit.simulate(1, games=1, corrupt=0.1)
    with pytest.raises(
        PipelineError, match=r"2 derived tables are not current: gold_bad: .*nobody.*gold_void: .*has no type"
    ):
        kit.run()
    assert_players(kit, 0)
    kit.assert_clean()
    with pytest.raises(ConfigError, match="the settings derive no such table"):
        derive(kit.settings, kit.spark, ["gold_nothing"])


# Lighter: test_one_that_fails_keeps_none_of_the_others_and_is_told_at_the_end; functions and what is tried again are in tests/ingest/derived.
@pytest.mark.heavy
@pytest.mark.folder
def test_a_function_that_fails_ends_no_run_and_what_went_by_is_forgotten(
    kit: PipelineKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kit.folder / "our_failing_tables.py").write_text("def fails(spark, tables):\n    return {}['x']\n")
    monkeypatch.syspath_prepend(str(kit.folder))
    bad = {"table": "gold_bad", "inputs": ["ledger_batches"], "python": "our_failing_tables:fails"}
    kit.configured(derive=[{**bad, "every_seconds": 0}, PLAYERS], limits={"batch_rows": 60})
    kit.simulate(1, games=1)
    with pytest.raises(PipelineError, match=r"1 derived tables are not current: gold_bad: .*KeyError"):
        kit.run()
    assert_players(kit, 0)
    kit.configured(derive=[PLAYERS])
    runs = DerivedInRuns(kit.settings, kit.spark)
    ledger = kit.root / "ledger_batches"
    ledger.rename(kit.folder / "away")
    assert len(runs.finish()) == 1
    (kit.folder / "away").rename(ledger)
    assert runs.finish() == []
    runs.check()
    # Who is told to stop begins no other table.
    assert derive(kit.settings, kit.spark, stopped=lambda: True) == []


@pytest.mark.folder
def test_what_others_made_is_left_alone(kit: PipelineKit) -> None:
    kit.simulate(1, games=1)
    kit.run()
    kit.spark.range(3).write.format("delta").save(str(kit.root / "gold_mine"))
    kit.configured(
        derive=[
            {
                "table": "gold_mine",
                "inputs": ["ledger_batches"],
                "sql": "SELECT count(*) AS n FROM ledger_batches",
            },
            {"table": "gold_later", "inputs": ["silver_later_events"], "sql": "TABLE silver_later_events"},
        ]
    )
    done = derive(kit.settings, kit.spark)
    assert [one.how for one in done] == ["failed", "waits"]
    assert "it is no derived one" in done[0].why
    assert rows(kit, "gold_mine").num_rows == 3


# Lighter: test_a_table_with_other_columns_is_the_same_table_with_what_was_said_of_it (tests/ingest/derived/test_refresh.py).
@pytest.mark.heavy
@pytest.mark.folder
def test_other_settings_make_it_anew_with_other_columns(kit: PipelineKit) -> None:
    kit.configured(derive=[PLAYERS])
    kit.simulate(1, games=1)
    kit.run()
    kit.configured(
        derive=[
            {
                **PLAYERS,
                "aggregate": {
                    "by": ["date(kafka_ts) AS day"],
                    "columns": {"n": "count(*)"},
                    "where": "kafka_offset > 5",
                },
            }
        ]
    )
    assert how(derive(kit.settings, kit.spark)) == ["made"]
    folder = kit.folder_of(0).replace("silver", "gold").replace("events", "players")
    assert rows(kit, folder).column_names == ["day", "n"]
    told = [one["commitInfo"] for one in entry(kit.root / folder, 1) if "commitInfo" in one]
    assert json.loads(told[0]["distributary.derived"])["inputs"].keys() == {kit.folder_of(0)}


# Lighter: tests/ingest/derived/test_in_runs.py says whose turn it is; by the end of a run it is that of all, above.
@pytest.mark.heavy
@pytest.mark.folder
def test_a_run_makes_them_current_after_some_batches(kit: PipelineKit, fail_at: Callable[..., None]) -> None:
    kit.configured(derive=[{**PLAYERS, "every_batches": 2}], limits={"batch_rows": 60})
    kit.simulate(1, games=1, events=300)
    kit.run()
    assert_players(kit, 0)
    folder = kit.folder_of(0).replace("silver", "gold").replace("events", "players")
    assert DeltaTable(str(kit.root / folder)).version() > 0
    # One whose turn it is finds what it is made of, though that has another turn.
    later = {
        "table": "gold_{entity}_all",
        "inputs": [PLAYERS["table"]],
        "sql": "SELECT count(*) AS n FROM gold_{entity}_players",
    }
    kit.configured(derive=[{**PLAYERS, "every_batches": 99}, {**later, "every_batches": 1}])
    done = list[Refreshed]()
    assert DerivedInRuns(kit.settings, kit.spark, tell=done.extend).after_batch() == []
    assert [(one.table, one.how) for one in done] == [(folder.replace("players", "all"), "made")]
    # Amid a reset tables lack rows, which topics and windows would keep.
    checkpoint = open_files(kit.settings.checkpoint, kit.settings.storage)
    checkpoint.put_new("resets/one/begun.json", b"{}")
    with pytest.raises(PipelineError, match="a reset was begun and is not done"):
        derive(kit.settings, kit.spark)
    checkpoint.put_new("resets/one/done.json", b"{}")
    assert "failed" not in how(derive(kit.settings, kit.spark))


@pytest.mark.folder
def test_what_the_last_batch_brought_is_there_though_no_other_one_comes(
    kit: PipelineKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = threading.Event()

    def heard(*given: Any, **named: Any) -> list[Refreshed]:
        done = derive(*given, **named)
        if "made" in how(done):
            made.set()
        return done

    monkeypatch.setattr(in_runs, "derive", heard)
    monkeypatch.setattr(in_runs, "_EVERY_SECONDS", 0.2)
    kit.configured(derive=[{**PLAYERS, "every_batches": 99}])
    with kit.running() as run:
        kit.simulate(1, games=1)
        run.wait_for(1)
        assert made.wait(60)
        assert_players(kit, 0)
        # Batches go on behind it.
        kit.simulate(1, games=1, events=50)
        run.wait_for(51)


def test_a_run_without_a_record_ends_well_and_what_is_derived_waits(kit: PipelineKit) -> None:
    rule = {"table": "gold_lost", "inputs": ["quarantine"], "sql": "SELECT count(*) AS n FROM quarantine"}
    kit.configured(derive=[rule, PLAYERS])
    kit.run()
    assert how(derive(kit.settings, kit.spark)) == ["waits"]


def test_a_checkpoint_that_took_tables_over_makes_of_them_what_is_derived_though_nothing_comes(
    kit: PipelineKit,
) -> None:
    """As of a topic that stands still, whose last batch the earlier one has brought without."""
    kit.simulate(1, games=1)
    kit.run()
    kit.configured(derive=[PLAYERS], checkpoint="./checkpoints/second", start="from_tables")
    assert kit.run().summary.rows == 0
    assert_players(kit, 0)
    assert how(derive(kit.settings, kit.spark)) == ["current"]
