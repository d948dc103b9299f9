"""What the settings say of a run's batches, as those who take part in it are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import SparkSession

from distributary.ingest.evolution.rules import Parking, RunRules, rules_of, with_fits, worker_policies
from distributary.ingest.pins import Decoding, WorkerRules
from distributary.ingest.routing.conditions import ReadCondition, conditions_in_session
from distributary.ingest.routing.read_ahead import ReadExpression, read_in_session
from distributary.ingest.settings.groups import Decode, Route
from distributary.ingest.settings.model import Settings


def run_rules(
    settings: Settings,
    expression: ReadExpression | None = None,
    conditions: Mapping[str, ReadCondition] | None = None,
) -> RunRules:
    """What the settings say of a run's batches; `expression` is what they route by, for `route.by: expression`, `conditions` are those of deletes."""
    decode, policies, book = settings.decode, settings.policies, settings.rule_book()
    workers = WorkerRules(
        decoding=Decoding(
            codec=decode.codec,
            engine=decode.engine,
            check=decode.check,
            by_entity=decode.schema_per == "entity",
            max_fields=decode.max_fields,
            max_questions=settings.registry.max_unknown_ids,
        ),
        topics=settings.source.topics,
        route=settings.route,
        columns=settings.sink.columns,
        policies=worker_policies(decode, policies),
        worker_bytes=settings.limits.worker_bytes,
        expression=expression.tree if expression else None,
        tables=replace(with_fits(book, decode, policies), conditions=conditions or {}),
    )
    changes = rules_of(decode, policies, settings.route, settings.sink, expression, book)
    return RunRules(
        decode, workers, changes, Parking(policies.stuck_table == "park", policies.parked_batches)
    )


def expression_of(spark: SparkSession, route: Route, decode: Decode) -> ReadExpression | None:
    """What records are routed by, if by an expression. Raises ConfigError for one that cannot be read."""
    if route.expression is None:
        return None
    return read_in_session(spark, route.expression, native=decode.engine == "arrow")


def conditions_of(spark: SparkSession, settings: Settings) -> dict[str, ReadCondition]:
    """The conditions that records are held against, by their texts. Raises ConfigError for one that cannot be read."""
    book = settings.rule_book()
    return {
        **conditions_in_session(spark, book.asked()),
        **conditions_in_session(spark, book.asked_of_each(), each=True),
    }
