"""Tables go from one log to the next while one of both runs stands still at one call of the seam after the other: each record once."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.ingest.batch.test_standing_still import (
    MOST_CALLS,
    Stop,
    assert_each_once,
    goes_on,
    query,
    records,
    standing,
)
from tests.ingest.batches import generation
from tests.ingest.handover.test_heritage import INLINE, WORLD, heritage, taken_over
from tests.ingest.kafka_records import TOPIC
from tests.ingest.queries import Query, batches, one

from distributary.errors import Fenced, TablesOfAnotherRun
from distributary.ingest.batch.finish import Finisher

EVERY = 5


def run_from_tables(root: Path, place: str) -> Query:
    """A new checkpoint that goes on where the tables are."""
    _, ends = taken_over(root, place, "from_tables")
    return Query(root, place, ends, decode=INLINE)


def one_more(of: Query, version: int) -> int:
    """A batch brought to its end; where the next one begins."""
    begin = of.log.so_far.ends[TOPIC][0]
    of.batch(begin, records(begin, begin + 4, version))
    return begin + 4


def test_a_run_that_goes_on_while_it_is_asked_makes_no_tables_older_than_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever believed it would say that the run is dead, and its rows would be doubled."""
    first, newest, asked = batches(tmp_path, 2), Finisher.newest, list[int]()

    def late(*given: Any, **named: Any) -> Mapping[str, int | None]:
        found = newest(*given, **named)
        if not asked:
            for begin in (2, 3, 4):
                first.batch(begin, one(begin))
        asked.append(1)
        return found

    monkeypatch.setattr(Finisher, "newest", late)
    start = heritage(tmp_path).start("from_tables", "games", (), WORLD)
    assert (start.after and start.after.generation, start.dead) == (generation(tmp_path).id, ())


@pytest.mark.heavy
@pytest.mark.parametrize("at", range(1, MOST_CALLS, EVERY))
def test_wherever_the_earlier_run_stands_still(tmp_path: Path, at: int) -> None:
    goes_on(query(tmp_path), (1,))
    with standing(Stop(at), lambda: goes_on(query(tmp_path), (2, 2))) as ended:
        now = goes_on(run_from_tables(tmp_path, "second"), (1,))
    assert all(isinstance(error, Fenced | TablesOfAnotherRun) for error in ended), ended
    assert_each_once(tmp_path, one_more(now, 2))
    with pytest.raises(TablesOfAnotherRun):
        query(tmp_path)


@pytest.mark.heavy
@pytest.mark.parametrize("at", range(1, MOST_CALLS, EVERY))
def test_wherever_the_one_that_takes_over_stands_still_while_a_third_does_so(tmp_path: Path, at: int) -> None:
    first = goes_on(query(tmp_path), (1,))
    with standing(Stop(at), lambda: goes_on(run_from_tables(tmp_path, "second"), (2, 2))) as ended:
        with suppress(Fenced):
            one_more(first, 1)
        goes_on(run_from_tables(tmp_path, "third"), (1,))
    assert all(isinstance(error, Fenced | TablesOfAnotherRun) for error in ended), ended
    last = goes_on(run_from_tables(tmp_path, "fourth"))
    assert_each_once(tmp_path, one_more(last, 2))
