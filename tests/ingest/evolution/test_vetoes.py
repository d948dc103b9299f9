"""Which record types a table does not take, by the classes of change that they bring to it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.ingest.avro_records import GAME, event, one
from tests.ingest.pipelines import rules_for, settings

from distributary.codecs.base import load_codec
from distributary.codecs.changes.classify import ChangeClass, classify
from distributary.ingest.checkpoint.histories import Met
from distributary.ingest.columns.layout import NO_COLUMNS, Layout
from distributary.ingest.evolution.rules import CHANGE_POLICIES
from distributary.ingest.evolution.verdicts import verdicts
from distributary.ingest.evolution.vetoes import Veto, Vetoes
from distributary.ingest.pins import PinnedRecord, PinnedTable, RecordKey
from distributary.ingest.settings.groups import Policies
from distributary.registry.base import Guid, Schema

AVRO = load_codec("avro")
LEVEL, NAME = one("int", "level"), one("string", "name")
# By their ids: 2 lacks what 1 has, and so does 3, which brings something new.
SCHEMAS = {
    1: event(1, GAME, LEVEL, NAME),
    2: event(2, GAME, LEVEL),
    3: event(3, GAME, LEVEL, one("int", "a")),
}
AT = ("t", 0, 7)


def vetoes(
    root: Path, history: tuple[Any, ...], *met: Any, schemas: Any = SCHEMAS, **groups: Any
) -> list[Veto]:
    """What a table with this history does not take of what it met."""
    records = [PinnedRecord((ref, ()), schema) for ref, schema in schemas.items()]
    rules = rules_for(settings(root, route={"field": "game"}, decode={"format": "avro"}, **groups))
    known = {"chess": PinnedTable("chess", NO_COLUMNS)}
    keys: dict[RecordKey, dict[str, Any]] = {(ref, ()): {"chess": AT, "new": AT} for ref in met}
    histories = {"chess": tuple((ref, ()) for ref in history)}
    return Vetoes(AVRO, records, rules, known).of(keys, histories, {"new": "new"})


DROPPED: dict[str, Any] = {"policies": {"dropped_field": "quarantine"}}


def test_a_schema_that_lacks_a_field_is_not_taken_where_the_settings_say_so(tmp_path: Path) -> None:
    (veto,) = vetoes(tmp_path, (1,), 2, **DROPPED)
    assert veto == Veto(
        "chess",
        (2, ()),
        stops=False,
        why="field name is gone with schema 2, and policies.dropped_field is `quarantine`",
        first=AT,
    )
    (stop,) = vetoes(tmp_path, (1,), 2, policies={"dropped_field": "fail"})
    assert stop.stops
    assert vetoes(tmp_path, (1,), 2) == []


def test_an_older_producer_and_an_unknown_past_bring_no_change(tmp_path: Path) -> None:
    older = {1: SCHEMAS[2], 2: SCHEMAS[1]}
    assert vetoes(tmp_path, (2,), 1, schemas=older, **DROPPED) == []
    assert vetoes(tmp_path, (), 1, 2, **DROPPED)[0].key == (2, ())
    assert vetoes(tmp_path, (), 2, **DROPPED) == []


def test_a_schema_is_held_against_what_was_taken_and_not_against_what_was_not(tmp_path: Path) -> None:
    assert [one.key[0] for one in vetoes(tmp_path, (1,), 2, 3, **DROPPED)] == [2, 3]
    assert [one.key[0] for one in vetoes(tmp_path, (1, 2), 3, **DROPPED)] == []


def test_of_schemas_without_an_age_the_order_of_their_coming_counts(tmp_path: Path) -> None:
    first, second = Guid("b"), Guid("a")
    schemas: dict[Any, Schema] = {first: SCHEMAS[1], second: SCHEMAS[2]}
    (veto,) = vetoes(tmp_path, (first,), second, schemas=schemas, **DROPPED)
    assert veto.key == (second, ())


def test_a_tables_own_rule_goes_before_the_settings(tmp_path: Path) -> None:
    lax: dict[str, Any] = {"tables": [{"match": "chess", "policies": {"dropped_field": "keep"}}]}
    assert vetoes(tmp_path, (1,), 2, **DROPPED, **lax) == []
    strict: dict[str, Any] = {"tables": [{"match": "ch*", "policies": {"dropped_field": "fail"}}]}
    (veto,) = vetoes(tmp_path, (1,), 2, **strict)
    assert veto.why.endswith("and tables[0].policies.dropped_field is `fail`")


def test_without_the_field_that_routes_it_a_record_does_not_come_to_the_table(tmp_path: Path) -> None:
    schemas = {1: event(1, GAME, LEVEL), 2: event(2, LEVEL)}
    assert vetoes(tmp_path, (1,), 2, schemas=schemas, **DROPPED) == []


ENUM = {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}


@pytest.mark.parametrize(
    ("kind", "before", "after", "why"),
    [
        ("dropped", [LEVEL], [], "field level is gone"),
        ("renamed", [LEVEL], [one("int", "rank", aliases=["level"])], "field level is called rank"),
        ("narrowed", [one("long", "level")], [LEVEL], "field level went from bigint to int"),
        ("made_required", [one(["null", "int"], "level")], [LEVEL], "field level became required"),
        (
            "enum_value_added",
            [one(ENUM, "kind")],
            [one({**ENUM, "symbols": ["A", "B", "C"]}, "kind")],
            "enum kind got C",
        ),
        (
            "enum_value_removed",
            [one(ENUM, "kind")],
            [one({**ENUM, "symbols": ["A"]}, "kind")],
            "enum kind lost B",
        ),
        ("record_renamed", [LEVEL], [LEVEL], "record games.Event is called games.Happening"),
    ],
)
def test_every_class_has_its_policy_in_run_and_plan_alike(
    tmp_path: Path, kind: ChangeClass, before: list[Any], after: list[Any], why: str
) -> None:
    named = {"name": "Happening", "aliases": ["Event"]} if kind == "record_renamed" else {}
    schemas = {1: event(1, GAME, *before), 2: event(2, GAME, *after, **named)}
    policy = CHANGE_POLICIES[kind]
    (veto,) = vetoes(tmp_path, (1,), 2, schemas=schemas, policies={policy: "quarantine"})
    assert veto.why == f"{why} with schema 2, and policies.{policy} is `quarantine`"
    others = {name: "fail" for name in CHANGE_POLICIES.values() if name != policy}
    assert vetoes(tmp_path, (1,), 2, schemas=schemas, policies=others) == []

    rules = rules_for(settings(tmp_path, route={"field": "game"}, policies={policy: "quarantine"}))
    columns = [AVRO.reader(schemas[ref], ()).schema for ref in (1, 2)]
    found = classify(*(AVRO.description(schemas[ref], ()) for ref in (1, 2)))
    (told,) = [one for one in verdicts(found, columns[1], Layout(columns[0]), rules) if one.kind == kind]
    assert (told.action, told.setting, told.open) == ("quarantine", f"policies.{policy}", True)
    fresh = verdicts(found, columns[1], Layout(columns[0]), rules.of_new_table())
    assert "quarantine" not in [one.action for one in fresh]


@pytest.mark.parametrize("name", dict.fromkeys(CHANGE_POLICIES.values()))
def test_each_of_these_policies_keeps_everything_by_default(name: str) -> None:
    assert getattr(Policies(), name) == "keep"


MAIL = one("string", "mail", aliases=["email"])
EMAIL = one("string", "email")


def shown(
    root: Path, before: Any, after: Any, columns: dict[str, Any], history: tuple[int, ...] = (1,)
) -> Any:
    schemas = {1: event(1, GAME, *before), 2: event(2, GAME, *after)}
    found = vetoes(root, history, 2, schemas=schemas, tables=[{"match": "*", "columns": columns}])
    return [(one.folder, one.stops, one.reason, one.why.partition(",")[0]) for one in found]


@pytest.mark.parametrize(
    "columns",
    [
        {"leave": ["email"]},
        {"leave": ["EMAIL"]},
        {"mask": {"email": "m"}},
        {"hash": {"fields": ["email"], "secret": "0123456789abcdef"}},
    ],
)
def test_what_a_rule_hides_is_shown_by_no_other_name(tmp_path: Path, columns: dict[str, Any]) -> None:
    """An alias tells that it is the same field: it landed in the clear, in a column of its own."""
    why = "field mail was called email"
    expected = [("chess", False, "columns", why), ("new", False, "columns", why)]
    assert shown(tmp_path, [EMAIL], [MAIL], columns) == expected
    # So where nobody knows the schema of before, or the table did not meet it.
    assert shown(tmp_path, [], [MAIL], columns) == expected
    assert shown(tmp_path, [EMAIL], [MAIL], columns, ()) == expected
    # A schema that names the other in turn tells as much.
    assert (
        shown(tmp_path, [one("string", "email", aliases=["mail"])], [one("string", "mail")], columns)
        == expected
    )


@pytest.mark.parametrize(
    "third",
    [
        # The alias went, as aliases do once all have read it; and it was called otherwise once more.
        one("string", "mail"),
        one("string", "post", aliases=["mail"]),
    ],
)
def test_nor_by_one_that_only_a_schema_between_tells(tmp_path: Path, third: Any) -> None:
    schemas = {1: event(1, GAME, EMAIL), 2: event(2, GAME, MAIL), 3: event(3, GAME, third, LEVEL)}

    def found(leave: list[str], **columns: Any) -> list[str]:
        rule = {"match": "*", "columns": {"leave": leave, **columns}}
        return [
            one.why.partition(",")[0] for one in vetoes(tmp_path, (1,), 3, schemas=schemas, tables=[rule])
        ]

    name = third["name"]
    assert found(["email"]) == [f"field {name} was called email"] * 2
    assert found(["email", name]) == []
    assert found(["email"], cast={"mail": "string", name: "string"}) == []


def test_a_new_name_that_the_rule_knows_is_no_matter(tmp_path: Path) -> None:
    assert shown(tmp_path, [EMAIL], [MAIL], {"leave": ["email", "mail"]}) == []
    assert shown(tmp_path, [EMAIL], [MAIL], {"leave": ["email"], "rename": {"mail": "post"}}) == []
    assert shown(tmp_path, [EMAIL], [MAIL], {"take": ["game"]}) == []
    assert shown(tmp_path, [EMAIL], [MAIL], {"rename": {"email": "post"}}) == []
    # Both are there: they are two.
    assert shown(tmp_path, [EMAIL], [EMAIL, MAIL], {"leave": ["email"]}) == []


def test_what_is_hidden_within_is_shown_by_no_other_name_of_what_is_around_it(tmp_path: Path) -> None:
    who = {"type": "record", "name": "Who", "fields": [EMAIL, LEVEL]}
    for leave in ("who.email", "who"):
        found = shown(tmp_path, [one(who, "who")], [one(who, "whom", aliases=["who"])], {"leave": [leave]})
        assert [why for *_, why in found] == ["field whom was called who"] * 2
    many = {"type": "array", "items": who}
    later = {"type": "array", "items": {**who, "fields": [MAIL, LEVEL]}}
    found = shown(tmp_path, [one(many, "all")], [one(later, "all")], {"leave": ["all.email"]})
    assert [why for *_, why in found] == ["field all.element.mail was called email"] * 2


@pytest.mark.parametrize(
    "around",
    [
        lambda record: ["null", record],
        lambda record: [record, {"type": "record", "name": "Firm", "fields": [LEVEL]}],
        lambda record: {"type": "array", "items": record},
    ],
)
def test_nor_where_the_whole_is_no_record_and_has_it_within(tmp_path: Path, around: Any) -> None:
    schemas = {
        ref: Schema(ref, "AVRO", json.dumps(around({"type": "record", "name": "Who", "fields": [field]})))
        for ref, field in ((1, EMAIL), (2, MAIL))
    }
    found = vetoes(
        tmp_path, (1,), 2, schemas=schemas, tables=[{"match": "*", "columns": {"leave": ["email"]}}]
    )
    assert [one.reason for one in found] == ["columns"] * 2


PROTOBUF = "message Event { string game = 1; string %s = 2; int32 level = 3; }"


def of_protobuf(root: Path, *texts: str, leave: Sequence[str] = ("email",)) -> list[str]:
    """Why a table does not take records of the last of these schemas, all of which the pipeline knows."""
    codec = load_codec("protobuf")
    records = [
        PinnedRecord((ref, codec.default_path), Schema(ref, "PROTOBUF", f'syntax = "proto3"; {text}'))
        for ref, text in enumerate(texts, 1)
    ]
    said = settings(
        root,
        route={"by": "topic", "field": None},
        decode={"format": "protobuf"},
        tables=[{"match": "*", "columns": {"leave": [*leave]}}],
    )
    known = {"chess": PinnedTable("chess", NO_COLUMNS)}
    met: Met = {(len(texts), codec.default_path): {"chess": AT}}
    return [one.why.partition(",")[0] for one in Vetoes(codec, records, rules_for(said), known).of(met, {})]


def test_a_message_of_the_same_name_in_another_topic_is_another_one(tmp_path: Path) -> None:
    """As those are that Kafka Connect calls alike, whatever is in them: the numbers of one say nothing of the other."""
    users = "message ConnectDefault1 { int64 id = 1; string email = 2; string name = 3; bool on = 4; }"
    orders = "message ConnectDefault1 { string no = 1; double total = 2; int64 at = 3; string by = 4; }"
    assert of_protobuf(tmp_path, users, orders) == []
    # Not so where all got other names and kept their types, or most kept their names.
    other = "message ConnectDefault1 { int64 user = 1; string mail = 2; string called = 3; bool is_on = 4; }"
    assert of_protobuf(tmp_path, users, other) == ["field mail was called email"]
    typed = "message ConnectDefault1 { int64 id = 1; bytes mail = 2; string name = 3; bool on = 4; }"
    assert of_protobuf(tmp_path, users, typed) == ["field mail was called email"]


def test_a_number_tells_it_of_protobuf(tmp_path: Path) -> None:
    found = of_protobuf(tmp_path, PROTOBUF % "email", PROTOBUF % "mail")
    assert found == ["field mail was called email"]
    # Its package has a version in its name, and so has the next one.
    one, other = (f"package games.v{n}; {PROTOBUF % name}" for n, name in ((1, "email"), (2, "mail")))
    assert of_protobuf(tmp_path, one, other) == found
    assert of_protobuf(tmp_path, one, other.replace("Event", "Other")) == []
    # The old name is reserved, as Protobuf advises who renames a field: it landed in the clear.
    kept = PROTOBUF.replace("{", '{ reserved "email";', 1)
    assert of_protobuf(tmp_path, PROTOBUF % "email", kept % "mail") == found


@pytest.mark.parametrize(
    ("field", "found"),
    [
        ("int64 at = 2;", []),
        ("repeated Who at = 2;", []),
        ("bytes mail = 2;", ["field mail was called email"]),
        ("Who who = 4;", ["field who.mail was called email"]),
    ],
)
def test_in_another_version_of_its_package_a_number_tells_it_of_a_field_of_its_kind(
    tmp_path: Path, field: str, found: list[str]
) -> None:
    """Numbers begin anew there: a time is nobody's address, and all records of the new version went to quarantine."""
    text = "package games.v%d; message Event { string game = 1; %s } message Who { string %s = 1; }"
    earlier = text % (1, "string email = 2; Who who = 4;", "email")
    later = text % (2, field, "mail")
    assert of_protobuf(tmp_path, earlier, later, leave=["email", "who.email"]) == found


