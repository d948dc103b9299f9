"""Types that the user gives for fields of an inferred schema: they win over what was found."""

from __future__ import annotations

import json
from typing import cast

from py4j.protocol import Py4JJavaError
from pyspark.errors import ParseException
from pyspark.sql.types import StructField, StructType

from distributary.errors import ConfigError
from distributary.ingest.routing.read_ahead import jvm_ahead


def hinted(inferred: StructType, hints: StructType) -> StructType:
    """The inferred schema with the types that hints give, in structs too; what only hints name is added."""
    found = {field.name: field for field in inferred.fields}
    for hint in hints.fields:
        before = found.get(hint.name)
        inner = before.dataType if before is not None else None
        both = isinstance(inner, StructType) and isinstance(hint.dataType, StructType)
        dtype = (
            hinted(cast("StructType", inner), cast("StructType", hint.dataType)) if both else hint.dataType
        )
        found[hint.name] = StructField(hint.name, dtype)
    return StructType(list(found.values()))


def with_hints(text: str, ddl: str | None) -> str:
    """The same of a schema's text and of hints as they are written; needs a Spark session where there are hints."""
    return text if ddl is None else hinted(StructType.fromJson(json.loads(text)), hints_of(ddl)).json()


def hints_of(ddl: str | None, name: str = "decode.schema_hints") -> StructType:
    """The hints that this setting gives; needs a Spark session. Raises ConfigError for what is no DDL."""
    if ddl is None:
        return StructType([])
    try:
        return cast("StructType", StructType.fromDDL(ddl))
    except ParseException as error:
        raise _no_ddl(name, str(error)) from None


def hints_ahead(ddl: str, name: str = "decode.schema_hints") -> StructType:
    """The same without Spark's session. Raises SetupError where there is no Java, too."""
    with jvm_ahead() as jvm:
        try:
            text = jvm.org.apache.spark.sql.types.StructType.fromDDL(ddl).json()
        except ParseException as error:
            raise _no_ddl(name, str(error)) from None
        except Py4JJavaError as error:  # as it comes where no session has taught Python Spark's own errors
            raise _no_ddl(name, str(error.java_exception.getMessage())) from None
    return StructType.fromJson(json.loads(text))


def _no_ddl(name: str, said: str) -> ConfigError:
    first = said.strip().splitlines()[0]
    return ConfigError(
        f"{name} is no Spark DDL ({first}); write for example `level bigint, tags array<string>`"
    )
