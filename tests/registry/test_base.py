from __future__ import annotations

import json
import pickle

import pytest

from distributary.registry.base import Guid, SchemaRef, Unregistered, schema_ref

REFS: list[SchemaRef] = [0, 7, -2, Guid("0b1f6c1e-0000-4000-8000-000000000004"), *Unregistered]


@pytest.mark.parametrize("ref", REFS, ids=str)
def test_what_names_a_schema_is_the_same_once_written_and_once_sent(ref: SchemaRef) -> None:
    for again in (schema_ref(json.loads(json.dumps(ref))), pickle.loads(pickle.dumps(ref))):  # noqa: S301
        assert (again, type(again), hash(again)) == (ref, type(ref), hash(ref))
    assert f"schema {ref}" == "schema " + str(json.loads(json.dumps(ref)))


def test_an_id_a_guid_of_the_same_digits_and_what_stands_for_none_are_apart() -> None:
    assert len({schema_ref(one) for one in (7, "7", "inferred", "offered")}) == 4
    assert schema_ref("inferred") is Unregistered.INFERRED


@pytest.mark.parametrize("kept", [None, 7.5, ["7"]])
def test_what_names_no_schema_is_refused(kept: object) -> None:
    with pytest.raises(ValueError, match="a schema is named by a"):
        schema_ref(kept)
