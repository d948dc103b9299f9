"""What is told of each case of a change, there and back; and what must hold for any two records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.described import Told
from tests.codecs.schema_change_cases import CASES, INT, STRING

from distributary.codecs.changes.classify import SchemaChange, classify
from distributary.codecs.changes.description import FieldDescription, RecordDescription, TypeDescription
from distributary.codecs.types.spark_struct import list_of

REVERSE = {
    "added": "dropped",
    "oneof_arm_added": "dropped",
    "widened": "narrowed",
    "made_required": "made_optional",
    "enum_value_added": "enum_value_removed",
}
REVERSE |= {after: before for before, after in REVERSE.items() if before != "oneof_arm_added"}


@pytest.mark.parametrize(("before", "after", "told"), CASES)
def test_a_change_is_told_by_its_class(
    before: RecordDescription, after: RecordDescription, told: Told
) -> None:
    assert classify(before, after) == [SchemaChange(*one) for one in told]  # type: ignore[arg-type]


@pytest.mark.parametrize(("before", "after", "told"), CASES)
def test_the_way_back_is_told_by_the_mirrored_classes(
    before: RecordDescription, after: RecordDescription, told: Told
) -> None:
    assert mirrored(classify(after, before)) == forwards(classify(before, after))
    assert classify(before, before) == classify(after, after) == []


def forwards(found: Sequence[SchemaChange]) -> list[tuple[str, str, str]]:
    """What was told, without saying which new fields are arms of a oneof."""
    plain = [one.kind.replace("oneof_arm_added", "added") for one in found]
    return sorted((kind, one.before, one.after) for kind, one in zip(plain, found, strict=True))


def mirrored(found: Sequence[SchemaChange]) -> list[tuple[str, str, str]]:
    """What the same changes should have been the other way round."""
    return sorted((REVERSE.get(one.kind, one.kind), one.after, one.before) for one in found)


NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
LEAVES = st.sampled_from(
    [
        *(INT, pa.int64(), pa.float32(), pa.float64(), STRING, pa.bool_(), pa.binary(), pa.date32()),
        *(pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.decimal128(9, 2), pa.decimal128(20, 0)),
    ]
).map(TypeDescription)
ENUMS = st.lists(st.sampled_from("XYZ"), min_size=1, unique=True).map(
    lambda symbols: TypeDescription(STRING, symbols=tuple(symbols))
)
RESERVED = {
    "reserved_numbers": st.lists(
        st.tuples(st.integers(1, 5), st.integers(0, 1)).map(lambda one: (one[0], sum(one))), max_size=2
    ).map(tuple),
    "reserved_names": st.lists(NAMES, max_size=2).map(tuple),
}


def field(type_: st.SearchStrategy[TypeDescription]) -> st.SearchStrategy[FieldDescription]:
    return st.builds(
        FieldDescription,
        NAMES,
        type_,
        number=st.none() | st.integers(1, 5),
        aliases=st.lists(NAMES, max_size=2).map(tuple),
        required=st.booleans(),
        oneof=st.none() | st.just("o"),
    )


def fields(type_: st.SearchStrategy[TypeDescription]) -> st.SearchStrategy[tuple[FieldDescription, ...]]:
    by = (lambda one: one.name, lambda one: one.number or one.name)
    return st.lists(field(type_), min_size=1, max_size=4, unique_by=by).map(tuple)


def struct(of: tuple[FieldDescription, ...], **reserved: Any) -> TypeDescription:
    return TypeDescription(pa.struct([(one.name, one.type.column) for one in of]), of, **reserved)


def nested(type_: st.SearchStrategy[TypeDescription]) -> st.SearchStrategy[TypeDescription]:
    return st.one_of(
        st.builds(struct, fields(type_), **RESERVED),
        type_.map(lambda one: TypeDescription(list_of(one.column), element=one)),
        st.builds(
            lambda key, one: TypeDescription(pa.map_(key, one.column), value=one),
            st.sampled_from([STRING, INT, pa.int64()]),
            type_,
        ),
    )


RECORDS = st.builds(
    RecordDescription,
    st.sampled_from(["AVRO", "PROTOBUF"]),
    st.sampled_from(["E", "F"]),
    fields(st.recursive(LEAVES | ENUMS, nested, max_leaves=4)),
    **RESERVED,
)


@given(RECORDS, RECORDS)
def test_any_two_records_mirror_each_other_and_every_field_is_told_of_once(
    before: RecordDescription, after: RecordDescription
) -> None:
    there, back = classify(before, after), classify(after, before)
    assert mirrored(back) == forwards(there)
    assert classify(after, after) == []
    assert len(set(there)) == len(there)
    names = {one.name for one in before.fields} ^ {one.name for one in after.fields}
    fates = {one.column for one in there} | {one.before for one in there if one.kind == "renamed"}
    assert names <= fates
