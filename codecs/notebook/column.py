"""A subject's payloads as one Spark column: by Spark's own functions where they can, by our decoders where not.

Spark's functions know nothing of wire headers and take one schema. So they get the bodies of records that name a
pinned schema in the plain way; everything else (a newer schema, a broken header, a GUID) takes the other way, which
is a Python function that sees nulls for all other rows. How values travel to and from that function without being touched is
here, too, and the sentence for a column that is not binary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type
from pyspark.sql.types import BooleanType, DataType, LongType, StructField, StructType

from distributary.codecs.base import Mode
from distributary.codecs.notebook.options import Engine
from distributary.codecs.notebook.record_names import RecordType
from distributary.codecs.notebook.rows import SubjectRows, raise_first
from distributary.codecs.notebook.shipped import shipped
from distributary.codecs.notebook.subject import SubjectDecoding
from distributary.codecs.types.row_shape import fits
from distributary.codecs.wire.prefix import prefixes
from distributary.codecs.wire.record_headers import schema_header
from distributary.errors import BadSchema, DecoderUnavailable

_OK = "ok"


def spark_type(columns: pa.Schema) -> StructType:
    """The Spark type of rows with these columns; a time without a zone stays one."""
    return from_arrow_schema(columns, prefer_timestamp_ntz=True)


@dataclass(frozen=True, slots=True)
class Payloads:
    """A column of payloads, and what names the schema beside each, if not null; None where only they themselves do."""

    value: Column
    header: Column | None = None

    @classmethod
    def of(cls, data: Column | str, headers: str | None = None, payload: str | None = None) -> Payloads:
        """The column `data`, with what the column `headers` of Kafka's record headers says of it.

        It is a record's `key` or `value`, as `payload` says; or as its own name does.
        """
        value = F.col(data) if isinstance(data, str) else data
        if headers is None:
            return cls(value)
        name = data if isinstance(data, str) else "value"
        return cls(value, schema_header(F.col(headers), payload or name))


def struct_column(payloads: Payloads, decoding: SubjectDecoding, mode: Mode, engine: Engine) -> Column:
    """The payloads as one struct, by the engine asked for; `auto` takes Spark's function where there is one.

    Raises DecoderUnavailable where the engine has to be Spark and it cannot be.
    """
    if engine == "python":
        return python_column(payloads, decoding, mode)
    try:
        return spark_column(payloads, decoding, mode)
    except DecoderUnavailable:
        if engine == "spark":
            raise
        return python_column(payloads, decoding, mode)


def python_column(payloads: Payloads, decoding: SubjectDecoding, mode: Mode) -> Column:
    """The payloads as one struct, by our decoders in a Python worker; null for a null payload.

    A broken payload fails the query (FAILFAST) or makes the struct null (PERMISSIVE).
    """
    fields = [
        StructField(f"c{index}", _travelling(field.type)) for index, field in enumerate(decoding.columns)
    ]
    kind = StructType([StructField(_OK, BooleanType()), *fields])
    udf = pandas_udf(_decoder(decoding, mode), kind)  # type: ignore[call-overload]
    header = F.lit(None).cast("binary") if payloads.header is None else payloads.header
    raw = udf(payloads.value.cast("binary"), header)
    columns = [
        _arrived(raw[f"c{index}"], field.type).alias(field.name)
        for index, field in enumerate(decoding.columns)
    ]
    return F.when(raw[_OK], F.struct(*columns))


def spark_column(payloads: Payloads, decoding: SubjectDecoding, mode: Mode) -> Column:
    """The payloads as one struct, by the function of Spark that knows their format.

    Raises DecoderUnavailable where Spark lacks it, or where it can read none of the subject's versions.
    """
    codec = decoding.loaded()
    if not codec.registered:
        # Records that name no schema have no header either, and one schema for all.
        return codec.reader(decoding.pinned[-1], codec.default_path).column(payloads.value, mode)
    by_spark: list[tuple[Column, Column]] = []
    why_not = DecoderUnavailable(f"Spark's own function can read no version of subject {decoding.subject!r}")
    for schema_id, kind in decoding.known(codec).items():
        try:
            by_spark += _of_version(payloads, decoding, mode, (schema_id, kind))
        except DecoderUnavailable as error:
            why_not = error
        except BadSchema:
            # The other way says so of each of its records.
            continue
    if not by_spark:
        raise why_not
    known = reduce(lambda first, second: first | second, (condition for condition, _ in by_spark))
    rest = Payloads(F.when(~known, payloads.value), payloads.header)
    (condition, row), *more = by_spark
    return reduce(lambda so_far, one: so_far.when(*one), more, F.when(condition, row)).otherwise(
        python_column(rest, decoding, mode)
    )


def _of_version(
    payloads: Payloads, decoding: SubjectDecoding, mode: Mode, version: tuple[int, RecordType]
) -> Iterator[tuple[Column, Column]]:
    """When a payload is of this version, and what it then is; for each way in which it may say so."""
    codec, (schema_id, kind) = decoding.loaded(), version
    reader = decoding.reader_of(codec, kind)
    if kind.imported or not _is_plain(reader.schema, decoding.columns):
        return
    value, header = payloads.value, payloads.header
    for start in prefixes(schema_id, kind.path):
        inside = value.substr(1, len(start)) == F.lit(start)
        body = value.substr(F.lit(len(start) + 1), F.length(value))
        ways = [(inside, body)]
        if header is not None:
            ways = [(header.isNull() & inside, body), (header.eqNullSafe(F.lit(start)), value)]
        for condition, payload in ways:
            yield condition, _shaped(reader.column(payload, mode), reader.schema, decoding.columns)


def _decoder(decoding: SubjectDecoding, mode: Mode) -> Callable[[pd.Series, pd.Series], pd.DataFrame]:
    def decode(values: pd.Series, headers: pd.Series) -> pd.DataFrame:
        arrays = (pa.array(column, pa.binary(), from_pandas=True) for column in (values, headers))
        decoded = SubjectRows(decoding).decode(*arrays)
        if mode == "FAILFAST":
            raise_first(decoded.failures)
        packed = {f"c{index}": _packed(column) for index, column in enumerate(decoded.rows.columns)}
        return pd.DataFrame({_OK: decoded.ok, **packed})

    unpacked = shipped(decode)

    def there(values: pd.Series, headers: pd.Series) -> pd.DataFrame:
        return unpacked()(values, headers)

    return there


def _packed(array: pa.Array) -> pd.Series:
    """The array as pandas carries it to Spark without touching a value: plain ones as Arrow, nested ones as objects."""
    if pa.types.is_nested(array.type):
        return pd.Series(array.to_pylist(maps_as_pydicts="strict"), dtype=object)
    if _travels_as_number(array.type):
        array = array.cast(pa.int64())
    return pd.Series(pd.arrays.ArrowExtensionArray(array))


def interval_of(micros: Column) -> Column:
    """So many microseconds as an interval. Not as the difference of two times: those are local ones to Spark."""
    return F.expr("interval '0.000001' second") * micros


def _travels_as_number(kind: pa.DataType) -> bool:
    """As a time it would pass through nanoseconds, which end in 2262 and after 292 years."""
    return pa.types.is_duration(kind) or (pa.types.is_timestamp(kind) and kind.tz is not None)


def _travelling(kind: pa.DataType) -> DataType:
    return LongType() if _travels_as_number(kind) else from_arrow_type(kind, prefer_timestamp_ntz=True)


def _arrived(raw: Column, kind: pa.DataType) -> Column:
    if not _travels_as_number(kind):
        return raw
    if pa.types.is_duration(kind):
        return interval_of(raw)
    return F.timestamp_micros(raw)


def _is_plain(own: pa.Schema, columns: pa.Schema) -> bool:
    """Whether columns of the one schema become those of the other by name and cast alone."""
    common = [field for field in columns if field.name in own.names]
    return all(
        fits(own.field(field.name).type, field.type)
        and (not pa.types.is_nested(field.type) or own.field(field.name).type.equals(field.type))
        for field in common
    )


def _shaped(row: Column, own: pa.Schema, columns: pa.Schema) -> Column:
    if own.equals(columns):
        return row
    fields = [
        (row[field.name] if field.name in own.names else F.lit(None))
        .cast(from_arrow_type(field.type, prefer_timestamp_ntz=True))
        .alias(field.name)
        for field in columns
    ]
    return F.when(row.isNotNull(), F.struct(*fields))


def binary_only(function: str, value: Column) -> Column:
    """The column, if it is binary; of any other type it fails the query, in a sentence that names the function and the type."""
    given = F.typeof(value)
    refused = F.concat(
        F.lit(f"{function}: the column is "),
        given,
        F.lit(
            "; payloads are binary, as Kafka's source gives them: leave out what turns them into another type"
        ),
    )
    # A null without a type is one of any type. Once the type is known nothing is left of this but the column.
    return F.when(given.isin("binary", "void"), value.cast("binary")).otherwise(
        F.raise_error(refused).cast("binary")
    )
