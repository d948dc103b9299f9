"""The other decoder: Spark's own `from_json`, which takes the same values, and never gives a part of a record."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from distributary.codecs.base import Mode
from distributary.codecs.json.options import Options
from distributary.codecs.types.spark_struct import struct_json

# A time without a zone is UTC, whatever the session's is; single quotes are not JSON.
_OPTIONS = {"timeZone": "UTC", "allowSingleQuotes": "false"}


def spark_column(payload: Column, schema: pa.Schema, mode: Mode, options: Options = ()) -> Column:
    """The payload as one struct of these columns, read by these options; see `JsonReader.column` for what a broken one does."""
    text, given = payload.cast("string"), {**_OPTIONS, **dict(options), "mode": mode}
    if mode == "FAILFAST":
        return F.from_json(text, struct_json(schema), given)
    # There from_json puts the text of a record of which it could not take all.
    broken = _unused(schema)
    whole = struct_json(schema.append(pa.field(broken, pa.string())))
    read = F.from_json(text, whole, {**given, "columnNameOfCorruptRecord": broken})
    return F.when(read[broken].isNull(), read.dropFields(broken))


def _unused(schema: pa.Schema) -> str:
    """A name that no column has, in upper or lower case."""
    taken = {name.lower() for name in schema.names}
    name = "_broken"
    while name in taken:
        name = f"_{name}"
    return name
