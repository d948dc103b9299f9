"""The ways from one topic to tables, each as a function: all read the same records with the same session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.decoding import decoded, source
from benchmarks.landed import ALL, outcome_holds, rows_in, table_rows
from benchmarks.world import Topic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from distributary.ingest.run import run
from distributary.ingest.settings.model import Settings
from distributary.producer_sim.verify.lake import Lake

# Rows by game, or of all games together; asked for once the clock has stopped.
Landed = Callable[[], Mapping[str, int]]
Way = Callable[[SparkSession, Settings, Topic], Landed]

# The threads that the usual advice gives to persist-and-filter.
APPENDING_THREADS = 4


def ours(spark: SparkSession, settings: Settings, topic: Topic) -> Landed:
    """The pipeline, with all that a user gets: from taking the checkpoint's lease to giving it back."""
    outcome = run(settings, spark=spark)

    def landed() -> Mapping[str, int]:
        outcome_holds(outcome, sum(topic.rows.values()))
        lake = Lake.of(settings)
        return {game: rows_in(lake, lake.table_of(game)) for game in topic.rows}

    return landed


def noop(spark: SparkSession, settings: Settings, topic: Topic) -> Landed:
    """Kafka to nowhere: what Spark's source alone can do."""
    query = _started(source(spark, settings).writeStream.format("noop"), settings, "all")
    _await([query])
    return lambda: {ALL: sum(int(progress["numInputRows"]) for progress in query.recentProgress)}


def noop_tuned(spark: SparkSession, settings: Settings, topic: Topic) -> Landed:
    """Kafka to nowhere with the client options that we read with: what is left of a better read."""
    query = _started(source(spark, settings, tuned=True).writeStream.format("noop"), settings, "all")
    _await([query])
    return lambda: {ALL: sum(int(progress["numInputRows"]) for progress in query.recentProgress)}


def single(spark: SparkSession, settings: Settings, topic: Topic) -> Landed:
    """One Delta table, nothing routed, by Spark's writer."""
    table = settings.sink.root.path / "all"
    rows = decoded(spark, settings, topic.schema)
    _await([_started(rows.writeStream.format("delta").option("path", str(table)), settings, "all")])
    return lambda: {ALL: table_rows(table)}


def n_queries(spark: SparkSession, settings: Settings, topic: Topic) -> Landed:
    """A streaming query a game, each reading and decoding everything and keeping its own."""

    def start(game: str) -> StreamingQuery:
        mine = decoded(spark, settings, topic.schema).where(sql.col(str(settings.route.field)) == game)
        writer = mine.writeStream.format("delta").option("path", str(settings.sink.root.path / game))
        return _started(writer, settings, game)

    _await([start(game) for game in topic.rows])
    return lambda: _by_game(settings.sink.root.path, topic)


def filters(spark: SparkSession, settings: Settings, topic: Topic) -> Landed:
    """One query that decodes and persists each batch, then filters it once a game, as is usually advised."""

    def append_all(rows: DataFrame, batch_id: int) -> None:
        rows.persist()

        def append(game: str) -> None:
            mine = rows.where(sql.col(str(settings.route.field)) == game).write.format("delta").mode("append")
            once = mine.option("txnAppId", settings.name).option("txnVersion", batch_id)
            once.save(str(settings.sink.root.path / game))

        with ThreadPoolExecutor(APPENDING_THREADS) as pool:
            list(pool.map(append, topic.rows))
        rows.unpersist()

    rows = decoded(spark, settings, topic.schema)
    _await([_started(rows.writeStream.foreachBatch(append_all), settings, "all")])
    return lambda: _by_game(settings.sink.root.path, topic)


def _started(writer: DataStreamWriter, settings: Settings, name: str) -> StreamingQuery:
    checkpoint = settings.checkpoint.path / name
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def _await(queries: Sequence[StreamingQuery]) -> None:
    try:
        for query in queries:
            query.awaitTermination()
    finally:
        for query in queries:
            query.stop()


def _by_game(root: Path, topic: Topic) -> Mapping[str, int]:
    return {game: table_rows(root / game) for game in topic.rows}
