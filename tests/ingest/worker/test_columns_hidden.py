"""What a rule of tables keeps from them is in nothing that is written: no file, no statistics, no report, whatever comes."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.ingest.kafka_records import numbered
from tests.ingest.worker.test_columns import FORMATS, JSON_SCHEMA, by, sent
from tests.ingest.worker.test_demux import demuxed

from distributary.codecs.base import Enveloped
from distributary.ingest.pins import PinnedRecord
from distributary.ingest.routing.conditions import ReadCondition
from distributary.ingest.routing.tree import Call, Field, Literal
from distributary.ingest.settings.deletes import Deleting
from distributary.ingest.settings.groups import Policies, Route
from distributary.ingest.settings.upserts import Upsert
from distributary.producer_sim.formats.corruption import framed
from distributary.registry.base import Schema

# What nobody may find: each is looked for in all that is written.
RAW = ["sekret-mail", "sekret-inner", "sekret-list", "sekret-deep"]
PINS = [471108151, 471108152]
MAYBE = st.sampled_from
PEOPLE = st.fixed_dictionaries({}, optional={"email": MAYBE(RAW), "name": MAYBE(["Ann", "Bob"])})
FIELDS = st.fixed_dictionaries(
    {"game": MAYBE(["golf", "golf", ""])},
    optional={
        "email": MAYBE(RAW),
        "pin": MAYBE(PINS),
        "person": PEOPLE,
        "people": st.lists(PEOPLE, max_size=2),
        "note": MAYBE(["12", "x"]),
        "level": MAYBE([1, 2]),
    },
)
# Of JSON anything may come: values of other types, and fields that no schema has.
ODD = st.recursive(
    MAYBE(RAW),
    lambda inner: st.lists(inner, max_size=2) | st.fixed_dictionaries({"email": inner}),
    max_leaves=3,
)
ANYTHING = st.fixed_dictionaries(
    {"game": MAYBE(["golf", "golf", ""])},
    optional={
        "email": ODD,
        "EMAIL": ODD,
        "pin": ODD | MAYBE(PINS),
        "person": ODD | PEOPLE,
        "people": ODD,
        "mail2": ODD,
    },
)
HIDDEN: dict[str, Any] = {
    "leave": ["person.email", "mail2"],
    "hash": ["email"],
    "mask": {"pin": {"keep_last": 2}, "people.email": "hidden"},
    "cast": {"note": "int"},
}


@pytest.mark.parametrize("kind", FORMATS)
@given(st.data())
@settings(max_examples=examples(40), deadline=None)
def test_no_value_that_is_hidden_is_found_in_anything_that_is_written(kind: str, data: st.DataObject) -> None:
    strategy = FIELDS if kind in {"avro", "protobuf"} else FIELDS | ANYTHING
    records = data.draw(st.lists(strategy, min_size=1, max_size=8))
    made = [FORMATS[kind][1](fields) for fields in records]
    # Some are cut off, or name a schema that nobody knows.
    cut = data.draw(st.lists(st.integers(0, 2), min_size=len(made), max_size=len(made)))
    values = [
        framed(99, value) if how == 2 and kind != "json" else value[:-1] if how == 1 else value
        for value, how in zip(made, cut, strict=True)
    ]
    policies = {
        "incompatible_type": data.draw(MAYBE(["quarantine", "rescue"])),
        "no_entity": data.draw(MAYBE(["quarantine", "drop"])),
    }
    with TemporaryDirectory() as name:
        of = by(
            Path(name),
            kind,
            HIDDEN,
            schemas_final=True,
            inferred_final=True,
            policies=Policies.model_validate(policies),
        )
        report = demuxed(of, numbered(values))
        assert sum(report.counts.rows.values()) + sum(report.counts.quarantined.values()) + sum(
            report.counts.dropped.values()
        ) == len(values)
        written = everything_under(Path(name)) + repr(report)
        assert not [raw for raw in (*RAW, *map(str, PINS)) if raw in written]


_ROWS = json.loads(JSON_SCHEMA)
_ENVELOPES = {
    "type": "object",
    "title": "Envelope",
    "properties": {
        **{name: {"oneOf": [{"type": "null"}, _ROWS]} for name in ("before", "after")},
        "source": {
            "type": "object",
            "properties": {name: {"type": "string"} for name in ("table", "connector")},
        },
        "op": {"type": "string"},
    },
}
# How envelopes come, with what stands before each.
ENVELOPES = {
    "json": (FORMATS["json"][0], b""),
    "jsonschema": ((PinnedRecord((7, ()), Schema(7, "JSON", json.dumps(_ENVELOPES))),), b"\0\0\0\0\7"),
}


@pytest.mark.parametrize("kind", ENVELOPES)
@given(
    st.lists(
        st.tuples(FIELDS | ANYTHING, FIELDS | ANYTHING, MAYBE("cud"), st.booleans()), min_size=1, max_size=6
    ),
    st.booleans(),
)
@settings(max_examples=examples(40), deadline=None)
def test_nor_in_what_an_envelope_says_of_the_row_as_it_was(
    kind: str, changes: list[tuple[dict[str, Any], dict[str, Any], str, bool]], keeps: bool
) -> None:
    records, header = ENVELOPES[kind]
    values = [
        header
        + json.dumps(
            {
                "op": op,
                "before": None if op == "c" else before,
                "after": None if op == "d" else after,
                "source": {"table": "golf", "connector": "mysql"},
            }
        ).encode()[: -1 if cut else None]
        for after, before, op, cut in changes
    ]
    keep = ("op", "before") if keeps else ("op",)
    rule_of = {**HIDDEN, "leave": [*HIDDEN["leave"], "__before"]} if keeps else HIDDEN
    with TemporaryDirectory() as name:
        of = by(
            Path(name),
            kind,
            rule_of,
            records=records,
            codec=Enveloped(kind, "debezium", keep),
            route=Route(field="__source_table", table="{entity}"),
            upsert=Upsert(("pin",), deletes=Deleting("__op = 'd'")),
            conditions={"__op = 'd'": ReadCondition(Call("=", (Field(("__op",)), Literal("d"))))},
            schemas_final=True,
            inferred_final=True,
        )
        report = demuxed(of, numbered(values))
        written = everything_under(Path(name)) + repr(report)
        assert not [raw for raw in (*RAW, *map(str, PINS)) if raw in written]


def everything_under(root: Path) -> str:
    """All that is in files of a folder, as text: bytes as they are, and what is in those of Parquet."""
    found = []
    for file in sorted(root.rglob("*")):
        if file.is_file():
            found.append(file.read_bytes().decode("latin-1"))
        if file.suffix == ".parquet":
            read = pq.ParquetFile(file)
            found += [str(read.read().to_pylist()), str(read.metadata.to_dict())]
    return "\n".join(found)


def test_what_looks_for_hidden_values_finds_those_that_are_there(tmp_path: Path) -> None:
    of = by(tmp_path, "json")
    demuxed(of, sent("json", {"game": "golf", "email": RAW[0], "pin": PINS[0]}))
    assert RAW[0] in everything_under(tmp_path)
    assert str(PINS[0]) in everything_under(tmp_path)
