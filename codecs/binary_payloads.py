"""Payloads with a wire header have to be binary: as text their bytes may have become others. A column knows its type only in a query."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


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
