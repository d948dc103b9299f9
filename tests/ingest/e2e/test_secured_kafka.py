"""Whole runs against a broker that asks who it speaks to; a secret is nowhere in what they write and say."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.ingest.e2e.pipeline_kit import PATIENCE_SECONDS, PipelineKit
from tests.ingest.e2e.planted import holding, said
from tests.ingest.secured_broker import PLANTED, SecuredBroker, token_endpoint

from distributary.ingest.kafka.source import TopicReader
from distributary.producer_sim.stack.local import LocalStack

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.heavy, pytest.mark.folder]


@pytest.fixture
def kit(tmp_path: Path, stack: LocalStack, spark: SparkSession, secured_broker: SecuredBroker) -> PipelineKit:
    """A pipeline over a topic of the secured broker; events are sent by its plain listener."""
    topic = f"games-{uuid.uuid4().hex[:8]}"
    secured_broker.make_topic(topic, 2)
    made = PipelineKit(tmp_path / "pipeline", topic, stack, spark)
    made.folder.mkdir()
    made.bootstrap_servers = secured_broker.bootstrap_servers
    return made


def logging_in(kit: PipelineKit, kafka: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> PipelineKit:
    """The pipeline with these options, the secret ones by way of the environment."""
    written = {}
    for number, (name, value) in enumerate(kafka.items()):
        if PLANTED in value:
            monkeypatch.setenv(f"KAFKA_SECRET_{number}", value)
        written[name] = f"${{KAFKA_SECRET_{number}}}" if PLANTED in value else value
    return kit.configured(source={"kafka": written})


LogIn = Callable[..., PipelineKit]


@pytest.fixture
def log_in(
    kit: PipelineKit, secured_broker: SecuredBroker, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LogIn]:
    """Lets the pipeline log in to a listener with these stores."""
    with token_endpoint(secured_broker) as url:

        def configure(listener: str, *stores: str, **more: str) -> PipelineKit:
            kafka = {**secured_broker.options(listener, *stores), **more}
            if listener == "oauth":
                kafka["sasl.oauthbearer.token.endpoint.url"] = url
            return logging_in(kit, kafka, monkeypatch)

        yield configure


def told_by_spark(kit: PipelineKit) -> list[str]:
    """What Spark shows of a stream with these options, and of itself, where that holds a secret."""
    chosen = kit.settings
    topics = TopicReader.of(kit.spark, chosen.name, chosen.source, chosen.route)
    query = (
        topics.stream(chosen.limits.batch_rows, {kit.topic: {0: 0, 1: 0}})
        .writeStream.format("noop")
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(int(PATIENCE_SECONDS))
    context = kit.spark.sparkContext
    shown = [str(query.lastProgress), str(query._jsq.explainInternal(True)), str(kit.spark.conf.getAll)]
    shown += [str(context.getConf().getAll()), str(kit.spark.sql("SET").collect())]
    return [text for text in shown if PLANTED in text]


WAYS = [
    ("tls", ("pem",)),
    ("mutual", ("jks", "jks")),
    ("plain", ("pem", "pkcs12")),
    ("scram", ("jks",)),
    ("oauth", ("jks",)),
]


@pytest.mark.parametrize(("listener", "stores"), WAYS)
def test_records_of_a_secured_broker_arrive_and_no_secret_is_told(
    listener: str, stores: tuple[str, ...], log_in: LogIn, capfd: pytest.CaptureFixture[str]
) -> None:
    kit = log_in(listener, *stores)
    kit.simulate(events=200)
    assert kit.run().summary.rows == kit.truth.records
    kit.assert_clean()
    assert told_by_spark(kit) == []
    assert holding(PLANTED, kit.folder) == []
    assert PLANTED not in "".join(capfd.readouterr())


def test_the_command_line_tells_no_secret_whether_it_works_or_not(log_in: LogIn) -> None:
    kit = log_in("plain", "jks", "jks")
    kit.simulate(events=200)
    file = str(kit.settings_file)
    ran, output = said(kit, "run", file, "--available-now", "--json")
    assert ran == 0, output
    (outcome,) = (json.loads(line) for line in output.splitlines() if line.startswith("{"))
    assert outcome["rows"] == kit.truth.records
    refused = str(
        log_in("plain", "jks", "jks", **{"ssl.keystore.password": f"{PLANTED}-wrong"}).settings_file
    )
    failed, complaint = said(kit, "--debug", "run", refused, "--available-now")
    assert failed == 2
    assert "source.kafka does not work: " in complaint
    outputs = [output, complaint]
    for command in (["plan", file], ["plan", file, "--json"], ["settings", "check", file]):
        outputs.append(said(kit, *command)[1])
    assert all(outputs)
    assert [text for text in outputs if PLANTED in text] == []
    assert holding(PLANTED, kit.folder) == []
