"""Streams over small tables on this machine: what is added stays, and is what all rows that were in time make."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, TableFeatures
from pyspark.sql import SparkSession
from tests.ingest.derived.test_refresh import Bench

from distributary.ingest import failpoints
from distributary.ingest.derivation.given import Derived

pytestmark = [pytest.mark.spark]

DAY = datetime(2026, 1, 1, tzinfo=timezone.utc)

WINDOWS: dict[str, Any] = {
    "table": "gold",
    "inputs": ["t"],
    "stream": {
        "watermark": {"time": "at", "late_seconds": 60},
        "window": {"seconds": 600},
        "by": ["city"],
        "columns": {"n": "count(*)", "cars": "count(DISTINCT car)"},
    },
}


def seen(minute: float, car: int = 1, city: str = "Ulm") -> dict[str, Any]:
    return {"at": DAY + timedelta(minutes=minute), "car": car, "city": city}


def with_(rule: Mapping[str, Any], **changed: Any) -> dict[str, Any]:
    return {**rule, "stream": {**rule["stream"], **changed}}


@pytest.fixture
def bench(tmp_path: Path, spark: SparkSession) -> Bench:
    return Bench(tmp_path, spark)


def windows(bench: Bench) -> list[tuple[Any, ...]]:
    rows = [
        ((one["window_start"] - DAY) // timedelta(minutes=1), one["city"], one["n"], one["cars"])
        for one in bench.rows()
    ]
    return sorted(rows)


def test_a_window_is_there_once_it_is_over_and_stays_as_it_was(bench: Bench) -> None:
    bench.put(seen(1), seen(2, 2), seen(5, 2, "Bonn"), seen(10.5))
    made = bench.derive(WINDOWS)
    # Ten minutes and a half, less one: the first window may get rows yet.
    assert (made.how, made.rows, windows(bench)) == ("made", 0, [])
    bench.put(seen(9, 3), seen(11.5))
    done = bench.derive(WINDOWS)
    assert (done.how, done.rows, done.why) == ("added", 2, "")
    first = [(0, "Bonn", 1, 1), (0, "Ulm", 3, 3)]
    assert windows(bench) == first
    files = set(DeltaTable(str(bench.root / "gold")).file_uris())
    assert bench.derive(WINDOWS).how == "current"
    # One row is too late, another one is not.
    bench.put(seen(9.9), seen(12), seen(25))
    late = bench.derive(WINDOWS)
    assert (late.how, late.rows, late.why) == ("added", 1, "1 rows came too late for it")
    assert windows(bench) == [*first, (10, "Ulm", 3, 1)]
    assert files <= set(DeltaTable(str(bench.root / "gold")).file_uris())
    # An OPTIMIZE of either changes nothing.
    for table in ("t", "gold"):
        DeltaTable(str(bench.root / table)).optimize.compact()
    bench.put(seen(40))
    assert bench.derive(WINDOWS).rows == 1
    assert [one[0] for one in windows(bench)] == [0, 0, 10, 20]


def test_a_clock_that_is_ahead_ends_no_window_for_the_others(bench: Bench) -> None:
    bench.put(seen(1), {**seen(1), "at": datetime(2999, 1, 1, tzinfo=timezone.utc)})
    bench.derive(WINDOWS)
    # They lag behind, as after an outage: the pipeline reads of January what was sent then.
    bench.put(seen(2, 2), seen(11.5))
    done = bench.derive(WINDOWS)
    assert (done.why, windows(bench)) == ("", [(0, "Ulm", 2, 2)])
    now = datetime.now(timezone.utc)
    bench.put({**seen(1), "at": now})
    done = bench.derive(WINDOWS)
    assert done.why == ""
    assert len(windows(bench)) == 2


def test_update_has_windows_that_are_not_over_as_they_are_so_far_and_complete_all_of_all_rows(
    bench: Bench,
) -> None:
    update = with_(WINDOWS, output="update")
    bench.put(seen(1), seen(10.5))
    bench.derive(update)
    assert windows(bench) == [(0, "Ulm", 1, 1), (10, "Ulm", 1, 1)]
    bench.put(seen(2), seen(21.5))
    bench.derive(update)
    assert windows(bench) == [(0, "Ulm", 2, 1), (10, "Ulm", 1, 1), (20, "Ulm", 1, 1)]
    bench.put(seen(3), seen(12), seen(22))
    assert bench.derive(update).why == "2 rows came too late for it"
    assert windows(bench) == [(0, "Ulm", 2, 1), (10, "Ulm", 1, 1), (20, "Ulm", 2, 1)]
    complete = {**with_(WINDOWS, output="complete"), "table": "whole"}
    bench.derive(complete)
    assert [one["n"] for one in sorted(bench.rows("whole"), key=lambda one: one["window_start"])] == [3, 2, 2]


def test_windows_slide_and_what_is_looked_up_stands_beside_each_row(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "cities.csv").write_text("city,land\nUlm,BW\n")
    rule = {
        **with_(
            WINDOWS,
            window={"seconds": 600, "slide_seconds": 300},
            by=["coalesce(land, '?') AS land"],
            columns={"n": "count(*)"},
            where="car < 5",
            lookup={"cities": ["city"]},
        ),
        "static": {"cities": {"path": str(tmp_path / "cities.csv")}},
    }
    bench.put(seen(1), seen(6, 2, "Bonn"), seen(6, 9), seen(30))
    assert bench.derive(rule).rows == 4
    found = sorted(
        ((one["window_start"] - DAY).total_seconds() / 60, one["land"], one["n"]) for one in bench.rows()
    )
    assert found == [(-5.0, "BW", 1), (0.0, "?", 1), (0.0, "BW", 1), (5.0, "?", 1)]


def test_rows_are_taken_as_they_come_each_once_with_what_is_looked_up_then(
    bench: Bench, tmp_path: Path
) -> None:
    cities = tmp_path / "cities.csv"
    cities.write_text("city,land\nUlm,BW\n")
    rule = {
        "table": "gold",
        "inputs": ["t"],
        "static": {"cities": {"path": str(cities)}},
        "stream": {"columns": {"car": "car", "land": "land"}, "lookup": {"cities": ["city"]}},
    }
    bench.put(seen(1, 1), seen(1, 2, "Bonn"))
    assert bench.derive(rule).how == "made"
    cities.write_text("city,land\nUlm,Baden\nBonn,NRW\n")
    assert bench.derive(rule).how == "current"
    bench.put(seen(2, 3, "Bonn"))
    done = bench.derive(rule)
    assert (done.how, done.rows) == ("added", 1)
    have = sorted((one["car"], one["land"]) for one in bench.rows())
    assert have == [(1, "BW"), (2, None), (3, "NRW")]
    # What is no more there cannot be taken back.
    DeltaTable(str(bench.root / "t")).delete("car = 1")
    refused = bench.derive(rule)
    assert refused.how == "failed"
    assert "rows of its input were replaced or deleted" in refused.why
    assert "`distributary derive --table gold --whole`" in refused.why
    assert bench.derive(rule, whole=True).how == "made"
    assert sorted((one["car"], one["land"]) for one in bench.rows()) == [(2, "NRW"), (3, "NRW")]
    assert bench.derive(rule).how == "current"


def test_rows_are_taken_as_they_come_whatever_columns_their_table_gets(bench: Bench) -> None:
    rule = {
        "table": "gold",
        "inputs": ["t"],
        "stream": {"columns": {"car": "car", "text": "to_json(struct(*))"}},
    }
    bench.put({"car": 1})
    assert bench.derive(rule).how == "made"
    bench.put({"car": 2, "new": 5})
    done = bench.derive(rule)
    assert (done.how, done.rows) == ("added", 1), done.why
    # What others may write to it is no matter of the rows.
    others = DeltaTable(str(bench.root / "t")).alter
    others.add_feature(TableFeatures.ChangeDataFeed, allow_protocol_versions_increase=True)
    bench.put({"car": 3})
    done = bench.derive(rule)
    assert (done.how, done.rows) == ("added", 1), done.why
    assert [one["text"] for one in bench.rows()] == ['{"car":1}', '{"car":2,"new":5}', '{"car":3}']
    assert bench.derive(rule).how == "current"
    # A column of all of them is of another type by and by.
    struct = {**rule, "table": "whole", "stream": {"columns": {"all": "struct(*)"}}}
    bench.derive(struct)
    bench.put({"car": 4, "newer": 6})
    assert "new rows would have all of another type" in bench.derive(struct).why


def test_rows_of_two_tables_are_there_as_pairs_once_nothing_can_come_to_them(bench: Bench) -> None:
    rule = {
        "table": "gold",
        "inputs": ["t", "u"],
        "stream": {
            "watermark": {"time": "at", "late_seconds": 60},
            "join": {"time": "seen", "within_seconds": 300, "on": "this.car = other.car", "how": "left"},
            "columns": {"car": "this.car", "place": "other.place"},
        },
    }

    def parked(minute: float, car: int, place: str) -> None:
        bench.put({"seen": DAY + timedelta(minutes=minute), "car": car, "place": place}, table="u")

    bench.put(seen(1, 1), seen(2, 2), seen(3, 3), seen(4, 4))
    parked(0, 1, "a")
    parked(7.5, 2, "too far")
    parked(2, 3, "b")
    assert bench.derive_with(rule, "t", "u").rows == 0
    bench.put(seen(12, 5))
    parked(6, 3, "c")
    assert bench.derive_with(rule, "t", "u").rows == 1
    parked(12, 9, "d")
    done = bench.derive_with(rule, "t", "u")
    assert (done.how, done.rows) == ("added", 4)
    pairs = sorted((one["car"], one["place"] or "") for one in bench.rows())
    assert pairs == [(1, "a"), (2, ""), (3, "b"), (3, "c"), (4, "")]
    # One that belongs to a row which is there by itself already; others that belong to none such, or were in time.
    parked(5, 4, "late")
    parked(5, 99, "to nobody")
    parked(11.5, 5, "d")
    bench.put(seen(20, 6))
    parked(20, 9, "e")
    done = bench.derive_with(rule, "t", "u")
    assert (done.why, done.rows) == ("1 rows came too late for it", 1)


SESSIONS = {
    **with_(
        WINDOWS,
        window={"gap_seconds": 300},
        columns={"n": "count(*)", "cars": "count(DISTINCT car)", "last": "max(at)"},
    ),
}


def sessions(bench: Bench) -> list[tuple[Any, ...]]:
    return [(start, (one["window_end"] - DAY).total_seconds() / 60, *rest) for (start, *rest), one in zip(
        windows(bench), sorted(bench.rows(), key=lambda one: (one["window_start"], one["city"])), strict=True)]  # fmt: skip


def test_a_session_is_there_once_nothing_came_for_so_long_and_stays_as_it_was(bench: Bench) -> None:
    bench.put(seen(1), seen(4, 2), seen(2, 3, "Bonn"), seen(7.5))
    assert bench.derive(SESSIONS).rows == 0
    # Bonn's is over at the seventh minute; Ulm's goes on as long as the next one comes in time.
    bench.put(seen(12, 4))
    assert bench.derive(SESSIONS).rows == 1
    assert sessions(bench) == [(2, 7.0, "Bonn", 1, 1)]
    for minute in (16, 20, 24):
        bench.put(seen(minute))
        assert bench.derive(SESSIONS).rows == 0
    # It is in one that is not over, however late it comes; those of Bonn's stay out of what is over.
    bench.put(seen(3), seen(3, 1, "Bonn"), seen(6.5, 1, "Bonn"))
    late = bench.derive(SESSIONS)
    assert (late.rows, late.why) == (0, "2 rows came too late for it")
    bench.put(seen(40))
    done = bench.derive(SESSIONS)
    assert (done.how, done.rows) == ("added", 1)
    assert sessions(bench) == [(1, 29.0, "Ulm", 8, 3), (2, 7.0, "Bonn", 1, 1)]
    assert bench.derive(SESSIONS).how == "current"


@pytest.mark.parametrize(
    "cars",
    [
        "count(DISTINCT car) FILTER (WHERE car > 0)",
        *(
            pytest.param(text, marks=pytest.mark.heavy)
            for text in ("count(DISTINCT car)", "size(collect_set(car))")
        ),
    ],
)
def test_values_are_counted_once_in_a_session_whatever_else_is_counted(bench: Bench, cars: str) -> None:
    columns = {"n": "count(*)", "cars": cars, "cities": "count(DISTINCT city)"}
    # One car twice, with more between than makes a session of its own rows.
    bench.put(seen(1), seen(4, 2), seen(8), seen(8, 3), seen(90))
    bench.derive(with_(SESSIONS, columns=columns))
    (found,) = bench.rows()
    assert (found["n"], found["cars"], found["cities"]) == (4, 3, 1)


def test_a_row_between_a_session_that_is_over_and_one_that_is_not_does_not_bind_them(bench: Bench) -> None:
    bench.put(seen(1), seen(8), seen(2, 1, "Bonn"), seen(6, 1, "Bonn"), seen(9, 1, "Bonn"))
    bench.derive(SESSIONS)
    assert sessions(bench) == [(1, 6.0, "Ulm", 1, 1)]
    # Near to both; Bonn's holds open from where rows are read.
    bench.put(seen(4.5), seen(9))
    assert bench.derive(SESSIONS).rows == 0
    bench.put(seen(30))
    bench.derive(SESSIONS)
    assert sessions(bench) == [(1, 6.0, "Ulm", 1, 1), (2, 14.0, "Bonn", 3, 1), (4, 14.0, "Ulm", 3, 1)]


def test_update_and_complete_have_sessions_that_are_not_over_too(bench: Bench) -> None:
    update, complete = (
        with_(SESSIONS, output="update"),
        {**with_(SESSIONS, output="complete"), "table": "whole"},
    )
    bench.put(seen(1), seen(3), seen(9))
    bench.derive(update)
    assert sessions(bench) == [(1, 8.0, "Ulm", 2, 1), (9, 14.0, "Ulm", 1, 1)]
    bench.put(seen(5), seen(12))
    bench.derive(update)
    # The first was over at nine less one.
    assert [one[:2] for one in sessions(bench)] == [(1, 8.0), (5, 17.0)]
    bench.derive(complete)
    assert [one["n"] for one in bench.rows("whole")] == [5]


# Lighter: test_a_session_is_there_once_nothing_came_for_so_long_and_stays_as_it_was counts rows that came too late, and
# test_sessions_of_rows_that_are_in_time_are_those_of_all_rows_at_once throws dice.
@pytest.mark.heavy
@pytest.mark.parametrize("seed", [1])
def test_each_row_is_in_one_session_or_came_too_late_whatever_comes_when(bench: Bench, seed: int) -> None:
    dice, late, count = random.Random(seed), 0, 0
    rule = with_(SESSIONS, where="car < 100")
    for turn in range(6):
        # Out of order by more than what is waited for.
        rows = [
            seen(turn * 8 + dice.uniform(-14, 10), dice.randrange(9), dice.choice(["Ulm", "Bonn"]))
            for _ in range(dice.randrange(1, 12))
        ]
        bench.put(*rows)
        count += len(rows)
        said = bench.derive(rule).why
        late += int(said.split()[0]) if said else 0
    bench.put(seen(500, 1, "end"))
    bench.derive(rule)
    found = bench.rows()
    assert late > 0
    assert sum(one["n"] for one in found) + late == count
    for city in ("Ulm", "Bonn"):
        mine = sorted((one["window_start"], one["last"]) for one in found if one["city"] == city)
        assert all(start > last for (_, last), (start, _) in pairwise(mine))


# Lighter: the sessions further above, and of those that are not over test_update_and_complete_have_sessions_that_are_not_over_too.
@pytest.mark.heavy
@pytest.mark.parametrize("output", ["append", "update"])
def test_sessions_of_rows_that_are_in_time_are_those_of_all_rows_at_once(bench: Bench, output: str) -> None:
    dice, all_of = random.Random(3), list[dict[str, Any]]()
    rule = with_(SESSIONS, output=output)
    for turn in range(4):
        rows = [
            seen(turn * 15 + dice.uniform(0, 14), dice.randrange(9), dice.choice(["Ulm", "Bonn", "Aalen"]))
            for _ in range(9)
        ]
        bench.put(*rows)
        all_of += rows
        assert bench.derive(rule).why == ""
    over = max(one["at"] for one in all_of) - timedelta(seconds=60)
    gap, expected = timedelta(minutes=5), list[tuple[Any, ...]]()
    for city in ("Aalen", "Bonn", "Ulm"):
        times = sorted(one["at"] for one in all_of if one["city"] == city)
        begins = [place for place, at in enumerate(times) if not place or at - times[place - 1] > gap]
        for begin, end in pairwise([*begins, len(times)]):
            if output == "update" or times[end - 1] + gap <= over:
                expected.append((times[begin], times[end - 1] + gap, city, end - begin))
    found = [(one["window_start"], one["window_end"], one["city"], one["n"]) for one in bench.rows()]
    assert sorted(found) == sorted(expected)
    assert found


def test_streams_of_before_are_told_by_the_same_words() -> None:
    """Else who upgrades would be refused: their rows would be those of other settings."""
    assert "gap_seconds" not in Derived.model_validate(WINDOWS).text
    assert "gap_seconds" in Derived.model_validate(SESSIONS).text


def test_other_settings_and_other_types_are_refused_by_name(bench: Bench) -> None:
    bench.put(seen(1), seen(30))
    assert bench.derive(WINDOWS).rows == 1
    other = with_(WINDOWS, where="car > 0")
    bench.put(seen(50))
    refused = bench.derive(other)
    assert "its rows were made by other settings" in refused.why
    assert len(windows(bench)) == 1
    assert bench.derive(other, whole=True).how == "made"
    assert len(windows(bench)) == 2
    # What the log remembers of the first settings is of rows that were there before.
    bench.put(seen(70))
    assert "its rows were made by other settings" in bench.derive(WINDOWS).why
    assert len(windows(bench)) == 2
    text = {"table": "texts", "inputs": ["t"], "stream": {**WINDOWS["stream"], "watermark": {"time": "city"}}}
    assert "is of type string; make a timestamp of it" in bench.derive(text).why


# Lighter: test_what_is_made_anew_of_no_rows_forgets_up_to_when_there_were_some.
@pytest.mark.heavy
def test_windows_of_other_settings_in_between_are_not_kept_as_if_they_were_those_of_the_first(
    bench: Bench,
) -> None:
    update = with_(WINDOWS, output="update")
    for seconds, minute in ((600, 1), (1200, 30), (600, 50)):
        bench.put(seen(minute), seen(minute + 15))
        assert bench.derive(with_(update, window={"seconds": seconds})).how == "made"
    complete = {**with_(WINDOWS, output="complete"), "table": "whole"}
    bench.derive(complete)
    assert bench.rows() == bench.rows("whole")
    bench.put(seen(90))
    assert bench.derive(update).how == "added"


@pytest.mark.parametrize("output", ["append", pytest.param("update", marks=pytest.mark.heavy)])
def test_what_is_made_anew_of_no_rows_forgets_up_to_when_there_were_some(bench: Bench, output: str) -> None:
    rule = with_(SESSIONS, output=output)
    bench.put(seen(1), seen(30))
    bench.derive(rule)
    DeltaTable(str(bench.root / "t")).delete()
    assert bench.derive(rule, whole=True).rows == 0
    bench.put(seen(1), seen(2), seen(30))
    done = bench.derive(rule)
    assert (done.how, done.why) == ("added", "")
    assert sessions(bench)[0] == (1, 7.0, "Ulm", 2, 1)
    assert len(sessions(bench)) == (1 if output == "append" else 2)


def test_up_to_when_rows_are_there_the_log_remembers_whatever_of_its_entries_is_left(bench: Bench) -> None:
    for minutes in ((1, 30), (50,)):
        bench.put(*map(seen, minutes))
        bench.derive(WINDOWS)
    gold = DeltaTable(str(bench.root / "gold"))
    gold.optimize.compact()
    gold.create_checkpoint()
    for version in range(gold.version()):
        (bench.root / "gold" / "_delta_log" / f"{version:020d}.json").unlink()
    bench.put(seen(2), seen(70))
    # How many came late nobody can tell any more.
    done = bench.derive(WINDOWS)
    assert (done.how, done.rows, done.why) == ("added", 1, "")
    assert windows(bench) == [(0, "Ulm", 1, 1), (30, "Ulm", 1, 1), (50, "Ulm", 1, 1)]


@pytest.mark.parametrize("point", [failpoints.AMID_DERIVING, failpoints.AFTER_DERIVING])
def test_a_round_that_dies_around_its_entry_adds_each_row_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    bench.put(seen(1), seen(12))
    bench.derive(WINDOWS)
    bench.put(seen(30))
    monkeypatch.setenv(failpoints.VARIABLE, f"{point}=fail")
    monkeypatch.setattr(failpoints, "_fired", set())
    with pytest.raises(failpoints.Failpoint):
        bench.derive(WINDOWS)
    monkeypatch.delenv(failpoints.VARIABLE)
    after = bench.derive(WINDOWS)
    assert after.how == ("added" if point == failpoints.AMID_DERIVING else "current")
    assert windows(bench) == [(0, "Ulm", 1, 1), (10, "Ulm", 1, 1)]
