"""Where newer serializers name a record's schema beside the record: Kafka's record headers, as Spark's source gives them."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

# https://docs.confluent.io: the record headers in which newer serialisers put the schema's GUID.
VALUE_HEADER: Final = "__value_schema_id"

KEY_HEADER: Final = "__key_schema_id"


def schema_header(headers: Column, payload: str) -> Column:
    """What names the schema of a record's payload, its `key` or else its value; null where no header does."""
    return last_header(headers, KEY_HEADER if payload == "key" else VALUE_HEADER)


def last_header(headers: Column, name: str) -> Column:
    """The value of the last record header of this name, as in Kafka's clients; null where there is none.

    `headers` is an array of structs with a key and a value.
    """
    named = F.filter(headers, lambda header: header["key"] == F.lit(name))
    return F.try_element_at(named, F.lit(-1))["value"]


def last_header_sql(headers: str, name: str) -> str:
    """The same as SQL, of a column that is called so: whoever asks for each batch asks the JVM once, not for each part."""
    # A text as SQL writes it means one thing or the other by the session's settings.
    wanted = f"CAST(X'{name.encode().hex()}' AS STRING)"
    return f"try_element_at(filter(`{headers}`, header -> header.`key` = {wanted}), -1).`value`"
