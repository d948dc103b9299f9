"""`from_avro` and `from_json`: by Spark's own function and by ours, the same rows."""

from __future__ import annotations

import json
import uuid
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from distributary import functions
from distributary.errors import ConfigError
from distributary.ingest.schemas.inferred import SchemaLocation
from distributary.ingest.storage.opening import files_at
from distributary.producer_sim.stack.local import LocalStack
from distributary.registry.confluent.options import RegistryOptions
from distributary.registry.confluent.registry import ConfluentRegistry

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def avro(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Event", "fields": list(fields)})


OLD = avro({"name": "game", "type": "string"}, {"name": "score", "type": "int"})
NEW = avro(
    {"name": "game", "type": "string"},
    {"name": "score", "type": "long"},
    {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
)


def record(schema_id: int, schema: str, **fields: Any) -> bytearray:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), fields)
    return bytearray(b"\0" + schema_id.to_bytes(4, "big") + out.getvalue())


@pytest.mark.parametrize("engine", ["python", "spark"])
def test_avro_is_read_with_the_schema_of_each_record(
    spark: SparkSession, stack: LocalStack, engine: str
) -> None:
    subject = f"games-{uuid.uuid4().hex[:8]}-value"
    with ConfluentRegistry(RegistryOptions(url=stack.registry_url)) as registry:
        old, new = (registry.register(subject, text, "AVRO") for text in (OLD, NEW))
    values = [record(old, OLD, game="a", score=1), None, record(new, NEW, game="b", score=2**40, tags=["x"])]
    frame = spark.createDataFrame(list(enumerate(values)), "number int, value binary")
    event = functions.from_avro(
        F.col("value"),
        subject=subject,
        schemaRegistryAddress=stack.registry_url,
        options={"distributary.engine": engine},
    )
    found = frame.select("number", event.alias("event")).orderBy("number").toArrow()["event"].to_pylist()
    assert found == [
        {"game": "a", "score": 1, "tags": []},
        None,
        {"game": "b", "score": 2**40, "tags": ["x"]},
    ]


@pytest.mark.parametrize("engine", ["python", "spark"])
def test_json_is_read_with_the_newest_schema_of_a_location(
    spark: SparkSession, tmp_path: Path, engine: str
) -> None:
    text = spark.createDataFrame([], "game string, score bigint").schema.json()
    SchemaLocation(files_at(tmp_path), tmp_path.name).register(tmp_path.name, text)
    frame = spark.createDataFrame([(bytearray(b'{"game":"a","score":3}'),), (None,)], "value binary")
    options = {
        "schemaLocation": str(tmp_path),
        "schemaEvolutionMode": "none",
        "distributary.engine": engine,
    }
    found = frame.select(functions.from_json("value", options=options).alias("event")).collect()
    assert [row.event and row.event.asDict() for row in found] == [{"game": "a", "score": 3}, None]


GAMES = ("game string, score bigint, at struct<x: int>", '{"game":"a","score":3,"at":{"x":1}}')
MISFIT = '{"game":"b","score":"many","at":{"x":1}}'
NEWER = '{"game":"c","score":5,"level":7,"at":{"x":1,"y":true}}'


