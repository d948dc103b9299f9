"""Which options of Kafka's client a pipeline may set, and why the others would break a promise.

Spark's own list: https://spark.apache.org/docs/latest/streaming/structured-streaming-kafka-integration.html
"""

from __future__ import annotations

from collections.abc import Mapping

from distributary.passed_on_options import ClientOptions, reject

_ISOLATION = "isolation.level"

_DESERIALIZER = "Spark reads plain bytes and the codec decodes them; remove it"

_REFUSED = {
    "enable.auto.commit": "Spark's checkpoint alone says what was read; remove it",
    "auto.offset.reset": "write source.starting_offsets instead",
    "group.id": "Spark makes a consumer group of its own for each query; remove it",
    "group.instance.id": "Spark makes its own consumers; remove it",
    "group.protocol": "Spark assigns the partitions itself; remove it",
    "partition.assignment.strategy": "Spark assigns the partitions itself; remove it",
    "key.deserializer": _DESERIALIZER,
    "value.deserializer": _DESERIALIZER,
    "key.serializer": "nothing is written to Kafka; remove it",
    "value.serializer": "nothing is written to Kafka; remove it",
    "interceptor.classes": "an interceptor may change or drop records unseen; remove it",
    "allow.auto.create.topics": "a misspelt topic must fail, not come into being; remove it",
}

_LIBRDKAFKA = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.username": "sasl.jaas.config",
    "sasl.password": "sasl.jaas.config",
    "ssl.ca.location": "ssl.truststore.location with ssl.truststore.type: PEM",
    "ssl.certificate.location": "ssl.keystore.location with ssl.keystore.type: PEM",
    "ssl.key.location": "ssl.keystore.location with ssl.keystore.type: PEM",
}

_SPARK = {
    "subscribe": "write source.topics instead",
    "subscribePattern": "write source.topics instead",
    "assign": "write source.topics instead",
    "startingOffsets": "write source.starting_offsets instead",
    "startingTimestamp": "write source.starting_offsets instead",
    "startingOffsetsByTimestamp": "write source.starting_offsets instead",
    "endingOffsets": "write source.until instead, or trigger.available_now",
    "endingTimestamp": "write source.until instead",
    "endingOffsetsByTimestamp": "write source.until instead",
    "maxOffsetsPerTrigger": "write limits.batch_rows instead",
    "includeHeaders": "write source.headers instead",
    "failOnDataLoss": "lost data must stop the run; remove it",
}


def check_kafka(options: ClientOptions) -> ClientOptions:
    """The options with `isolation.level: read_committed` unless it is given; ValueError with every reason against them."""
    complete = ClientOptions({_ISOLATION: "read_committed", **options})
    if not complete.get("bootstrap.servers", "").strip():
        raise ValueError(
            'bootstrap.servers is missing; write for example bootstrap.servers: "127.0.0.1:9092"'
        )
    return reject(complete, _reason_against)


def check_spark(options: ClientOptions) -> ClientOptions:
    """The options; ValueError where one of them would break a promise."""
    return reject(options, _reason_against_in_spark)


def spark_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options as Spark's Kafka source spells them: each with `kafka.` before its name."""
    return {f"kafka.{name}": value for name, value in options.items()}


def _reason_against(name: str, value: str) -> str | None:
    if name.startswith("kafka."):
        return f"write it without `kafka.`: {name.removeprefix('kafka.')}"
    if name in _LIBRDKAFKA:
        return f"this is librdkafka's spelling; Java's client calls it {_LIBRDKAFKA[name]}"
    if name == _ISOLATION and value not in ("read_committed", "read_uncommitted"):
        return "Kafka knows read_committed (the default here) and read_uncommitted"
    return _REFUSED.get(name) or _SPARK.get(name)


def _reason_against_in_spark(name: str, value: str) -> str | None:
    if "asyncprogresstrackingenabled" in name.lower() and value.lower() != "false":
        return "it breaks exactly-once: offsets would be recorded after the fact; remove it"
    return None
