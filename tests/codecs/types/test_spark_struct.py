from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from pyspark.sql.pandas.types import from_arrow_type
from tests.ingest.arrow_data import TYPES

from distributary.codecs.types.spark_struct import type_name


@given(TYPES)
def test_types_are_spelt_as_spark_spells_them(of: pa.DataType) -> None:
    assert type_name(of) == from_arrow_type(of, prefer_timestamp_ntz=True).simpleString()
