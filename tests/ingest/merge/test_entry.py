from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from distributary.ingest.merge.entry import without_pairs


@given(st.dictionaries(st.text(), st.text()))
def test_bounds_of_earlier_versions_are_said_without_pairs_of_escapes_and_are_the_same(
    bounds: dict[str, str],
) -> None:
    found = without_pairs(json.dumps(bounds))
    assert json.loads(found) == bounds
    assert not any(f"\\ud{digit:x}" in found.replace("\\\\", "") for digit in range(8, 16))


def test_a_rare_character_stands_for_itself_and_what_only_looks_like_one_stays() -> None:
    assert without_pairs(r'{"a":"x\ud840\uDC00\\\ud840\udc00","n":1.50}') == (
        '{"a":"x\U00020000\\\\\U00020000","n":1.50}'
    )
    assert without_pairs(r'"\\ud840\\udc00\ud840x"') == r'"\\ud840\\udc00\ud840x"'
