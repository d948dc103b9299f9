"""Whatever records are routed by: right tables pass, and a record in a wrong place is named."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.producer_sim.conftest import HandMade
from tests.producer_sim.routed_world import TOPIC, Landed, Rule, World, world

from distributary.errors import ConfigError
from distributary.ingest.settings.groups import NamedTable
from distributary.producer_sim.events.routes import Routed
from distributary.producer_sim.truth.sent import Group, load, save
from distributary.producer_sim.verify.comparison import compare
from distributary.producer_sim.verify.verdict import DifferenceKind, Verdict

EXPRESSION = """-- who plays 'level' where
concat(upper(`Country`), '-', case when Level > 50 then 'high' else guild.name end, if(premium, '!', ''))"""


def header(event: Landed) -> str | None:
    value = dict(event.record.headers).get("region")
    return None if value is None else value.decode()


def key(event: Landed) -> str | None:
    return None if event.record.key is None else event.record.key.decode()


def guild(event: Landed) -> str | None:
    found: str | None = (event.values.get("guild") or {}).get("name")
    return found


def members(event: Landed) -> str | None:
    found = (event.values.get("guild") or {}).get("members")
    return None if found is None else str(found)


def by_expression(event: Landed) -> str | None:
    row = event.values
    which = "high" if row["level"] > 50 else guild(event)
    return None if which is None else f"{row['country'].upper()}-{which}{'!' if row['premium'] else ''}"


RULES: dict[str, tuple[Routed, Rule, dict[str, Any]]] = {
    "text": (Routed("field", "device"), lambda event: event.values["device"], {}),
    "number": (Routed("field", "guild.members"), members, {}),
    "boolean": (Routed("field", "premium"), lambda event: str(event.values["premium"]).lower(), {}),
    "nested": (Routed("field", "guild.name"), guild, {}),
    "one_type": (Routed("field", "sku"), lambda event: event.values.get("sku"), {}),
    "map": (Routed("field", "inventory"), lambda _: None, {}),
    "unheard": (Routed("field", "shoe_size"), lambda _: None, {}),
    "record": (Routed("record", ""), lambda event: event.type, {}),
    "topic": (Routed("topic", ""), lambda _: TOPIC, {}),
    "gamer": (Routed("key", ""), key, {}),
    "key": (Routed("key", ""), key, {"key": "season"}),
    "header": (Routed("header", "region"), header, {"headers": {"region": "season", "more": "level"}}),
    "expression": (Routed("expression", EXPRESSION), by_expression, {}),
    "constant": (Routed("expression", "'all'"), lambda _: "all", {}),
}
ALL = [
    pytest.param(name, marks=pytest.mark.spark if rule[0].by == "expression" else ())
    for name, rule in RULES.items()
]


@cache
def made_once(name: str) -> World:
    """What was sent and where the rule of this name puts it: most of a test's time, and the same in all of them."""
    route, rule, chosen = RULES[name]
    return world(Path("nowhere"), route, rule, **chosen)


