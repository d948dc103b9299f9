"""A broker that asks who it speaks to: what connects Spark connects our questions, and nothing tells a secret."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from tests.ingest.secured_broker import PLANTED, SecuredBroker, token_endpoint

from distributary.errors import ConfigError, DistributaryError, SetupError
from distributary.ingest.kafka.cluster import KafkaCluster
from distributary.ingest.kafka.connection import connect
from distributary.ingest.kafka.source import TopicReader, warm_up
from distributary.ingest.settings.groups import Source

pytestmark = [pytest.mark.spark, pytest.mark.stack]

Connect = Callable[..., AbstractContextManager[KafkaCluster]]


@pytest.fixture(scope="module")
def topic(secured_broker: SecuredBroker) -> str:
    """A topic with three records."""
    secured_broker.make_topic("events")
    producer = Producer({"bootstrap.servers": secured_broker.bootstrap_servers})
    for value in (b"a", b"b", b"c"):
        producer.produce("events", value)
    assert producer.flush(30) == 0
    return "events"


def source(kafka: Mapping[str, str], topic: str) -> Source:
    return Source.model_validate({"kafka": dict(kafka), "topics": [topic]})


LetIn = Callable[..., Source]


@pytest.fixture(scope="module")
def let_in(secured_broker: SecuredBroker, topic: str) -> Iterator[LetIn]:
    """Says how to log in to a listener with these stores."""
    with token_endpoint(secured_broker) as url:

        def options(listener: str, *stores: str) -> Source:
            kafka = secured_broker.options(listener, *stores)
            return source(
                {**kafka, "sasl.oauthbearer.token.endpoint.url": url} if listener == "oauth" else kafka, topic
            )

        yield options


def ends(connecting: Connect, asked: Source) -> Mapping[str, Mapping[int, int]]:
    with connecting(asked) as kafka:
        assert len(kafka.cluster_id()) == 22
        assert kafka.partitions() == {asked.topics[0]: [0]}
        return kafka.end_offsets()


# Listener, and the stores that its client has; whether librdkafka can read them, too.
WAYS = [
    ("plain", ("pem", "pkcs12"), True),
    *(
        pytest.param(*way, marks=pytest.mark.heavy)
        for way in (
            ("tls", ("pem",), True),
            ("tls", ("jks",), False),
            ("mutual", ("pem", "pem"), True),
            ("mutual", ("pem", "pkcs12"), True),
            ("mutual", ("jks", "jks"), False),
            ("plain", ("pem", "pem"), True),
            ("scram", ("pem",), True),
            ("scram", ("jks",), False),
            ("oauth", ("pem",), True),
        )
    ),
]


@pytest.mark.parametrize(("listener", "stores", "both"), WAYS)
def test_what_lets_spark_in_lets_our_questions_in(
    listener: str, stores: tuple[str, ...], both: bool, spark: SparkSession, let_in: LetIn
) -> None:
    asked = let_in(listener, *stores)
    topic = asked.topics[0]
    assert ends(partial(connect, spark=spark), asked) == {topic: {0: 3}}
    options = {**asked.spark_options(), "subscribe": topic}
    records = spark.read.format("kafka").options(**options).load()
    assert sorted(bytes(row.value) for row in records.collect()) == [b"a", b"b", b"c"]
    assert PLANTED not in str(records._jdf.queryExecution().toString())
    if both:
        assert ends(connect, asked) == {topic: {0: 3}}
        return
    with pytest.raises(ConfigError, match=r"^source\.kafka\.ssl[^\n]*JKS[^\n]*$") as refused, connect(asked):
        pass
    assert PLANTED not in str(refused.value)


@pytest.fixture(params=["librdkafka", "java"])
def connecting(request: pytest.FixtureRequest) -> Connect:
    """Connects by one of the clients."""
    return partial(connect, spark=request.getfixturevalue("spark") if request.param == "java" else None)


def refusal(connecting: Connect, asked: Source) -> DistributaryError:
    """What is said, in one sentence, without a secret and without a stack trace."""
    with pytest.raises(DistributaryError) as caught, connecting(asked, timeout_seconds=3.0) as kafka:
        kafka.end_offsets()
    said = str(caught.value)
    assert "\n" not in said
    assert PLANTED not in said
    assert not re.search(r"\bat (org|java)\.|Exception", said)
    return caught.value


@pytest.mark.parametrize("listener", ["plain", pytest.param("scram", marks=pytest.mark.heavy)])
def test_a_wrong_password_is_a_login_that_fails(
    connecting: Connect, listener: str, secured_broker: SecuredBroker, topic: str
) -> None:
    kafka = secured_broker.options(listener, "pem", "pem")
    kafka["sasl.jaas.config"] = kafka["sasl.jaas.config"].replace(f"{PLANTED}-password", f"{PLANTED}-wrong")
    error = refusal(connecting, source(kafka, topic))
    assert isinstance(error, SetupError)
    assert "cannot be logged in to with the options of source.kafka" in str(error)


def test_a_broker_that_nobody_vouches_for_is_not_talked_to(
    connecting: Connect, secured_broker: SecuredBroker, topic: str
) -> None:
    kafka = secured_broker.options("tls", "pem")
    # Its own certificate is no authority's.
    kafka["ssl.truststore.location"] = f"{secured_broker.folder}/stranger.pem"
    pem = (secured_broker.folder / "reader.pem").read_text()
    (secured_broker.folder / "stranger.pem").write_text(pem[pem.index("-----BEGIN CERT") :])
    error = refusal(connecting, source(kafka, topic))
    assert isinstance(error, SetupError)
    assert "cannot be logged in to" in str(error)


def test_a_topic_that_is_others_is_refused(connecting: Connect, secured_broker: SecuredBroker) -> None:
    name = f"others-{uuid.uuid4().hex[:8]}"
    secured_broker.make_topic(name)
    secured_broker.keep_for_others(name)
    kafka = secured_broker.options("scram", "pem")
    error = refusal(connecting, source(kafka, name))
    assert isinstance(error, SetupError)
    assert "refused" in str(error)
    assert "give the user of source.kafka the right" in str(error)


def test_a_topic_that_may_be_described_and_not_read_is_refused(
    spark: SparkSession, secured_broker: SecuredBroker
) -> None:
    name = f"described-{uuid.uuid4().hex[:8]}"
    secured_broker.make_topic(name)
    producer = Producer({"bootstrap.servers": secured_broker.bootstrap_servers})
    producer.produce(name, b"a")
    assert producer.flush(30) == 0
    secured_broker.let_describe(name)
    asked = source(secured_broker.options("scram", "pem"), name)
    with connect(asked, spark) as kafka, pytest.raises(SetupError) as refused:
        assert kafka.end_offsets() == {name: {0: 1}}
        warm_up(TopicReader(spark, "games", asked, headers=False), kafka)
    assert f"refused (Not authorized to access topics: [{name}])" in str(refused.value)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("ssl.truststore.password", f"{PLANTED}-wrong"),
        ("sasl.jaas.config", f'a.b.Module required username="me" password "{PLANTED}";'),
        ("sasl.jaas.config", f'a.b.Module {PLANTED} username="me";'),
        ("sasl.jaas.config", f'a.b.NoSuchModule required password="{PLANTED}";'),
        ("security.protocol", "NO-SUCH-PROTOCOL"),
        ("ssl.keystore.key", f"-----BEGIN {PLANTED}"),
        ("sasl.login.callback.handler.class", "no.such.Handler"),
    ],
)
def test_options_that_make_no_client_are_the_settings_fault(
    option: str, value: str, spark: SparkSession, secured_broker: SecuredBroker, topic: str
) -> None:
    kafka = {**secured_broker.options("scram", "jks"), option: value}
    error = refusal(partial(connect, spark=spark), source(kafka, topic))
    assert isinstance(error, ConfigError)
    assert "source.kafka does not work: " in str(error)