@pytest.mark.parametrize(
    ("before", "after", "now"),
    [
        ("Who who = 1;", "repeated Who who = 1;", "who.element.mail"),
        ("repeated Who who = 1;", "Who who = 1;", "who.mail"),
        ("map<string, Who> who = 1;", "Who who = 1;", "who.mail"),
        ("Who who = 1;", "repeated Who whose = 1;", "whose.element.mail"),
    ],
)
def test_and_so_it_does_within_what_became_a_list_or_was_one(
    tmp_path: Path, before: str, after: str, now: str
) -> None:
    text = "message Event { %s string game = 2; } message Who { string %s = 1; int32 level = 2; }"
    found = of_protobuf(
        tmp_path, text % (before, "email"), text % (after, "mail"), leave=["who.email", "whose.email"]
    )
    assert found == [f"field {now} was called email"]


def test_where_tables_get_no_columns_it_is_shown_by_one_that_is_there_by_the_rules_names(
    tmp_path: Path,
) -> None:
    who, later = ({"type": "record", "name": "Who", "fields": [field]} for field in (EMAIL, MAIL))
    records = [
        PinnedRecord((ref, ()), event(ref, GAME, one(of, "who"))) for ref, of in ((1, who), (2, later))
    ]
    rule = {"match": "*", "columns": {"leave": ["who.email"], "rename": {"who": "person"}}}
    said = settings(
        tmp_path,
        route={"field": "game"},
        decode={"format": "avro"},
        policies={"new_field": "ignore"},
        tables=[rule],
    )
    met: Met = {(2, ()): {"chess": AT}}
    for name, expected in (("mail", 1), ("post", 0)):
        layout = Layout(pa.schema([("person", pa.struct([(name, pa.string())]))]))
        known = {"chess": PinnedTable("chess", layout)}
        assert len(Vetoes(AVRO, records, rules_for(said), known).of(met, {})) == expected
