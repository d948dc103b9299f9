"""What Spark itself makes of a routing expression: the judge of those who evaluate it without Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, DataType, LongType, StringType, StructField, StructType

from distributary.errors import ConfigError
from distributary.ingest.spark.jvm import stop_session
from distributary.ingest.spark.session import spark_session
from distributary.producer_sim.events.values import Plain

Fields: TypeAlias = Mapping[str, Plain]

# The type of each value; what has none is text.
Signature: TypeAlias = tuple[tuple[str, type], ...]

_TYPES: Mapping[type, DataType] = {str: StringType(), int: LongType(), bool: BooleanType()}


def texts_by_spark(expression: str, events: Sequence[Fields]) -> list[str | None]:
    """The expression's value for each event, as text; `events` hold values by the fields' dotted paths.

    A session that there is already is used. Raises ConfigError where Spark cannot evaluate it.
    """
    texts: list[str | None] = [None] * len(events)
    if not events:
        return texts
    with _session() as spark:
        for signature, places in _alike(events).items():
            rows = [[events[place].get(name) for name, _ in signature] for place in places]
            for place, text in zip(places, _evaluated(spark, expression, signature, rows), strict=True):
                texts[place] = text
    return texts


@contextmanager
def _session() -> Iterator[SparkSession]:
    """The session of this process, or one for the moment."""
    is_ours = SparkContext._active_spark_context is None
    session = spark_session("distributary verify", "local[1]")
    try:
        yield session
    finally:
        if is_ours:
            stop_session(session)


def _alike(events: Sequence[Fields]) -> dict[Signature, list[int]]:
    """The places of the events whose fields have the same types; a null may be of any type that its field has."""
    known: dict[str, type] = {}
    for event in events:
        known |= {name: type(value) for name, value in event.items() if value is not None}
    found: dict[Signature, list[int]] = defaultdict(list)
    names = dict.fromkeys(name for event in events for name in event)
    for place, event in enumerate(events):
        kinds = [
            known.get(name, str) if (value := event.get(name)) is None else type(value) for name in names
        ]
        found[tuple(zip(names, kinds, strict=True))].append(place)
    return found


def _evaluated(
    spark: SparkSession, expression: str, signature: Signature, rows: list[list[Plain]]
) -> list[str | None]:
    schema = StructType([StructField(f"c{n}", _TYPES[kind]) for n, (_, kind) in enumerate(signature)])
    columns = [f"{_tree_sql(tree)} AS `{name}`" for name, tree in _tree(signature).items()]
    try:
        frame = spark.createDataFrame([tuple(row) for row in rows], schema).selectExpr(*columns)
        found = frame.selectExpr(f"CAST((\n{expression}\n) AS STRING) AS entity").collect()
    except PySparkException as error:
        first = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"route.expression cannot be evaluated over what the truth tells of its events: {first}; name "
            "the pipeline's settings in the simulation, `pipeline: FILE`, and send the events anew"
        ) from error
    return [row.entity for row in found]


def _tree(signature: Signature) -> dict[str, Any]:
    """The fields as they are nested: a column's name, or the fields within."""
    tree: dict[str, Any] = {}
    for number, (path, _) in enumerate(signature):
        *above, name = path.split(".")
        inside = tree
        for part in above:
            inside = inside.setdefault(part, {})
        inside[name] = f"c{number}"
    return tree


def _tree_sql(tree: Any) -> str:
    if isinstance(tree, str):
        return tree
    return "named_struct({})".format(", ".join(f"'{name}', {_tree_sql(each)}" for name, each in tree.items()))