@pytest.fixture
def made(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """A world of the test's own; the rule's name is the test's first parameter."""
    if RULES[request.param][0].by == "expression":
        request.getfixturevalue("spark")  # instead of one more JVM
    once = made_once(request.param)
    return replace(once, root=tmp_path / "lake", events=list(once.events), entities=dict(once.entities))


def checked(made: World, no_entity: str | NamedTable = "quarantine") -> Verdict:
    return compare(made.write(no_entity), made.truth)


def kinds(verdict: Verdict) -> set[DifferenceKind]:
    return {difference.kind for difference in verdict.differences}


@pytest.mark.parametrize("made", ALL, indirect=True)
def test_where_each_record_belongs(made: World) -> None:
    verdict = checked(made)
    assert verdict.differences == ()
    homeless = [entity for entity in made.entities.values() if not entity]
    assert verdict.rows_quarantined == len(homeless)
    assert verdict.rows_in_tables + len(homeless) == len(made.events) == verdict.sent


@pytest.mark.parametrize("made", ["one_type", "record", "topic", "gamer", "header"], indirect=True)
def test_a_record_in_a_place_where_it_does_not_belong(made: World) -> None:
    first = next((offset for offset, entity in made.entities.items() if entity), 0)
    made.entities[first] = "elsewhere"
    assert {"rows_surplus"} < kinds(checked(made)) <= {"rows_surplus", "rows_missing", "table_missing"}


@pytest.mark.parametrize("made", ["nested", "record", "key", "header"], indirect=True)
def test_two_records_that_change_places(made: World) -> None:
    """Of one game and one schema: all counts agree."""
    one, other = next(
        (one.offset, other.offset)
        for one in made.events
        for other in made.events
        if (made.entities[one.offset] or None) != (made.entities[other.offset] or None)
        and (made.route.by == "record" or one.schema_id == other.schema_id)
        and one.values["game_name"] == other.values["game_name"]
    )
    made.entities[one], made.entities[other] = made.entities[other], made.entities[one]
    found = kinds(checked(made))
    # Types have schemas of their own.
    assert found == ({"rows_missing", "rows_surplus"} if made.route.by == "record" else {"values_differ"})


@pytest.mark.parametrize("made", ["nested"], indirect=True)
def test_a_good_record_among_those_without_an_entity(made: World) -> None:
    good = next(offset for offset, entity in made.entities.items() if entity)
    made.entities[good] = None
    verdict = checked(made)
    assert kinds(verdict) == {"rows_missing", "rows_surplus"}
    assert "quarantine, events without an entity" in {difference.where for difference in verdict.differences}


@pytest.mark.parametrize("made", ["nested", "header"], indirect=True)
def test_the_bytes_of_records_without_an_entity_are_those_sent(made: World) -> None:
    place = next(n for n, event in enumerate(made.events) if not made.entities[event.offset])
    event = made.events[place]
    made.events[place] = replace(event, record=event.record._replace(value=b"other"))
    verdict = checked(made)
    assert [(difference.kind, difference.where) for difference in verdict.differences] == [
        ("values_differ", "quarantine, events without an entity")
    ]


@pytest.mark.parametrize("made", ["nested", "header"], indirect=True)
def test_records_without_an_entity_in_the_table_that_is_named(made: World) -> None:
    strays = NamedTable(table="strays")
    verdict = checked(made, strays)
    assert verdict.differences == ()
    assert verdict.rows_in_tables == len(made.events)
    assert "table_missing" in kinds(
        compare(replace(made.lake(strays), no_entity=NamedTable(table="x")), made.truth)
    )


@pytest.mark.parametrize("made", ["nested"], indirect=True)
def test_records_without_an_entity_that_are_dropped(made: World) -> None:
    verdict = checked(made, "drop")
    assert verdict.differences == ()
    assert 0 < verdict.rows_dropped == len(made.events) - verdict.rows_in_tables


@pytest.mark.parametrize("made", ["nested"], indirect=True)
def test_one_dropped_too_many(made: World) -> None:
    made.entities[next(offset for offset, entity in made.entities.items() if entity)] = None
    assert kinds(checked(made, "drop")) == {"rows_missing", "record_lost"}


@pytest.mark.parametrize("made", ["nested"], indirect=True)
def test_one_dropped_too_few(made: World) -> None:
    made.entities[next(offset for offset, entity in made.entities.items() if not entity)] = "kept"
    assert kinds(checked(made, "drop")) == {"rows_surplus"}


@pytest.mark.parametrize("made", ["nested", "header"], indirect=True)
def test_the_file_keeps_what_a_route_needs(made: World, tmp_path: Path) -> None:
    path = tmp_path / "truth.json"
    save(made.truth, path)
    assert load(path) == made.truth
    assert len(save(made.truth, path, append=True).sent) == len(made.truth.sent)


@pytest.mark.parametrize(
    ("route", "what"),
    [
        (Routed("field", "device"), "field device"),
        (Routed("header", "region"), "header region"),
        (Routed("key", ""), "key"),
        (Routed("record", ""), "of which type"),
        pytest.param(Routed("expression", "lower(country)"), "country", marks=pytest.mark.spark),
        pytest.param(Routed("expression", "lower("), "PARSE_SYNTAX", marks=pytest.mark.spark),
    ],
)
def test_a_truth_that_does_not_tell_enough_is_refused(
    hand_made: HandMade, request: pytest.FixtureRequest, route: Routed, what: str
) -> None:
    if route.by == "expression":
        request.getfixturevalue("spark")
    with pytest.raises(ConfigError, match=f"{what}.*pipeline: FILE"):
        compare(replace(hand_made.lake, route=route), hand_made.truth)


def test_by_topic_even_an_old_truth_tells_enough(hand_made: HandMade) -> None:
    assert "table_missing" in kinds(
        compare(replace(hand_made.lake, route=Routed("topic", "")), hand_made.truth)
    )


def test_groups_that_differ_only_in_what_routes_them_keep_their_order() -> None:
    """A file with the same content is the same file."""
    groups = [Group("golf", 1, "r", (("key", value),)) for value in (None, "b", True, 2, "a")]
    shuffled = [groups[place] for place in (4, 2, 0, 1, 3)]
    in_order, again = (sorted(some, key=lambda group: group.order) for some in (groups, shuffled))
    assert in_order == again
