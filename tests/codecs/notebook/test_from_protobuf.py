"""Our Protobuf columns by the `from_protobuf` of the session's own Spark, where spark-protobuf is on its class path.

Without it these tests are skipped and say so; `make test-compat` runs the same records through Spark 3.4.1's.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from tests.codecs.protobuf_golden import GOLDEN, Golden
from tests.codecs.protobuf_samples import comparable, expected

from distributary.errors import DecoderUnavailable


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_a_golden_record_is_what_the_fields_of_its_message_say(golden: Golden) -> None:
    decoded = golden.reader.decode(pa.array([golden.payload], pa.binary()))
    assert comparable(decoded.rows) == [{**expected(golden.message()), **golden.unlike}]


@pytest.mark.spark
@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_a_golden_record_is_the_same_by_both_decoders(spark: SparkSession, golden: Golden) -> None:
    column = _column(golden)
    frame = spark.createDataFrame([(bytearray(golden.payload),)], "payload binary")
    rows = frame.select(column.alias("r")).select("r.*").toArrow().cast(golden.reader.schema)
    assert rows.to_pylist() == golden.decoded()


def _column(golden: Golden) -> Column:
    try:
        return golden.reader.column(F.col("payload"))
    except DecoderUnavailable as missing:
        pytest.skip(str(missing))
