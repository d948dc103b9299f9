"""Records of one schema as a rule has them: which columns, and what is in them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timezone
from typing import Any

import pyarrow as pa
import pytest

from distributary.ingest.reshaping.given import ColumnsRule
from distributary.ingest.reshaping.rule import Reshape, Secret
from distributary.ingest.reshaping.shape import Reshaped, columns_of, is_there, shape_of, why_unshapeable
from distributary.ingest.reshaping.texts import hashed

WORD = "0123456789abcdef"
ROWS = [
    {
        "id": 1,
        "Email": "ann@x.org",
        "customer": {"email": "ann@y.org", "name": "Ann", "card": {"no": "41111234", "kind": "v"}},
        "contacts": [{"phone": "+4912345", "kind": "home"}, {"phone": None, "kind": "work"}],
        "tags": ["a", "b"],
        "attrs": [("x", {"pin": 7, "n": 1})],
        "amount": "1.50",
    },
    {
        "id": 2,
        "Email": None,
        "customer": None,
        "contacts": None,
        "tags": [],
        "attrs": [],
        "amount": "x",
    },
]
CUSTOMER = pa.struct(
    [
        ("email", pa.string()),
        ("name", pa.string()),
        ("card", pa.struct([("no", pa.string()), ("kind", pa.string())])),
    ]
)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("Email", pa.string()),
        ("customer", CUSTOMER),
        ("contacts", pa.list_(pa.struct([("phone", pa.string()), ("kind", pa.string())]))),
        ("tags", pa.list_(pa.string())),
        ("attrs", pa.map_(pa.string(), pa.struct([("pin", pa.int32()), ("n", pa.int32())]))),
        ("amount", pa.string()),
    ]
)
RECORDS = pa.RecordBatch.from_pylist(ROWS, SCHEMA)
HEADERS = ["A", "X-Trace"]
KAFKA = pa.RecordBatch.from_pylist(
    [{"headers": [None, b"t1"], "ts_type": 0}, {"headers": [b"a", b"\xff"], "ts_type": 1}],
    pa.schema([("headers", pa.list_(pa.binary())), ("ts_type", pa.int32())]),
)


def rule(**said: Any) -> Reshape:
    hashes = {} if "hash" not in said else {"hash": {"fields": said.pop("hash"), "secret": WORD}}
    return ColumnsRule.model_validate({**said, **hashes}).rule()


def reshaped(records: pa.RecordBatch = RECORDS, **said: Any) -> Reshaped:
    return shape_of(rule(**said), records.schema).apply(records, KAFKA, HEADERS)


def first(**said: Any) -> dict[str, Any]:
    made: Mapping[str, Any] = reshaped(**said).rows.to_pylist()[0]
    return dict(made)


def digest(value: str) -> str:
    return str(hashed(Secret(WORD.encode()), pa.array([value]))[0].as_py())


def test_what_is_not_taken_is_gone() -> None:
    found = reshaped(take=["id", "customer.card.kind", "contacts.phone", "attrs.n"])
    assert found.rows.to_pylist() == [
        {
            "id": 1,
            "customer": {"card": {"kind": "v"}},
            "contacts": [{"phone": "+4912345"}, {"phone": None}],
            "attrs": [("x", {"n": 1})],
        },
        {"id": 2, "customer": None, "contacts": None, "attrs": []},
    ]
    assert found.refused == ()


@pytest.mark.parametrize("path", ["contacts.phone", "contacts.element.phone"])
def test_what_is_left_out_is_gone_within_lists_too(path: str) -> None:
    assert first(leave=[path])["contacts"] == [{"kind": "home"}, {"kind": "work"}]


def test_what_is_left_out_sees_no_case() -> None:
    assert "Email" not in first(leave=["email"])
    assert "email" not in first(leave=["CUSTOMER.EMAIL"])["customer"]
    # What is taken does: who lets something land says so.
    assert "Email" not in first(take=["email", "id"])


def test_a_struct_of_which_nothing_is_left_is_gone() -> None:
    left = ["customer.email", "customer.name", "customer.card", "contacts.phone", "contacts.kind", "tags"]
    assert first(leave=left, take=["customer", "contacts", "tags", "id"]) == {"id": 1}


def test_a_batch_of_which_nothing_is_left_keeps_its_rows() -> None:
    found = reshaped(take=["nothing"])
    assert (found.rows.num_columns, found.rows.num_rows) == (0, 2)


def test_names_change_within_their_struct() -> None:
    found = first(
        rename={
            "id": "Id2",
            "customer.card": "payment",
            "customer.card.no": "number",
            "contacts.phone": "tel",
        }
    )
    assert found["Id2"] == 1
    assert found["customer"]["payment"] == {"number": "41111234", "kind": "v"}
    assert found["contacts"][0] == {"tel": "+4912345", "kind": "home"}


def test_names_may_be_exchanged() -> None:
    found = first(rename={"id": "amount", "amount": "id"})
    assert (found["id"], found["amount"]) == ("1.50", 1)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"rename": {"id": "tags"}}, "a field is to be called tags, and there is one already"),
        ({"rename": {"id": "TAGS"}}, "a field is to be called TAGS, and there is one already"),
        ({"rename": {"customer.email": "name"}}, "a field is to be called customer.name, and there is one already"),
        ({"constants": {"ID": 1}}, "a column ID is to be added, and there is a field id"),
        ({"hash": ["customer"]}, "field customer is a struct, of which no hash is made: name the fields in it"),
        ({"mask": {"contacts": "x"}}, "field contacts.element is a struct, of which no mask is made"),
        ({"leave": ["amount.cents"]}, "field amount is of type string, which has no cents to be hidden"),
        ({"hash": ["tags.text"]}, "field tags.element is of type string, which has no text to be hidden"),
        ({"cast": {"id": "timestamp"}}, "field id is of type bigint, which is never a timestamp"),
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_what_the_rule_says(said: dict[str, Any], expected: str) -> None:
    assert why_unshapeable(rule(**said), SCHEMA).startswith(expected)
    assert columns_of(rule(**said), SCHEMA) == pa.schema([])


def test_a_name_is_free_once_its_field_is_left_out_or_has_another() -> None:
    assert first(rename={"id": "tags"}, leave=["tags"])["tags"] == 1
    assert first(constants={"id": 5}, rename={"id": "old"})["id"] == 5


def test_hashes_and_masks_stand_in_the_place_of_values() -> None:
    found = reshaped(
        hash=["email", "customer.card.no", "contacts.phone", "attrs.pin"],
        mask={"customer.name": "hidden", "customer.email": {"keep_last": 3}, "tags": "t"},
    ).rows.to_pylist()
    assert found[0]["Email"] == digest("ann@x.org")
    assert found[0]["customer"] == {
        "email": "****org",
        "name": "hidden",
        "card": {"no": digest("41111234"), "kind": "v"},
    }
    assert [one["phone"] for one in found[0]["contacts"]] == [digest("+4912345"), None]
    assert found[0]["tags"] == ["t", "t"]
    assert found[0]["attrs"] == [("x", {"pin": digest("7"), "n": 1})]
    assert (found[1]["Email"], found[1]["customer"], found[1]["contacts"]) == (None, None, None)


def test_a_value_that_is_none_of_its_type_refuses_its_record() -> None:
    found = reshaped(cast={"amount": "decimal(5,2)", "id": "string"})
    assert found.refused == ((1, "field amount has a value that is no decimal(5,2)"),)
    assert [str(row["amount"]) for row in found.rows.to_pylist()] == ["1.50", "None"]
    assert found.rows.column("id").to_pylist() == ["1", "2"]


def test_a_value_within_a_list_is_told_by_its_row() -> None:
    bad = reshaped(cast={"contacts.kind": "int"})
    assert bad.refused == ((0, "field contacts.element.kind has a value that is no int"),)


def test_a_slice_is_what_it_is_a_slice_of() -> None:
    said: dict[str, Any] = {
        "cast": {"contacts.kind": "int"},
        "hash": ["customer.email"],
        "leave": ["attrs.pin"],
    }
    twice = pa.concat_batches([RECORDS, RECORDS])
    shape = shape_of(rule(**said), SCHEMA)
    kafka = pa.concat_batches([KAFKA, KAFKA])
    whole = shape.apply(twice, kafka, HEADERS)
    for begin in range(4):
        found = shape.apply(twice.slice(begin), kafka.slice(begin), HEADERS)
        assert found.rows.to_pylist() == whole.rows.slice(begin).to_pylist()
        assert found.refused == tuple((row - begin, why) for row, why in whole.refused if row >= begin)


def test_columns_that_no_field_is_for() -> None:
    found = reshaped(
        take=["id"],
        constants={"region": "eu", "n": 1, "half": 0.5, "yes": True},
        headers={"trace": "X-Trace", "a": "A"},
        timestamp_type="kafka_timestamp_type",
    )
    fixed = {"region": "eu", "n": 1, "half": 0.5, "yes": True}
    assert found.rows.to_pylist() == [
        {"id": 1, **fixed, "trace": "t1", "a": None, "kafka_timestamp_type": "create_time"},
        {
            "id": 2,
            **fixed,
            "trace": "\N{REPLACEMENT CHARACTER}",
            "a": "a",
            "kafka_timestamp_type": "log_append_time",
        },
    ]
    assert [str(one.type) for one in found.rows.schema][1:5] == ["string", "int64", "double", "bool"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [("customer.card.no", True), ("contacts.phone", True), ("attrs.pin", True), ("customer.none", False), ("tags.x", False)],
)  # fmt: skip
def test_whether_a_path_leads_anywhere(path: str, expected: bool) -> None:
    said = rule(mask={path: "x"})
    assert is_there(said, said.ops[0][0], SCHEMA) == expected


def test_a_name_with_a_dot_stands_in_backticks() -> None:
    record = pa.schema([("a.b", pa.string()), ("a", pa.struct([("b", pa.string())]))])
    assert columns_of(rule(leave=["`a.b`"]), record).names == ["a"]
    assert columns_of(rule(leave=["a.b"]), record).names == ["a.b"]


TIMES = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("text", pa.string()),
        ("ms", pa.int64()),
        ("meta", pa.struct([("at", pa.timestamp("us", "UTC"))])),
        ("flag", pa.bool_()),
    ]
)
LATE = datetime(1969, 12, 31, 23, 59, 59, 999_999)
TIMED = [
    {
        "at": LATE.replace(tzinfo=timezone.utc),
        "local": LATE,
        "day": date(2026, 1, 2),
        "text": "2026-01-02T01:00:00+02:00",
        "ms": 86_400_000 - 1,
        "meta": None,
        "flag": True,
    },
    {
        "at": None,
        "local": datetime(9999, 12, 31, 23),
        "day": None,
        "text": "soon",
        "ms": -1,
        "meta": {"at": datetime(1, 1, 1, tzinfo=timezone.utc)},
        "flag": None,
    },
]


def days_of(days: Mapping[str, str], **more: Any) -> Reshaped:
    rule = ColumnsRule.model_validate({"days": days, **more}).rule()
    found = shape_of(rule, TIMES).apply(pa.RecordBatch.from_pylist(TIMED, TIMES), KAFKA, HEADERS)
    assert [found.rows.schema.field(name).type for name in days] == [pa.date32()] * len(days)
    return found


def test_the_day_of_a_time_is_a_column_in_utc() -> None:
    named = {"a": "at", "b": "local", "c": "day", "d": "meta.at", "e": "ms", "f": "text", "g": "nowhere.at"}
    found = days_of(named, cast={"ms": "timestamp(ms)"})
    first, second = ({name: row[name] for name in named} for row in found.rows.to_pylist())
    before = date(1969, 12, 31)
    assert first == {
        "a": before,
        "b": before,
        "c": date(2026, 1, 2),
        "d": None,
        "e": date(1970, 1, 1),
        "f": date(2026, 1, 1),
        "g": None,
    }
    assert second == {
        "a": None,
        "b": date(9999, 12, 31),
        "c": None,
        "d": date(1, 1, 1),
        "e": before,
        "f": None,
        "g": None,
    }
    assert found.refused == ((1, "field text has a value that says no day"),)


@pytest.mark.parametrize("field", ["ms", "flag", "meta", "at.more"])
def test_what_says_no_day_has_its_records_refused(field: str) -> None:
    rule = ColumnsRule.model_validate({"days": {"it": field}}).rule()
    assert why_unshapeable(rule, TIMES) == f"field {field} says no day, which it is to be of"
    assert columns_of(rule, TIMES).names == []


PERSON = pa.struct([("email", pa.string()), ("name", pa.string())])
FIRM = pa.struct([("vat", pa.string())])


@pytest.mark.parametrize("inside", [lambda of: of, pa.list_], ids=["alone", "in a list"])
def test_what_is_hidden_in_a_record_stays_so_when_its_field_becomes_a_union(inside: Any) -> None:
    """Avro lets it, and whoever reads the older schema's path finds nothing there."""
    union = pa.struct([("member0", PERSON), ("member1", FIRM)])
    said: dict[str, Any] = {"leave": ["who.email"], "hash": ["who.name"]}
    found = columns_of(rule(**said), pa.schema([("id", pa.int64()), ("who", inside(union))]))
    wanted = pa.struct([("member0", pa.struct([("name", pa.string())])), ("member1", FIRM)])
    assert found == pa.schema([("id", pa.int64()), ("who", inside(wanted))])
    assert is_there(rule(**said), ("who", "email"), pa.schema([("who", inside(union))]))
    by_branch = columns_of(rule(leave=["who.member0.email"]), pa.schema([("who", inside(union))]))
    assert by_branch.field("who").type == inside(
        pa.struct([("member0", pa.struct([("name", pa.string())])), ("member1", FIRM)])
    )


