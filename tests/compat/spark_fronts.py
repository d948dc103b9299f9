"""What our code takes from PySpark 4 and PySpark 3.4.1 has under another name: Python fronts only, the JVM is untouched."""

from __future__ import annotations

from pathlib import Path
from tempfile import mkdtemp

import pyarrow as pa
import pyspark.sql.pandas.types
import pyspark.sql.protobuf.functions
import pytest
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.protobuf.functions import from_protobuf
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType, TimestampNTZType


def use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the code under test find what it looks for. Before that code is imported."""
    monkeypatch.setattr(pyspark.sql.protobuf.functions, "from_protobuf", _from_protobuf)
    monkeypatch.setattr(pyspark.sql.pandas.types, "from_arrow_type", _from_arrow_type)
    monkeypatch.setattr(F, "timestamp_micros", _timestamp_micros, raising=False)


def arrow_of(frame: DataFrame) -> pa.Table:
    """The frame's rows (PySpark 4: `toArrow`)."""
    batches = frame._collect_as_arrow()  # type: ignore[operator]
    return pa.Table.from_batches(batches)


def _from_protobuf(
    data: Column, messageName: str, options: dict[str, str], binaryDescriptorSet: bytes
) -> Column:
    """The descriptors in a file, which is all that this version takes."""
    file = Path(mkdtemp(prefix="distributary-compat-"), "schema.desc")
    file.write_bytes(binaryDescriptorSet)
    return from_protobuf(data, messageName, str(file), options)


def _timestamp_micros(column: Column) -> Column:
    return F.call_udf("timestamp_micros", column)


def _from_arrow_type(kind: pa.DataType, prefer_timestamp_ntz: bool = False) -> DataType:
    """This version's refuses times inside of lists, maps and structs."""
    if pa.types.is_list(kind):
        return ArrayType(_from_arrow_type(kind.value_type))
    if pa.types.is_map(kind):
        return MapType(_from_arrow_type(kind.key_type), _from_arrow_type(kind.item_type))
    if pa.types.is_struct(kind):
        return StructType([StructField(field.name, _from_arrow_type(field.type)) for field in kind])
    if pa.types.is_timestamp(kind) and kind.tz is None:
        return TimestampNTZType()
    return from_arrow_type(kind)
