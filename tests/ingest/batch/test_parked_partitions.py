"""Parked tables in partitions: what comes, and the table made anew, go by the files that wait, whatever the rules say by then."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from tests.ingest import queries
from tests.ingest.kafka_records import Sent
from tests.ingest.pipelines import settings
from tests.ingest.queries import GOLF, Query, value

from distributary.errors import ConfigError
from distributary.ingest import failpoints
from distributary.ingest.resolve import resolve
from distributary.ingest.routing.conditions import conditions_ahead
from distributary.ingest.running.rules import run_rules
from distributary.ingest.tables.known import MadeWith

GONE = "score > 10"
UPSERT = {"match": "golf", "mode": "upsert", "keys": ["score", "level"]}
WITH_DELETES = {**UPSERT, "deletes": {"when": GONE}}


def begun(root: Path, rule: Mapping[str, Any], sent: Sequence[Sent] = ()) -> Query:
    """A run by this rule, which has finished what it found, of these records where they are read again."""
    query = Query(root, tables=[rule], policies={"stuck_table": "park"}, decode={"evolution": "inline"})
    run, book = query.runner.attempts.run, settings(root, tables=[rule]).rule_book()
    run.tables.made_with = MadeWith(spec_of=book.of, topics=run.generation.world.topics, by_text=False)
    query.resume(sent)
    return query


def golf(offset: int, score: int) -> list[Sent]:
    return [Sent(value(1, game_name="golf", score=score, level=1), offset)]


def without_log(monkeypatch: pytest.MonkeyPatch, root: Path, batch: Callable[[], object]) -> Path:
    """Where the table's log is that somebody took away amid a batch, which is parked by that."""
    log, aside = root / "lake" / GOLF / "_delta_log", root / "aside"

    def reached(point: str, _: int) -> None:
        if point == failpoints.AFTER_MANIFEST:
            shutil.move(log, aside)

    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "reach", reached)
        batch()
    return aside


@pytest.mark.parametrize("how", ["put back", "made anew"])
def test_behind_deletes_alone_what_comes_is_partitioned_as_what_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """By their batch, the newest that waits, the table was taken for one that is in no partitions."""
    conditions = conditions_ahead([("deletes", GONE)])
    monkeypatch.setattr(queries, "run_rules", partial(run_rules, conditions=conditions))
    query = begun(tmp_path, {**WITH_DELETES, "partition_by": ["score"]})
    query.batch(0, golf(0, score=1))
    aside = without_log(monkeypatch, tmp_path, lambda: query.batch(1, golf(1, score=2)))
    query.batch(2, golf(2, score=12))
    assert not query.done[-1].manifest.table(GOLF).files
    begun(tmp_path, WITH_DELETES).batch(3, golf(3, score=3))
    if how == "put back":
        shutil.move(aside, tmp_path / "lake" / GOLF / "_delta_log")
    else:
        resolve(settings(tmp_path, tables=[WITH_DELETES]), GOLF, "recreate")
    assert begun(tmp_path, WITH_DELETES).log.so_far.parked == {}
    table = DeltaTable(tmp_path / "lake" / GOLF)
    assert table.metadata().partition_columns == ["score"]
    rows = pa.table(QueryBuilder().register("it", table).execute("SELECT score FROM it").read_all())
    assert sorted(rows["score"].to_pylist()) == ([1, 2, 3] if how == "put back" else [2, 3])


def test_where_only_deletes_wait_what_comes_is_partitioned_as_the_table_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        queries, "run_rules", partial(run_rules, conditions=conditions_ahead([("deletes", GONE)]))
    )
    query = begun(tmp_path, {**WITH_DELETES, "partition_by": ["score"]})
    query.batch(0, golf(0, score=1))
    aside = without_log(monkeypatch, tmp_path, lambda: query.batch(1, golf(1, score=12)))
    shutil.move(aside, tmp_path / "lake" / GOLF / "_delta_log")
    assert query.log.so_far.parked.keys() == {GOLF}
    query.batch(2, golf(2, score=2))
    assert query.done[-1].manifest.table(GOLF).partitions == ("score",)
    assert begun(tmp_path, WITH_DELETES).log.so_far.parked == {}


