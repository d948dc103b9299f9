from __future__ import annotations

import pyarrow as pa
import pytest

from distributary.codecs.types.nanoseconds import in_microseconds

FIRST, LAST = -(2**63), 2**63 - 1


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_what_is_finer_is_cut_off_towards_the_past_at_both_ends_of_time_too(zone: str | None) -> None:
    given = [FIRST, -1_001, -1_000, -999, -1, None, 0, 999, 1_000, LAST]
    found = in_microseconds(pa.array(given, pa.timestamp("ns", zone)))
    assert found.type == pa.timestamp("us", zone)
    assert found.cast(pa.int64()).to_pylist() == [None if one is None else one // 1_000 for one in given]
    assert (
        in_microseconds(pa.chunked_array([found.cast(pa.timestamp("ns", zone), safe=False)])).type
        == found.type
    )