class Located:
    """A schema location, and what `from_json` makes of texts by it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.location = SchemaLocation(files_at(folder), folder.name)
        text = spark.createDataFrame([], GAMES[0]).schema.json()
        self.location.register(folder.name, text)

    def rows(self, *texts: str, **options: str) -> list[Any]:
        frame = self.spark.createDataFrame(
            [(bytearray(text.encode()),) for text in texts], "value binary"
        ).coalesce(1)
        given = {
            "schemaLocation": str(self.folder),
            **{name.replace("__", "."): value for name, value in options.items()},
        }
        found = frame.select(functions.from_json("value", options=given).alias("event")).collect()
        return [row.event and row.event.asDict(recursive=True) for row in found]


@pytest.fixture
def located(spark: SparkSession, tmp_path: Path) -> Located:
    return Located(spark, tmp_path / "games")


@pytest.mark.parametrize("engine", ["python", "spark"])
def test_a_value_that_does_not_fit_spoils_its_record_by_either_engine(located: Located, engine: str) -> None:
    options = {"schemaEvolutionMode": "none", "distributary__engine": engine}
    whole = {"game": "a", "score": 3, "at": {"x": 1}}
    assert located.rows(GAMES[1], MISFIT, mode="PERMISSIVE", **options) == [whole, None]
    with pytest.raises(
        (PySparkException, Py4JJavaError), match=r"field 'score' has a value|MALFORMED_RECORD"
    ):
        located.rows(MISFIT, **options)
    (row,) = located.rows(NEWER, **options)
    assert row == {"game": "c", "score": 5, "at": {"x": 1}}


def test_new_fields_end_the_query_and_are_there_after_a_restart(located: Located) -> None:
    with pytest.raises(PySparkException, match=r"UnknownFieldException.*version 2 in .* has them"):
        located.rows(GAMES[1], NEWER)
    assert located.rows(GAMES[1], NEWER) == [
        {"game": "a", "score": 3, "at": {"x": 1, "y": None}, "level": None},
        {"game": "c", "score": 5, "at": {"x": 1, "y": True}, "level": 7},
    ]


def test_new_fields_only_end_the_query_where_they_are_to_fail_it(located: Located) -> None:
    with pytest.raises(PySparkException, match=r"UnknownFieldException.*failOnNewColumns"):
        located.rows(NEWER, schemaEvolutionMode="failOnNewColumns")
    assert [version.id for version in located.location.versions("games")] == [1]


def test_what_no_column_takes_is_rescued_where_there_is_a_column_for_it(located: Located) -> None:
    found = located.rows(GAMES[1], MISFIT, NEWER, schemaEvolutionMode="rescue")
    assert [row["_rescued_data"] for row in found] == [None, '{"score":"many"}', '{"level":7,"at.y":true}']
    (row,) = located.rows(MISFIT, rescuedDataColumn="rest")
    assert row == {"game": "b", "score": None, "at": {"x": 1}, "rest": '{"score":"many"}'}
    with pytest.raises(ConfigError, match="which the schema has a field of already"):
        located.rows(MISFIT, rescuedDataColumn="SCORE")


def test_hints_win_over_what_was_inferred_and_stay_the_querys_own(located: Located) -> None:
    (row,) = located.rows(MISFIT, schemaHints="score string, at struct<x: bigint>, more date")
    assert row == {"game": "b", "score": "many", "at": {"x": 1}, "more": None}
    with pytest.raises(PySparkException, match="UnknownFieldException"):
        located.rows(NEWER, schemaHints="score string, more date")
    latest = located.location.latest()
    assert latest is not None
    names = {one["name"]: one["type"] for one in json.loads(latest.text)["fields"]}
    assert (names["score"], names["level"], "more" in names) == ("long", "long", False)


def test_one_of_several_schemas_below_a_location_is_named_by_its_key(
    spark: SparkSession, tmp_path: Path
) -> None:
    Located(spark, tmp_path / "games")
    other = Located(spark, tmp_path / "other")
    other.folder = tmp_path
    assert other.rows(GAMES[1], schemaLocationKey="games")[0]["game"] == "a"


def test_how_text_is_read_is_for_sparks_function_alone(located: Located) -> None:
    comment = '{"game":"a", /* so */ "score":3}'
    options = {"schemaEvolutionMode": "none", "allowComments": "true"}
    assert located.rows(comment, **options) == [{"game": "a", "score": 3, "at": None}]
    with pytest.raises(
        PySparkException, match="allowComments: only Spark's own from_json reads by these options"
    ):
        located.rows(comment, distributary__engine="python", **options)
    with pytest.raises(ConfigError, match="allowComments asks for Spark's own function"):
        located.rows(comment, allowComments="true")
    with pytest.raises(ConfigError, match="no option 'primitivesAsString'"):
        located.rows(comment, primitivesAsString="true", schemaEvolutionMode="none")


@pytest.mark.parametrize("engine", ["python", "spark"])
def test_json_schema_of_a_registry_is_read_by_either_engine(
    spark: SparkSession, stack: LocalStack, engine: str
) -> None:
    subject = f"games-{uuid.uuid4().hex[:8]}-value"
    text = json.dumps(
        {
            "type": "object",
            "title": "Event",
            "properties": {"game": {"type": "string"}, "score": {"type": "integer"}},
        }
    )
    with ConfluentRegistry(RegistryOptions(url=stack.registry_url)) as registry:
        head = b"\0" + registry.register(subject, text, "JSON").to_bytes(4, "big")
    sent = [(bytearray(head + body),) for body in (b'{"game":"a","score":3,"more":1}', b'{"score":"many"}')]
    event = functions.from_json(
        "value",
        subject=subject,
        schemaRegistryAddress=stack.registry_url,
        options={"distributary.engine": engine, "mode": "PERMISSIVE"},
    )
    found = spark.createDataFrame(sent, "value binary").coalesce(1).select(event.alias("event")).collect()
    assert [row.event and row.event.asDict() for row in found] == [{"game": "a", "score": 3}, None]


def test_a_misspelt_option_and_a_missing_key_are_told_as_what_they_are(located: Located) -> None:
    with pytest.raises(ConfigError, match="has no option 'rescueDataColumn'"):
        located.rows(GAMES[1], rescueDataColumn="x")
    located.folder = located.folder.parent
    with pytest.raises(ConfigError, match="name one of them as schemaLocationKey: games"):
        located.rows(GAMES[1])


def test_a_record_of_names_made_of_data_costs_the_location_nothing(located: Located) -> None:
    evil = json.dumps({f"k{number}": 1 for number in range(1_500)})
    with pytest.raises(PySparkException, match=r"UnknownFieldException.*version 2"):
        located.rows(evil, NEWER)
    found = located.rows(evil, NEWER, mode="PERMISSIVE")
    assert (found[0], found[1]["level"]) == (None, 7)
    with pytest.raises(PySparkException, match="too_many_fields"):
        located.rows(evil)
    assert [version.id for version in located.location.versions("games")] == [1, 2]


BROKEN_JSON = ('{"game":"a"} {"game":"b"}', '{"game":"\\ud800"}', '{"score":1e400}', '{"at":{"x":1.0}}')


@pytest.mark.parametrize("text", BROKEN_JSON)
def test_without_an_engine_nothing_is_altered_and_nothing_dropped(located: Located, text: str) -> None:
    assert located.rows(text, schemaEvolutionMode="none", mode="PERMISSIVE") == [None]


def test_options_that_pysparks_function_would_pass_over_are_refused() -> None:
    for more in ({"rescuedDataColumn": "r"}, {"distributary.engine": "spark"}):
        with pytest.raises(ConfigError, match="where the schema is not given in the call"):
            functions.from_json("value", "a int", more)
    with pytest.raises(ConfigError, match=r"schema\.registry\.subject"):
        functions.from_json("value", "a int", subject="s", schemaRegistryAddress="http://127.0.0.1:9")