def test_a_table_that_deletes_alone_have_made_gets_its_partitions_though_a_delete_waits_behind_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the delete, the newest that waits, it got the column in no partitions, and could never take the rows."""
    monkeypatch.setattr(
        queries, "run_rules", partial(run_rules, conditions=conditions_ahead([("deletes", GONE)]))
    )
    rule = {**WITH_DELETES, "partition_by": ["season"]}
    query = begun(tmp_path, rule)
    query.batch(0, golf(0, score=11))
    assert DeltaTable(tmp_path / "lake" / GOLF).metadata().partition_columns == []
    aside = without_log(monkeypatch, tmp_path, lambda: query.batch(1, golf(1, score=12)))
    query.batch(2, [Sent(value(2, game_name="golf", score=1, level=1, season="x"), 2)])
    assert query.done[-1].manifest.table(GOLF).partitions == ("season",)
    query.batch(3, golf(3, score=13))
    assert not query.done[-1].manifest.table(GOLF).files
    shutil.move(aside, tmp_path / "lake" / GOLF / "_delta_log")
    assert begun(tmp_path, rule).log.so_far.parked == {}
    table = DeltaTable(tmp_path / "lake" / GOLF)
    assert table.metadata().partition_columns == ["season"]
    rows = pa.table(QueryBuilder().register("it", table).execute("SELECT score FROM it").read_all())
    assert rows["score"].to_pylist() == [1]


def test_no_table_is_made_anew_that_could_never_take_what_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, since = {**UPSERT, "partition_by": ["score"]}, {**UPSERT, "partition_by": ["level"]}
    query = begun(tmp_path, before)
    query.batch(0, golf(0, score=1))
    without_log(monkeypatch, tmp_path, lambda: query.batch(1, golf(1, score=2)))
    with pytest.raises(ConfigError, match=r"partitioned by score, and tables\[0\].partition_by says level"):
        resolve(settings(tmp_path, tables=[since]), GOLF, "recreate")
    assert [one.name for one in (tmp_path / "lake").iterdir() if one.name.startswith(f".{GOLF}")] == []
    resolve(settings(tmp_path, tables=[before]), GOLF, "recreate")
    assert begun(tmp_path, before).log.so_far.parked == {}


def test_deletes_of_which_some_were_brought_in_for_the_memory_alone_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the later of them what remembers deletes was taken for one that another log had filled, at each start."""
    monkeypatch.setattr(
        queries, "run_rules", partial(run_rules, conditions=conditions_ahead([("deletes", GONE)]))
    )
    query = begun(tmp_path, WITH_DELETES)
    query.batch(0, golf(0, score=1))
    aside = without_log(monkeypatch, tmp_path, lambda: query.batch(1, golf(1, score=12)))
    query.batch(2, golf(2, score=13))
    query.batch(3, golf(3, score=2))
    assert len(query.log.so_far.parked[GOLF]) == 3
    shutil.move(aside, tmp_path / "lake" / GOLF / "_delta_log")
    last = query.log.so_far.parked[GOLF][1]

    def dies(point: str, number: int) -> None:
        # With its deletes remembered.
        if (point, number) == (failpoints.AMID_MERGE, last):
            raise failpoints.Failpoint(point)

    with monkeypatch.context() as patch, pytest.raises(failpoints.Failpoint):
        patch.setattr(failpoints, "reach", dies)
        begun(tmp_path, WITH_DELETES)
    assert begun(tmp_path, WITH_DELETES).log.so_far.parked == {}
    rows = pa.table(
        QueryBuilder()
        .register("it", DeltaTable(tmp_path / "lake" / GOLF))
        .execute("SELECT score FROM it")
        .read_all()
    )
    assert sorted(rows["score"].to_pylist()) == [1, 2]
