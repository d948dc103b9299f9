from __future__ import annotations

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from distributary.ingest.conform.rescued_text import joined

OBJECTS = st.none() | st.dictionaries(st.text(), st.integers() | st.text(), min_size=1)


@given(st.lists(st.tuples(OBJECTS, OBJECTS), min_size=1))
def test_both_objects_members_are_in_one(pairs: list[tuple[dict[str, object] | None, ...]]) -> None:
    sides = [
        pa.array([None if of is None else json.dumps(of) for of in side], pa.string())
        for side in zip(*pairs, strict=True)
    ]
    found = joined(sides[0], sides[1])
    texts = [None] * len(pairs) if found is None else found.to_pylist()
    read = [None if text is None else json.loads(text, object_pairs_hook=list) for text in texts]
    assert read == [
        None if (one, two) == (None, None) else [*(one or {}).items(), *(two or {}).items()]
        for one, two in pairs
    ]


def test_nothing_rescued_is_no_column() -> None:
    assert joined(None, None) is None
    assert joined(None, pa.array([None, None], pa.string())) is None