def test_what_is_hidden_in_a_record_stays_so_when_that_becomes_one_of_several() -> None:
    """A topic of one type that comes to have several: its schema is then a union, and the only column has all of them."""
    schema = pa.schema([("value", pa.struct([("member0", PERSON), ("member1", pa.list_(PERSON))]))])
    said: dict[str, Any] = {"leave": ["email"], "hash": ["name"]}
    name = pa.struct([("name", pa.string())])
    assert columns_of(rule(**said), schema).field("value").type == pa.struct(
        [("member0", name), ("member1", pa.list_(name))]
    )
    assert is_there(rule(**said), ("email",), schema)
    assert not is_there(rule(leave=["vat"]), ("vat",), schema)
    by_path = columns_of(rule(leave=["value.email"]), schema)
    assert by_path == columns_of(rule(leave=["email"]), schema)


@pytest.mark.parametrize(
    "whole",
    [lambda one: one, pa.list_, lambda one: pa.map_(pa.string(), one), lambda one: pa.list_(pa.list_(one))],
)
def test_what_is_hidden_in_a_record_stays_so_where_the_schema_becomes_one_that_holds_it(whole: Any) -> None:
    """`["null", Person]`, an array or a map of persons: none is a record, so that the only column has them."""
    schema = pa.schema([("value", whole(PERSON))])
    hidden = rule(leave=["email"], hash=["name"])
    assert columns_of(hidden, schema) == pa.schema([("value", whole(pa.struct([("name", pa.string())])))])
    assert is_there(rule(leave=["email"]), ("email",), schema)
    assert columns_of(rule(leave=["vat"]), schema) == schema


def test_a_union_without_what_is_hidden_is_left_alone() -> None:
    schema = pa.schema([("value", pa.struct([("member0", pa.string()), ("member1", pa.int64())]))])
    assert columns_of(rule(leave=["email"]), schema) == schema
    beside = pa.schema([("value", pa.struct([("member0", PERSON), ("member1", FIRM)])), ("id", pa.int64())])
    assert columns_of(rule(leave=["email"]), beside) == beside


def test_a_branch_that_may_be_anything_has_all_its_records_refused() -> None:
    union = pa.struct([("member0", PERSON), ("member1", pa.string())])
    schema = pa.schema([("who", union)])
    assert "who.member1 is of type string, which has no email" in why_unshapeable(
        rule(leave=["who.email"]), schema
    )
    assert why_unshapeable(rule(leave=["who.member0.email"]), schema) == ""
    assert columns_of(rule(take=["who.email", "id"]), schema) == pa.schema([])
