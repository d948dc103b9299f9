"""The other decoder: Spark's own `from_json`, which takes the same values, and never gives a part of a record."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from distributary.codecs.struct_type import struct_json

Mode = Literal["FAILFAST", "PERMISSIVE"]

# Where from_json puts the text of a record of which it could not take all; no field of a payload is called that.
_BROKEN = "\u0000broken"
# A time without a zone is UTC, whatever the session's is.
_OPTIONS = {"timeZone": "UTC", "columnNameOfCorruptRecord": _BROKEN}


def spark_column(payload: Column, schema: pa.Schema, mode: Mode) -> Column:
    """The payload as one struct of these columns; see `JsonReader.column` for what a broken one does."""
    text = payload.cast("string")
    if mode == "FAILFAST":
        return F.from_json(text, struct_json(schema), {**_OPTIONS, "mode": mode})
    read = F.from_json(
        text, struct_json(schema.append(pa.field(_BROKEN, pa.string()))), {**_OPTIONS, "mode": mode}
    )
    kept = F.struct(*[read[f"`{name.replace('`', '``')}`"].alias(name) for name in schema.names])
    return F.when(read.isNotNull() & read[f"`{_BROKEN}`"].isNull(), kept)
