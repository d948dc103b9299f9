"""Tables go from one log to the next while one of both runs stands still at one call of the seam after the other: each record once."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

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
from tests.ingest.kafka_records import TOPIC
from tests.ingest.queries import Query
from tests.ingest.test_handover import INLINE, taken_over

from distributary.errors import Fenced, TablesOfAnotherRun

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
