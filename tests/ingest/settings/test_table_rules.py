"""The list of rules in a settings file: what is wrong with it is told at its line, and the first rule that fits is a table's."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.ingest.settings.test_model import SMALL, problems, settings_from

from distributary.errors import ConfigError
from distributary.ingest.settings.deletes import Deleting
from distributary.ingest.settings.groups import Route, Sink
from distributary.ingest.settings.model import Settings
from distributary.ingest.settings.patterns import Pattern
from distributary.ingest.settings.rule_book import RuleBook, TableSpec
from distributary.ingest.settings.table_rules import TableRule
from distributary.ingest.settings.upserts import Upsert

SOUND: dict[str, Any] = {
    "name": "games",
    "source": {"kafka": {"bootstrap.servers": "x:1"}, "topics": ["t"]},
    "registry": {"url": "http://x:1"},
    "route": {"field": "game"},
    "sink": {"root": "./lake"},
}

FIRST = len(SMALL.splitlines()) + 2


def with_rules(*rules: str) -> str:
    """The small file with a rule a line, from line `FIRST` on."""
    return SMALL + "\n".join(["tables:", *(f"  - {rule}" for rule in rules), ""])


@pytest.mark.parametrize(
    ("rules", "line", "expected"),
    [
        (
            ["{match: a, comments: x}"],
            0,
            "tables[0].comments: no setting is called so; did you mean tables.comment?",
        ),
        (
            ["{match: a, mode: merge}"],
            0,
            "tables[0].mode: no mode is called merge; write append, upsert or history",
        ),
        (
            ["{match: a, mode: upsert}"],
            0,
            "tables[0].keys: with mode upsert a row is found by its key; write",
        ),
        (
            ["{match: a, keys: [id]}"],
            0,
            "tables[0].keys: with mode append each record is a row; leave it out",
        ),
        (
            ["{match: a, sequence_by: [at]}"],
            0,
            "tables[0].sequence_by: with mode append each record is a row; leave it out",
        ),
        (
            ["{match: a, on_repartition: stop}"],
            0,
            "tables[0].on_repartition: with mode append each record is a row",
        ),
        (
            ["{match: a, mode: upsert, keys: [a], sequence_by: [b], on_repartition: timestamp}"],
            0,
            "tables[0].on_repartition: with sequence_by it does not matter where a record comes from",
        ),
        (
            ["{match: a, mode: upsert, keys: id}"],
            0,
            "tables[0].keys: write kafka_key, or fields as a list, such as [id]",
        ),
        (
            ["{match: a, mode: upsert, keys: [a, b..c]}"],
            0,
            "tables[0].keys[1]: a part between dots is empty; write for example customer.id",
        ),
        (
            ["{match: a, update: present}"],
            0,
            "tables[0].update: with mode append each record is a row; leave it out",
        ),
        (
            ["{match: a, deletes: gone}"],
            0,
            "tables[0].deletes: with mode append each record is a row; leave it out",
        ),
        (
            ["{match: a, mode: upsert, keys: [a], deletes: {remember_days: 3}}"],
            0,
            "tables[0].deletes: nothing is deleted by this; write `when`, `tombstones: delete`, or both",
        ),
        (
            ["{match: a, mode: upsert, keys: [a], deletes: {when: gone, remember_days: 0}}"],
            0,
            "tables[0].deletes.remember_days: write a number",
        ),
        (
            ["{match: a, mode: upsert, keys: [a], deletes: {when: gone, then: ignore, mark: gone}}"],
            0,
            "tables[0].deletes.mark: with then: ignore no row is deleted; leave it out",
        ),
        (
            ["{match: a, mode: upsert, keys: [a], deletes: {when: gone, mark: 'a b'}}"],
            0,
            "tables[0].deletes.mark: Delta takes no column of this name; use letters, digits and _",
        ),
        (
            ["{match: a, mode: upsert, keys: [a], deletes: {when: gone, mark: A}}"],
            0,
            "tables[0].deletes.mark: another column, or Delta itself, has this name; choose another",
        ),
        (
            ["{match: a, mode: upsert, keys: kafka_key, deletes: {when: gone, mark: Kafka_TS}}"],
            0,
            "tables[0].deletes.mark: another column, or Delta itself, has this name; choose another",
        ),
        (
            ["{match: a, mode: upsert, keys: kafka_key, deletes: {tombstones: delete, then: ignore}}"],
            0,
            "tables[0].deletes.then: it is about the records that meet `when`; write that, or leave it out",
        ),
        (
            ["{match: a, mode: upsert, keys: [a], deletes: {tombstones: delete}}"],
            0,
            "tables[0].deletes.tombstones: a record without a value has no field",
        ),
        (
            ["{match: a, mode: upsert, keys: kafka_key, sequence_by: [b], deletes: {tombstones: delete}}"],
            0,
            "tables[0].deletes.tombstones: a record without a value has no field that says how new it is",
        ),
        (
            ["{match: a, mode: upsert, keys: kafka_key, deletes: {tombstones: delete}}"],
            0,
            "tables[0].deletes.tombstones: records are routed by field, which one without a value does not have",
        ),
        (
            ["{match: a, mode: upsert, keys: [a], update: some}"],
            0,
            "tables[0].update: ",
        ),
        (["{match: a, mode: upsert, keys: [a, a]}"], 0, "tables[0].keys[1]: written twice; keep one"),
        (["{match: a, mode: upsert, keys: []}"], 0, "tables[0].keys: write at least 1 of them"),
        (
            ["{match: a, mode: upsert, keys: [a], sequence_by: [b, b]}"],
            0,
            "tables[0].sequence_by[1]: written twice; keep one",
        ),
        (
            ["{match: a, mode: upsert, keys: [a], properties: {delta.appendOnly: true}}"],
            0,
            "tables[0].mode: delta.appendOnly lets nobody change rows",
        ),
        (
            ["{match: a, mode: upsert, keys: [a], policies: {wider_type: widen}}"],
            0,
            "tables[0].policies.wider_type: a table with one row a key keeps its columns' types",
        ),
        (
            ["{match: a, partition_by: [land, point.x]}"],
            0,
            "tables[0].partition_by[1]: it is nested, and no table is partitioned by what is in a struct",
        ),
        (
            ["{match: a, partition_by: [kafka_ts]}"],
            0,
            "tables[0].partition_by[0]: of Kafka's columns only the day can be meant; give sink.columns.kafka_date a name",
        ),
        (
            ["{match: a, partition_by: [date(kafka_ts)]}"],
            0,
            "tables[0].partition_by[0]: an expression is none of a record's fields; for a field's day give it a column by columns.days, for the day in Kafka give",
        ),
        (["{match: a, partition_by: [kafka_date]}"], 0, "give sink.columns.kafka_date a name"),
        (["{match: a, partition_by: [land, land]}"], 0, "tables[0].partition_by[1]: written twice; keep one"),
        (["{match: a, partition_by: []}"], 0, "tables[0].partition_by: write at least 1 of them"),
        (["{comment: x}"], 0, "tables[0].match: this setting is missing; write it"),
        (["{match: ''}"], 0, "tables[0].match: it is empty"),
        (["{match: 7}"], 0, "tables[0].match: it must be a text; put it in quotes"),
        (["{match: {}}"], 0, "tables[0].match: write one of entity, topic and record"),
        (["{match: {topic: t}}"], 0, "tables[0].match.topic: records are routed by field"),
        (["{match: {record: t}}"], 0, "tables[0].match.record: records are routed by field"),
        (["{match: a}", "{match: '/(/'}"], 1, "tables[1].match: this is no regular expression: missing )"),
        (
            ["{match: a}", "{match: '/(?=a)/'}"],
            1,
            "tables[1].match: this is no regular expression: invalid perl",
        ),
        (["{match: a}", "{match: b}", "{match: A}"], 2, "tables[2].match: no entity comes to this rule"),
        (
            ["{match: a}", "{match: {entity: a}}"],
            1,
            "tables[1].match: written twice, first in tables[0]; keep one",
        ),
        (["{match: 'q*'}", "{match: b}", "{match: 'q?x'}"], 2, "since tables[0] (q*) fits each one first"),
        (["{match: 'q*'}", "{match: '/^qu/'}"], 1, "since tables[0] (q*) fits each one first"),
        (["{match: '/q/'}", "{match: quest}"], 1, "since tables[0] (/q/) fits each one first"),
        (
            ["{match: a, max_rows_per_file: 0}"],
            0,
            "tables[0].max_rows_per_file: write a number of at least 1",
        ),
        (["{match: a, properties: [x]}"], 0, "tables[0].properties: write a mapping of properties"),
    ],
)
def test_a_mistake_in_a_rule_is_told_at_its_line(
    tmp_path: Path, rules: list[str], line: int, expected: str
) -> None:
    (found,) = problems(tmp_path, with_rules(*rules))
    assert found.startswith(f"{FIRST + line}:")
    assert expected in found


def test_records_that_name_no_schema_have_no_columns_of_their_own_to_set(tmp_path: Path) -> None:
    rule = "{match: a, mode: upsert, keys: [a], update: present}"
    assert settings_from(tmp_path, with_rules(rule)).tables[0].upsert() == Upsert(("a",), update="present")
    (told,) = problems(tmp_path, f"{with_rules(rule)}decode: {{format: json}}\n")
    assert told.startswith(f"{FIRST}:")
    assert "tables[0].update: records in json name no schema of their own" in told


def test_deletes_are_a_condition_or_more_of_them(tmp_path: Path) -> None:
    start = "match: a, mode: upsert, keys: [a]"
    short, long = (
        settings_from(tmp_path, with_rules(f"{{{start}, deletes: {given}}}"))
        for given in ("\"op = 'd'\"", "{when: \"op = 'd'\", remember_days: 7}")
    )
    assert short.tables[0].upsert() == Upsert(("a",), deletes=Deleting("op = 'd'"))
    assert long.tables[0].upsert() == Upsert(("a",), deletes=Deleting("op = 'd'", 7))
    assert short.rule_book().asked() == [("tables[0].deletes", "op = 'd'")]
    for one in (short.tables[0].upsert(), long.tables[0].upsert()):
        assert one is not None
        assert Upsert.from_json(one.to_json()) == one
        assert one.lasting == Upsert(("a",))


@pytest.mark.parametrize(
    ("more", "setting"),
    [
        ({"route": {"field": "game", "table": "{entity}__deleted"}}, "route.table"),
        (
            {
                "route": {"field": "game", "table": "a_{entity}"},
                "policies": {"no_entity": {"table": "strays__deleted"}},
            },
            "policies.no_entity.table",
        ),
    ],
)
def test_no_table_is_called_as_what_remembers_deletes(more: dict[str, Any], setting: str) -> None:
    """Its rows were taken for deletes, or for records that get no table, and no start came past them."""
    rule = {"match": "*", "mode": "upsert", "keys": ["id"]}
    given = {**SOUND, **more}
    assert Settings.from_dict({**given, "tables": [rule]})
    assert Settings.from_dict({**given, "tables": [{**rule, "deletes": {"when": "gone", "then": "ignore"}}]})
    with pytest.raises(ConfigError, match=f"{setting}: what remembers the deletes of a table is called so"):
        Settings.from_dict({**given, "tables": [{**rule, "deletes": "gone"}]})


def test_what_deletes_do_is_told_and_kept() -> None:
    every = (
        (Deleting("gone"), "deletes when gone"),
        (Deleting("gone", mark="deleted"), "deletes when gone, marked by deleted"),
        (Deleting("gone", ignored=True), "deletes when gone (ignored)"),
        (Deleting("gone", ignored=True, tombstones=True), "deletes when gone (ignored) and by tombstones"),
        (Deleting(tombstones=True), "deletes by tombstones"),
    )
    for deletes, told in every:
        assert str(Upsert(deletes=deletes)) == f"mode upsert, keys kafka_key, {told}"
        assert Deleting.from_json(deletes.to_json()) == deletes
    assert [Upsert(deletes=one).remembers for one, _ in every] == [True, True, False, True, True]


def test_what_a_rule_does_not_say_its_sink_does(tmp_path: Path) -> None:
    text = with_rules(
        "{match: 'quest*', properties: {delta.checkpointInterval: 5, team: null}, comment: Quests}",
        "{match: '*', max_rows_per_file: 10}",
    )
    sink = "properties: {team: games, delta.appendOnly: true}\n  max_rows_per_file: 99"
    book = settings_from(tmp_path, text.replace("sink:\n", f"sink:\n  {sink}\n")).rule_book()
    assert book.of("quest_1") == TableSpec(
        place=0,
        match="quest*",
        properties={"team": None, "delta.appendOnly": "true", "delta.checkpointInterval": "5"},
        comment="Quests",
        most_rows=99,
    )
    other = book.of("chess")
    assert (other.setting, other.most_rows, other.comment) == ("tables[1]", 10, None)
    assert other.properties == {"team": "games", "delta.appendOnly": "true"}


@pytest.mark.parametrize(("by", "of"), [("topic", "topic"), ("record", "record"), ("topic", "entity")])
def test_a_rule_may_say_what_its_names_are_names_of(tmp_path: Path, by: str, of: str) -> None:
    given = settings_from(
        tmp_path,
        with_rules(f"{{match: {{{of}: 'games.*'}}}}").replace("  field: game_name\n", f"  by: {by}\n"),
    )
    assert given.rule_book().of("games.Buy").place == 0
    assert given.rule_book().of("chess").place is None


def test_settings_from_python_take_rules_and_give_them_back(tmp_path: Path) -> None:
    rules = [
        {"match": "a*", "properties": {"delta.appendOnly": True, "mine": None}},
        {"match": {"entity": "b"}},
    ]
    made = Settings.from_dict({**SOUND, "tables": rules}, tmp_path)
    assert [rule["match"] for rule in made.effective()["tables"]] == [
        "a*",
        {"entity": "b", "topic": None, "record": None},
    ]
    assert made.effective()["tables"][0]["properties"] == {"delta.appendOnly": "true", "mine": None}


NAMES = st.text("aB_1", max_size=6)
PATTERNS = st.one_of(st.text("aB*?", min_size=1, max_size=4), st.sampled_from(["/a/", "/^B/", "/1$/", "/./"]))


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(PATTERNS, max_size=5), st.lists(NAMES, max_size=6), st.booleans())
def test_the_first_rule_that_fits_is_a_tables_however_often_it_is_asked(
    patterns: list[str], names: list[str], folds: bool
) -> None:
    route = Route(field="game", fold_case=folds)
    rules = [TableRule(match=pattern) for pattern in patterns]
    book = RuleBook.by(rules, route, Sink.model_validate({"root": "/lake"}))
    again = pickle.loads(pickle.dumps(book))  # noqa: S301
    for name in [*names, *names]:
        expected = next((n for n, one in enumerate(patterns) if Pattern(one, folds).fits(name)), None)
        assert book.of(name).place == again.of(name).place == expected
        if folds:
            assert book.of(name.swapcase()).place == expected


def test_an_entity_is_held_against_the_rules_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    plain = Pattern.fits

    def fits(pattern: Pattern, name: str) -> bool:
        asked.append(name)
        return plain(pattern, name)

    monkeypatch.setattr(Pattern, "fits", fits)
    book = RuleBook.by(
        [TableRule(match="a"), TableRule(match="*")], Route(field="g"), Sink.model_validate({"root": "/x"})
    )
    for _ in range(1000):
        book.of("b")
    assert asked == ["b", "b"]


def test_a_rule_says_what_its_tables_are_partitioned_by() -> None:
    by_day = {**SOUND, "sink": {"root": "./lake", "columns": {"kafka_date": "day"}}}
    rules = [{"match": "a", "partition_by": ["land", "day"]}, {"match": "b"}]
    made = Settings.from_dict({**by_day, "tables": rules})
    book = made.rule_book()
    assert [book.of(entity).partition_by for entity in "abc"] == [("land", "day"), (), ()]
    assert book.partitions
    assert not Settings.from_dict(SOUND).rule_book().partitions
    # The day goes by the name that it was given.
    with pytest.raises(ConfigError, match="of Kafka's columns only the day can be meant; write day"):
        Settings.from_dict({**by_day, "tables": [{"match": "a", "partition_by": ["kafka_date"]}]})
    with pytest.raises(ConfigError, match="has this name"):
        Settings.from_dict({**SOUND, "sink": {"root": "x", "columns": {"kafka_date": "kafka_ts"}}})
