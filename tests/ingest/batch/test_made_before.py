"""A new table that an attempt has made which came to nothing, as where its process was killed: the next attempt at the batch brings more."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.ingest import queries
from tests.ingest.batch.test_parked_partitions import UPSERT, begun
from tests.ingest.batch.test_parked_wider import BIG, NARROW, WIDE
from tests.ingest.e2e.handmade import Schema
from tests.ingest.kafka_records import Sent
from tests.ingest.pipelines import SUBJECT
from tests.ingest.queries import GOLF, Query, value

from distributary.ingest import failpoints
from distributary.ingest.columns.safe_names import CHANGES_TABLE
from distributary.ingest.columns.widening import Widening, widenings
from distributary.ingest.routing.conditions import ReadCondition, conditions_ahead
from distributary.ingest.running.rules import run_rules
from distributary.ingest.tables import change
from distributary.registry.memory import MemoryRegistry

GONE = "level > 10"
Conditions: TypeAlias = Mapping[str, ReadCondition]


class Died(BaseException):
    """Nothing of the process goes on."""


class Asked(Exception):
    """Columns were to become wider, which takes a Spark that is not here."""

    def __init__(self, columns: Sequence[Widening]) -> None:
        super().__init__()
        self.columns = columns


def died(point: str, _: int) -> None:
    if point == failpoints.BEFORE_MANIFEST:
        raise Died


def test_its_columns_become_as_wide_as_what_the_batch_brings_by_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = MemoryRegistry()
    narrow, wide = (Schema(held.register(SUBJECT, text, "PROTOBUF"), text) for text in (NARROW, WIDE))
    monkeypatch.setattr(queries, "registry", lambda: held)

    def goes_on() -> Query:
        query = Query(tmp_path, policies={"wider_type": "widen"}, decode={"evolution": "inline"})
        query.resume()
        return query

    def widen(_: Any, place: Any, layout: pa.Schema, wanted: pa.Schema) -> None:
        raise Asked(widenings(layout, wanted))

    monkeypatch.setattr(change, "widen_columns", widen)
    run, first = goes_on(), Sent(narrow.value(game_name="golf", level=1), 1)
    run.batch(0, [Sent(narrow.value(game_name="quest", level=1), 0)])
    with monkeypatch.context() as patch, pytest.raises(Died):
        patch.setattr(failpoints, "reach", died)
        run.batch(1, [first])
    assert run.rows(GOLF) == 0
    with pytest.raises(Asked) as asked:
        goes_on().batch(1, [first, Sent(wide.value(game_name="golf", level=BIG), 2)])
    assert asked.value.columns == [Widening(("level",), pa.int32(), pa.int64())]


def test_that_it_was_made_is_told_once_by_the_batch_that_brings_rows_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a later batch brings the record, since the next attempt reads less of the topic."""

    def goes_on() -> Query:
        query = Query(tmp_path, decode={"evolution": "inline"})
        query.resume()
        return query

    def sent(offset: int, game: str) -> Sent:
        return Sent(value(1, game_name=game, level=1), offset)

    run = goes_on()
    run.batch(0, [sent(0, "quest")])
    with monkeypatch.context() as patch, pytest.raises(Died):
        patch.setattr(failpoints, "reach", died)
        run.batch(1, [sent(1, "quest"), sent(2, "golf")])
    run = goes_on()
    run.batch(1, [sent(1, "quest")])
    run.batch(2, [sent(2, "golf")])
    rows = DeltaTable(tmp_path / "lake" / CHANGES_TABLE).to_pyarrow_table().to_pylist()
    told = [(row["batch_id"], row["entity"], row["column"]) for row in rows if row["table"] == GOLF]
    last = run.done[-1].manifest.batch_id
    assert {(batch, entity) for batch, entity, _ in told} == {(last, "golf")}
    assert len(told) == len({column for *_, column in told})


@pytest.fixture(scope="module")
def conditions() -> Conditions:
    """Read once, which takes a second."""
    return conditions_ahead([("deletes", GONE)])


@pytest.mark.parametrize("at", ["create", "sync_logs"])
def test_what_remembers_its_deletes_is_not_made_before_it_is_there_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conditions: Conditions, at: str
) -> None:
    """By its columns the next attempt goes, whichever of the batch's records it meets first by then: without it those were another hand's."""
    held = MemoryRegistry()
    narrow, wide = (Schema(held.register(SUBJECT, text, "PROTOBUF"), text) for text in (NARROW, WIDE))
    monkeypatch.setattr(queries, "registry", lambda: held)
    monkeypatch.setattr(queries, "run_rules", partial(run_rules, conditions=conditions))
    rule = {**UPSERT, "keys": ["game_name"], "sequence_by": ["level"], "deletes": {"when": GONE}}
    call = getattr(change, at)

    def called(place: Any, *given: Any, **more: Any) -> Any:
        if str(place).endswith(GOLF) or GOLF in given[0]:
            raise Died
        return call(place, *given, **more)

    run, first = begun(tmp_path, rule), Sent(narrow.value(game_name="golf", level=1), 0)
    with monkeypatch.context() as patch, pytest.raises(Died):
        patch.setattr(change, at, called)
        run.batch(0, [first])
    # The power fails, and no disk has it.
    shutil.rmtree(tmp_path / "lake" / GOLF, ignore_errors=True)
    run = begun(tmp_path, rule)
    run.batch(0, [Sent(wide.value(game_name="golf", level=2), 0)])
    assert run.done[-1].manifest.table(GOLF).rows == 1
