"""What is understood of an aggregate's expressions, and what is refused."""

from __future__ import annotations

import pytest

from distributary.ingest.derivation.measures import NotMergeable, group_of, measure, require_lasting


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("count(*)", "count(*)"),
        (" COUNT ( player_id ) ", "count( player_id )"),
        ("sum(price * (quantity + 1))", "sum(price * (quantity + 1))"),
        ("max(concat(a, ')', `b)`))", "max(concat(a, ')', `b)`))"),
        ("min(a) filter (where b > 1 and (c or d))", "min(a) FILTER (WHERE b > 1 and (c or d))"),
        ("count_if(won)", "count_if(won)"),
        ("count_if(won) FILTER(WHERE(a))", "count_if(won) FILTER (WHERE (a))"),
        ("max(concat(a, '--'))", "max(concat(a, '--'))"),
    ],
)
def test_one_call_is_a_state(text: str, first: str) -> None:
    found = measure("n", text)
    assert [state.first for state in found.states] == [first]
    assert found.final == "`n`"


def test_what_is_worked_out_of_states_has_columns_for_them() -> None:
    assert [one.name for one in measure("speed", "avg(kmh)").states] == ["__speed_sum", "__speed_count"]
    for text in ("count(distinct id)", "count(DISTINCT(id))", "count( distinct\n(id) )"):
        assert [one.name for one in measure("players", text).states] == ["__players_values"], text
    assert [one.name for one in measure("players", "count(distinct_id)").states] == ["players"]
    assert [one.name for one in measure("level", "max_by(level, at)").states] == ["__level_chosen"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("first(level)", "min_by(level, kafka_ts)"),
        ("last_value(level)", "max_by(level, kafka_ts)"),
        ("stddev(x)", "write `sql`"),
        ("sum(a) / count(*)", "one call alone"),
        ("player_id", "one call of an aggregate function"),
        ("sum(a", "not closed"),
        ("max_by(level)", "max_by(value, order)"),
        ("count(distinct a, b)", "struct(a, b)"),
        ("sum(distinct a)", "for count alone"),
        ("sum(DISTINCT(a))", "for count alone"),
        ("count_if(distinct a)", "for count alone"),
        ("count(/* all */ distinct a)", "without a comment"),
        ("sum(a--1)", "without a comment"),
        ("approx_count_distinct(a, 0.01)", "how exact it is cannot be chosen"),
    ],
)
def test_what_nobody_could_add_to_is_refused(text: str, why: str) -> None:
    with pytest.raises(NotMergeable, match=r".*") as refused:
        measure("n", text)
    assert why in str(refused.value)


def test_groups_are_called_as_their_column_or_as_they_say() -> None:
    assert group_of("player_id") == ("player_id", "player_id")
    assert group_of("player.id") == ("id", "player.id")
    assert group_of("date(kafka_ts) AS day") == ("day", "date(kafka_ts)")
    with pytest.raises(NotMergeable, match="give what is no column a name"):
        group_of("date(kafka_ts)")


@pytest.mark.parametrize(
    "text",
    [
        "count_if(at > now())",
        "at > current_timestamp - INTERVAL 7 DAYS",
        "rand ( ) < 0.1",
        "Current_Date",
        "at < date 'today'",
        'at < TIMESTAMP"now UTC"',
    ],
)
def test_what_is_another_value_tomorrow_is_refused(text: str) -> None:
    with pytest.raises(NotMergeable, match="another value each time"):
        require_lasting(text)


@pytest.mark.parametrize(
    "text",
    [
        "now = 'now()'",
        "at > date '2026-01-01'",
        "`current_date` = 1",
        "unix_timestamp(at) > 5",
        "current_dates",
        "max(at)",
    ],
)
def test_what_only_looks_like_that_is_not(text: str) -> None:
    require_lasting(text)
