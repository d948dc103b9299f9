"""What a rule of tables says of their columns: what is wrong with it is told at its line, and its secret comes from the environment."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from tests.ingest.settings.test_model import problems, settings_from
from tests.ingest.settings.test_table_rules import FIRST, SOUND, with_rules

from distributary.errors import ConfigError
from distributary.ingest.reshaping.rule import Added, Beside, Op, Reshape, Secret
from distributary.ingest.settings.model import Settings

SECRET = "0123456789abcdef"  # noqa: S105
UPSERT = "mode: upsert, keys: "


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (
            "columns: {leaves: [a]}",
            "columns.leaves: no setting is called so; did you mean tables.columns.leave?",
        ),
        ("columns: {leave: [a..b]}", "columns.leave[0]: it is no path; write names with dots between"),
        ("columns: {leave: [a, a]}", "columns.leave[1]: written twice; keep one"),
        ("columns: {take: []}", "columns.take: write at least 1 of them"),
        ("columns: {days: {d: a..b}}", "columns.days.d: it is no path"),
        (
            "columns: {days: {d: Meta.at}, leave: [meta]}",
            "columns.days.d: the field is hidden, and its day would",
        ),
        (
            "columns: {days: {kafka_ts: at}}",
            "columns.days.kafka_ts: another column, or Delta itself, has this",
        ),
        (
            "columns: {days: {d: at}, constants: {D: 1}}",
            "columns.days.d: another column, or Delta itself, has this name",
        ),
        (
            "partition_by: ['date(at)']",
            "partition_by[0]: an expression is none of a record's fields; for a field's day",
        ),
        ("columns: {rename: {a..b: c}}", "columns.rename.a..b: it is no path"),
        ("columns: {rename: {a: a}}", "columns.rename.a: that is its name already; leave it out"),
        ("columns: {rename: {a: 'b.c'}}", "columns.rename.a: Delta takes no column of this name"),
        (
            "columns: {rename: {a: x, b: X}}",
            "columns.rename.b: another column, or Delta itself, has this name",
        ),
        (
            "columns: {rename: {a: kafka_ts}}",
            "columns.rename.a: another column, or Delta itself, has this name",
        ),
        ("columns: {rename: {a: _change_type}}", "columns.rename.a: another column, or Delta itself, has"),
        (
            "columns: {take: [a, B], rename: {a: b}}",
            "columns.rename.a: a field that is taken has this name; rename that too, or choose another",
        ),
        (
            "columns: {cast: {a: number}}",
            "columns.cast.a: no type is called so; write one of string, boolean",
        ),
        ("columns: {cast: {a: 'decimal(40,2)'}}", "columns.cast.a: no type is called so"),
        (
            "columns: {hash: {fields: [a]}}",
            "columns.hash.secret: whoever tries all values would find those of",
        ),
        (
            "columns: {hash: {fields: [a], secret: in the file}}",
            "columns.hash.secret: secrets come from the environment; write ${VARIABLE} and export the variable",
        ),
        (
            "columns: {hash: {fields: [a], secret: '${SHORT}'}}",
            "columns.hash.secret: it is too short; take one of at least 16 characters",
        ),
        (
            "columns: {hash: {fields: [a], secret: '${NOWHERE}'}}",
            "columns.hash.secret: the environment has no",
        ),
        ("columns: {mask: {a: 4}}", "columns.mask.a: it must be a text; put it in quotes"),
        ("columns: {mask: {a: {keep_last: 0}}}", "columns.mask.a.keep_last: write a number of at least 1"),
        (
            "columns: {mask: {a: x}, cast: {a: int}}",
            "columns.mask.a: something is done with its values already",
        ),
        (
            "columns: {mask: {a: x, a.b: x}}",
            "columns.mask.a.b: something is done with its values already; keep one of cast, hash and mask",
        ),
        ("columns: {leave: [a], mask: {A.b: x}}", "columns.mask.A.b: columns.leave leaves it out"),
        (
            "columns: {take: [a], leave: [b]}",
            "columns.leave[0]: columns.take does not have it, so that it lands",
        ),
        (
            "columns: {take: [a.b], mask: {a: x}}",
            "columns.mask.a: columns.take does not have it; add it there",
        ),
        ("columns: {constants: {a: .inf}}", "columns.constants.a: write a finite number"),
        (
            "columns: {constants: {a: 9223372036854775808}}",
            "columns.constants.a: it is too large for a bigint",
        ),
        ("columns: {constants: {'a b': 1}}", "columns.constants.a b: Delta takes no column of this name"),
        (
            "columns: {constants: {kafka_TS: 1}}",
            "columns.constants.kafka_TS: another column, or Delta itself",
        ),
        (
            "columns: {constants: {a: 1}, headers: {A: h}}",
            "columns.headers.A: another column, or Delta itself",
        ),
        (
            "columns: {timestamp_type: kafka_offset}",
            "columns.timestamp_type: another column, or Delta itself",
        ),
        ("columns: {key: hash}", "columns.key: a hash needs a secret"),
        (
            f"{UPSERT}kafka_key, columns: {{key: leave}}",
            "columns.key: a record's key names its row; write keep",
        ),
        (f"{UPSERT}[a], columns: {{leave: [a]}}", "keys[0]: columns.leave leaves it out, so that it has no"),
        (
            f"{UPSERT}[a.b], columns: {{leave: [A]}}",
            "keys[0]: columns.leave leaves it out, so that it has no",
        ),
        (f"{UPSERT}[a.b], columns: {{rename: {{a: c}}}}", "keys[0]: columns.rename calls it c.b; write that"),
        (f"{UPSERT}[a], columns: {{take: [b]}}", "keys[0]: columns.take does not have it, so that it has no"),
        (f"{UPSERT}[c], columns: {{rename: {{a: c}}, mask: {{a: x}}}}", "keys[0]: columns.mask has it, and"),
        (
            f"{UPSERT}[a], sequence_by: [b], columns: {{mask: {{b: x}}}}",
            "sequence_by[0]: columns has a hash or a mask of it, which is in no order; name another",
        ),
        ("partition_by: [a], columns: {leave: [a]}", "partition_by[0]: columns.leave leaves it out"),
        (
            f"{UPSERT}[a], deletes: {{when: 'x = 1', mark: gone}}, columns: {{constants: {{Gone: 1}}}}",
            "columns.constants.Gone: another column, or Delta itself, has this name",
        ),
    ],
)
def test_what_is_wrong_is_told_at_its_line(tmp_path: Path, rule: str, expected: str) -> None:
    text = with_rules(f"{{match: a, {rule}}}")
    (found,) = problems(tmp_path, text, HASH_SECRET=SECRET, SHORT="0123")
    place, _, said = found.partition(": ")
    assert place.partition(":")[0] == str(FIRST)
    assert said.startswith(f"tables[0].{expected}")


@pytest.mark.parametrize(
    "rule",
    [
        "columns: {}",
        "columns: {take: [a.b, c], rename: {a: x, a.b: y}, cast: {c: 'Decimal(18, 2)'}}",
        "columns: {rename: {a.x: y, b.x: y}, constants: {y: 1}}",
        "columns: {rename: {a: b, b: a}}",
        "columns: {take: [a, b], leave: [a.b]}",
        f"{UPSERT}[b, k], sequence_by: [at.x], columns: {{rename: {{a: b}}, leave: [c], constants: {{k: 1}}}}",
        f"{UPSERT}[a], columns: {{hash: {{fields: [a], secret: '${{HASH_SECRET}}'}}}}",
        f"{UPSERT}kafka_key, columns: {{key: hash, hash: {{fields: [a], secret: '${{HASH_SECRET}}'}}}}",
        "columns: {leave: ['`a.b`.c']}",
    ],
)
def test_these_go_together(tmp_path: Path, rule: str) -> None:
    found = settings_from(tmp_path, with_rules(f"{{match: a, {rule}}}"), HASH_SECRET=SECRET)
    assert found.tables[0].columns is not None


def given(**columns: Any) -> Settings:
    return Settings.from_dict({**SOUND, "tables": [{"match": "a", "columns": columns}, {"match": "b"}]})


def test_what_a_rule_says_is_what_workers_go_by() -> None:
    book = given(
        take=["a.b", "`x.y`", "c", "d"],
        leave=["a.b.c"],
        rename={"c": "C2"},
        cast={"a.b.n": "BigInt"},
        hash={"fields": ["d"], "secret": SECRET},
        mask={"`x.y`": {"keep_last": 4}},
        constants={"one": 1, "yes": True, "half": 0.5, "text": "1"},
        headers={"trace": "X-Trace", "other": "A"},
        timestamp_type="kafka_timestamp_type",
    ).rule_book()
    rule = book.reshape("a")
    assert rule == Reshape(
        ops=(
            (("a", "b"), Op("take")),
            (("x.y",), Op("take")),
            (("c",), Op("take")),
            (("d",), Op("take")),
            (("a", "b", "c"), Op("leave")),
            (("d",), Op("hash")),
            (("c",), Op("rename", "C2")),
            (("a", "b", "n"), Op("cast", "bigint")),
            (("x.y",), Op("mask", last=4)),
        ),
        added=(
            Added("one", "bigint", "1"),
            Added("yes", "boolean", "true"),
            Added("half", "double", "0.5"),
            Added("text", "string", "1"),
            Added("trace", "header", "X-Trace"),
            Added("other", "header", "A"),
            Added("kafka_timestamp_type", "timestamp_type"),
        ),
        secret=Secret(SECRET.encode()),
        payload=False,
    )
    assert book.beside == Beside(("A", "X-Trace"), timestamp_type=True)
    assert (book.reshape("b"), book.reshape("c"), book.reshapes) == (None, None, True)
    assert pickle.loads(pickle.dumps(book)).reshape("a") == rule  # noqa: S301
    assert str(rule) == (
        "take a.b, `x.y`, c, d; leave a.b.c; hash d; rename c as C2; cast a.b.n as bigint; mask `x.y` but 4; "
        "add one, yes, half, text, trace, other, kafka_timestamp_type; drop from quarantine"
    )
    assert not Settings.from_dict(SOUND).rule_book().reshapes


@pytest.mark.parametrize(
    ("columns", "kept"),
    [
        ({}, True),
        ({"rename": {"a": "b"}, "cast": {"c": "int"}, "constants": {"d": 1}}, True),
        ({"leave": ["a"]}, False),
        ({"take": ["a"]}, False),
        ({"mask": {"a": "x"}}, False),
        ({"key": "leave"}, False),
        ({"hash": {"fields": ["a"], "secret": SECRET}}, False),
        ({"leave": ["a"], "quarantine": "raw"}, True),
        ({"quarantine": "drop"}, False),
    ],
)
def test_quarantine_has_no_payload_of_what_is_hidden_unless_that_is_said(
    columns: dict[str, Any], kept: bool
) -> None:
    (rule,) = given(**columns).rule_book().in_quarantine("a")
    assert rule.payload == kept


def test_of_a_record_that_nobody_knows_the_entity_of_each_rule_may_be_the_one() -> None:
    book = given(leave=["a"]).rule_book()
    assert [len(book.in_quarantine(entity)) for entity in ("a", "b", "c", None)] == [1, 0, 0, 1]


def test_the_secret_is_shown_nowhere() -> None:
    settings = given(hash={"fields": ["a"], "secret": SECRET})
    rule = settings.rule_book().reshape("a")
    assert rule is not None
    for shown in (
        repr(settings),
        repr(rule),
        str(rule),
        json.dumps(settings.effective()),
        json.dumps(rule.to_json()),
    ):
        assert SECRET not in shown
    assert rule.without_secret().secret is None
    assert rule.secret is not None
    told = {rule.secret.fingerprint: rule.secret}
    assert Reshape.from_json(json.loads(json.dumps(rule.to_json())), told.__getitem__) == rule


def test_a_secret_of_a_later_rule_has_to_come_from_the_environment_too(tmp_path: Path) -> None:
    rules = [
        "{match: a, columns: {hash: {fields: [x], secret: '${HASH_SECRET}'}}}",
        f"{{match: b, columns: {{hash: {{fields: [x], secret: {SECRET}f}}}}}}",
    ]
    (found,) = problems(tmp_path, with_rules(*rules), HASH_SECRET=SECRET)
    assert found.startswith(f"{FIRST + 1}:")
    assert "tables[1].columns.hash.secret: secrets come from the environment" in found


def test_from_python_a_secret_is_taken_as_it_is() -> None:
    with pytest.raises(ConfigError, match="it is too short"):
        given(hash={"fields": ["a"], "secret": "short"})


BEFORE = "the column __before has the row as it was, so that "


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"leave": ["a.b"]}, f"{BEFORE}__before.a.b would land"),
        ({"mask": {"a": "x"}, "leave": ["__before.a.b"]}, f"{BEFORE}__before.a would land"),
        ({"take": ["a", "__before"]}, f"{BEFORE}what is not taken would land"),
        ({"leave": ["a.b", "__before"]}, ""),
        ({"leave": ["a.b", "__before.a"]}, ""),
        ({"take": ["a"]}, ""),
        ({"take": ["a", "__before.a"]}, ""),
        ({"rename": {"a": "b"}}, ""),
    ],
)
def test_what_is_hidden_is_hidden_in_the_row_as_it_was_too(columns: dict[str, Any], why: str) -> None:
    envelope = {"kind": "debezium", "keep": ["op", "before"]}
    told = {**SOUND, "decode": {"envelope": envelope}, "tables": [{"match": "a", "columns": columns}]}
    if not why:
        Settings.from_dict(told)
        return
    with pytest.raises(ConfigError, match=why.replace(".", "[.]")):
        Settings.from_dict(told)
    Settings.from_dict({**told, "decode": {"envelope": "debezium"}})
