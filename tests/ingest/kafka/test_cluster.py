"""What the pipeline asks Kafka, by either client, of a real broker; and what is said when there is none."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from functools import partial

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from distributary.errors import BrokerUnavailable, ConfigError, CredentialsRefused, SetupError
from distributary.ingest.interruptible import Stopped
from distributary.ingest.kafka.client import Complaints, Moment, Topic
from distributary.ingest.kafka.cluster import KafkaCluster, lag
from distributary.ingest.kafka.connection import connect
from distributary.ingest.kafka.offsets import Positions
from distributary.ingest.settings.groups import Source
from distributary.producer_sim.stack.local import LocalStack
from distributary.producer_sim.stack.ports import LOOPBACK, free_port

Connect = Callable[..., AbstractContextManager[KafkaCluster]]


@pytest.fixture(params=["librdkafka", pytest.param("java", marks=pytest.mark.spark)])
def connecting(request: pytest.FixtureRequest) -> Connect:
    """Connects by one of the clients: `connecting(source, stop=..., timeout_seconds=...)`."""
    return partial(connect, spark=request.getfixturevalue("spark") if request.param == "java" else None)


def source(servers: str, topics: Sequence[str] = ("events",), **kafka: str) -> Source:
    return Source.model_validate({"kafka": {"bootstrap.servers": servers, **kafka}, "topics": list(topics)})


@pytest.fixture
def silent_port() -> Iterator[str]:
    """An address where connections are taken and nothing is ever said."""
    with socket.create_server((LOOPBACK, free_port())) as server:
        yield f"{LOOPBACK}:{server.getsockname()[1]}"


@pytest.fixture
def closed_port() -> str:
    """An address where nobody listens."""
    return f"{LOOPBACK}:{free_port()}"


def test_a_broker_that_does_not_answer_is_named_in_time(connecting: Connect, silent_port: str) -> None:
    began = time.monotonic()
    said = f"^Kafka at {re.escape(silent_port)} does not answer: [^\n]*check that it runs[^\n]*$"
    with (
        pytest.raises(BrokerUnavailable, match=said),
        connecting(source(silent_port), timeout_seconds=1.0) as cluster,
    ):
        cluster.topic_ids()
    assert time.monotonic() - began < 15


def test_a_refused_connection_is_told_as_such(connecting: Connect, closed_port: str) -> None:
    with (
        pytest.raises(BrokerUnavailable, match=r"Connection refused[^\n]*check that it runs"),
        connecting(source(closed_port), timeout_seconds=1.0) as cluster,
    ):
        cluster.end_offsets()


def test_nobody_asks_a_broker_any_more_that_was_not_there_when_its_client_was_closed(
    closed_port: str,
) -> None:
    """Whoever listens there next would be spoken to for as long as this program lives."""
    with (
        suppress(BrokerUnavailable),
        connect(source(closed_port), timeout_seconds=0.2) as cluster,
    ):
        cluster.end_offsets()
    with socket.create_server((LOOPBACK, int(closed_port.rpartition(":")[2]))) as server:
        server.settimeout(2.0)
        # It would come at least once a second by now.
        with pytest.raises(TimeoutError):
            server.accept()
    # Kept up to here: it is not its end that has ended the client.
    assert isinstance(cluster, KafkaCluster)


def test_an_outage_is_waited_for_where_somebody_is_told(connecting: Connect, closed_port: str) -> None:
    stop, told = threading.Event(), []

    def tell(reason: str, seconds: float) -> None:
        told.append((reason, seconds))
        if len(told) == 2:
            stop.set()

    with (
        pytest.raises(Stopped),
        connecting(source(closed_port), stop=stop, timeout_seconds=0.5, tell=tell) as cluster,
    ):
        cluster.end_offsets()
    assert [seconds for _, seconds in told] == [1.0, 2.0]
    assert all(f"Kafka at {closed_port} does not answer" in reason for reason, _ in told)


def test_what_never_answered_is_named_sooner_than_it_is_given_up(
    silent_port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its address may be wrong, and whoever started the run reads nothing else."""
    monkeypatch.setattr("distributary.ingest.kafka.cluster.QUIET_SECONDS", 0.2)
    stop, told = threading.Event(), []

    def tell(reason: str, seconds: float) -> None:
        told.append((reason, seconds))
        if len(told) == 3:
            stop.set()

    with (
        pytest.raises(Stopped),
        connect(source(silent_port), stop=stop, timeout_seconds=0.5, tell=tell) as cluster,
    ):
        cluster.end_offsets()
    assert told[0][0].startswith(f"no answer from Kafka at {silent_port} for 0 s; it is waited for")
    assert [seconds for _, seconds in told] == [0.0, 1.0, 2.0], "once"


def test_a_run_that_is_told_to_stop_does_not_wait_for_kafka(connecting: Connect, silent_port: str) -> None:
    stop = threading.Event()
    with connecting(source(silent_port), stop=stop, timeout_seconds=120.0) as cluster:
        stopping = threading.Timer(0.3, stop.set)
        stopping.start()
        began = time.monotonic()
        with pytest.raises(Stopped):
            cluster.cluster_id()
        stopping.join()
    assert time.monotonic() - began < 60, "not the time limit's end, but the request to stop"


def test_options_that_do_not_work_are_the_settings_fault(connecting: Connect) -> None:
    wrong = source(
        "127.0.0.1:1",
        **{
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "/no/such/file",
        },
    )
    with (
        pytest.raises(ConfigError, match=r"source\.kafka does not work: .*(ssl\.ca\.location|/no/such/file)"),
        connecting(wrong),
    ):
        pass


def test_lag_counts_what_was_never_read_too() -> None:
    ends = {"a": {0: 10, 1: 5}, "b": {0: 3}}
    assert lag(ends, {"a": {0: 4, 1: 9}}) == {"a": {0: 6, 1: 0}, "b": {0: 3}}


@pytest.mark.stack
def test_a_topic_made_anew_has_another_id(
    connecting: Connect, stack: LocalStack, admin: AdminClient, topic: str
) -> None:
    with connecting(source(stack.bootstrap_servers, [topic])) as kafka:
        cluster, before = kafka.cluster_id(), kafka.topic_ids()
        assert (kafka.cluster_id(), kafka.topic_ids()) == (cluster, before)
        admin.delete_topics([topic])[topic].result(30)
        made = admin.create_topics([NewTopic(topic, num_partitions=3, replication_factor=1)])[topic]
        made.result(30)
        after = kafka.topic_ids()
        while after == before:  # the broker learns of the controller's deeds a moment later
            after = kafka.topic_ids()
        assert kafka.cluster_id() == cluster
        assert kafka.partitions() == {topic: [0, 1, 2]}
    assert after[topic] != before[topic]
    assert len(before[topic]) == len(after[topic]) == 22
    described = admin.describe_cluster().result(30)
    assert cluster == described.cluster_id


@pytest.mark.stack
def test_a_missing_topic_comes_with_the_command_that_makes_it(
    connecting: Connect, stack: LocalStack, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # That a topic may be known in a moment is tested below; nobody makes this one.
    monkeypatch.setattr("distributary.ingest.kafka.cluster._SETTLE_SECONDS", 0.2)
    with connecting(source(stack.bootstrap_servers, [topic, "no-such-topic"])) as kafka:
        for ask in (kafka.topic_ids, kafka.end_offsets):
            with pytest.raises(
                SetupError, match=r"'no-such-topic' does not exist .*--create --topic no-such-topic"
            ):
                ask()


@pytest.mark.stack
def test_offsets_of_every_partition(
    connecting: Connect, stack: LocalStack, make_topic: Callable[[int], str]
) -> None:
    one, other = make_topic(2), make_topic(1)
    producer = Producer({"bootstrap.servers": stack.bootstrap_servers})
    for number in range(7):
        producer.produce(one, b"x", partition=number % 2, timestamp=1_000 * (number + 1))
    producer.flush(30)
    with connecting(source(stack.bootstrap_servers, [one, other])) as kafka:
        assert kafka.partitions() == {one: [0, 1], other: [0]}
        assert kafka.earliest_offsets() == {one: {0: 0, 1: 0}, other: {0: 0}}
        assert kafka.end_offsets() == {one: {0: 4, 1: 3}, other: {0: 0}}
        assert kafka.lag({one: {0: 1}}) == {one: {0: 3, 1: 3}, other: {0: 0}}
        assert kafka.offsets_from(0) == {one: {0: 0, 1: 0}, other: {}}
        assert kafka.offsets_from(3_500) == {one: {0: 2, 1: 1}, other: {}}
        assert kafka.offsets_from(7_000) == {one: {0: 3}, other: {}}


@pytest.mark.stack
def test_an_open_transaction_is_not_the_end_for_who_reads_what_is_committed(
    connecting: Connect, stack: LocalStack, topic: str
) -> None:
    producer = Producer({"bootstrap.servers": stack.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    producer.flush(30)
    reads_all = source(stack.bootstrap_servers, [topic], **{"isolation.level": "read_uncommitted"})
    with connecting(source(stack.bootstrap_servers, [topic])) as kafka:
        assert (kafka.end_offsets()[topic][0], kafka.ends()[topic][0]) == (0, 1)
    with connecting(reads_all) as kafka:
        assert kafka.end_offsets()[topic][0] == 1
    producer.abort_transaction(30)


class Settling:
    """A client whose topic is unknown at first, and then without a leader."""

    def __init__(self) -> None:
        self.asked = 0

    def cluster_id(self) -> str:
        return "id"

    def names(self) -> Sequence[str]:
        return ["b.1", "a", "b.2", "c"]

    def topics(self, names: Sequence[str]) -> Mapping[str, Topic]:
        self.asked += 1
        if self.asked < 3:
            raise Complaints("somewhere").missing(names[0])
        return {name: Topic("uuid", [0]) for name in names}

    def offsets(self, partitions: Mapping[str, Sequence[int]], moment: Moment) -> Positions:
        self.asked += 1
        if self.asked < 6:
            raise Complaints("somewhere").leaderless("not yet")
        return {name: dict.fromkeys(numbers, 7) for name, numbers in partitions.items()}

    def close(self) -> None:
        pass


def test_a_topic_that_is_known_and_led_in_a_moment_is_waited_for() -> None:
    client = Settling()
    cluster = KafkaCluster(lambda: client, ["a", "b"], Complaints("somewhere"))
    assert cluster.end_offsets() == {"a": {0: 7}, "b": {0: 7}}
    assert client.asked == 6


def test_topics_that_fit_a_pattern_are_read_beside_those_that_are_named() -> None:
    cluster = KafkaCluster(Settling, ["c", "/^b\\.[0-9]$/", "d"], Complaints("somewhere"))
    assert cluster.names() == ("c", "d", "b.1", "b.2")
    assert [cluster.is_found(name) for name in cluster.names()] == [False, False, True, True]
    assert not cluster.look()


def test_topics_that_fit_are_others_once_somebody_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = KafkaCluster(Settling, ["/^b/"], Complaints("somewhere"))
    assert cluster.names() == ("b.1", "b.2")
    monkeypatch.setattr(Settling, "names", lambda _: ["b.2", "b.3"])
    assert cluster.names() == ("b.1", "b.2")
    assert (cluster.look(), cluster.look()) == (True, False)
    assert cluster.names() == ("b.2", "b.3")
    monkeypatch.setattr(Settling, "names", lambda _: ["a"])
    assert not cluster.look(), "there is nothing to be read in their place"


def test_whoever_is_refused_as_he_looks_for_topics_goes_on_with_those_that_he_has() -> None:
    """As while a token is renewed: a run looks each few seconds, and before it tries again after any error."""

    class Refusing(Settling):
        refuses = False

        def names(self) -> Sequence[str]:
            if Refusing.refuses:
                raise Complaints("somewhere").no_login("the token has expired")
            return super().names()

    cluster = KafkaCluster(Refusing, ["/^b/"], Complaints("somewhere"))
    assert cluster.names() == ("b.1", "b.2")
    Refusing.refuses = True
    assert not cluster.look()
    assert cluster.names() == ("b.1", "b.2")


def test_that_no_topic_fits_is_told() -> None:
    cluster = KafkaCluster(Settling, ["/^z/"], Complaints("somewhere"))
    with pytest.raises(SetupError, match=r"no topic on somewhere fits /\^z/.*correct source\.topics"):
        cluster.names()


@pytest.mark.stack
def test_the_topics_that_there_are(connecting: Connect, stack: LocalStack, topic: str) -> None:
    prefix = topic[:-4]
    with connecting(source(stack.bootstrap_servers, [f"/^{prefix}/", "/consumer_offsets/"])) as kafka:
        assert kafka.names() == (topic,)
        assert kafka.partitions().keys() == {topic}


def test_a_client_whose_credentials_are_refused_is_made_anew_as_their_files_may_have_been_replaced() -> None:
    accepted, made, closed = [1], list[int](), list[int]()

    class Certified(Settling):
        def __init__(self) -> None:
            self.number = len(made) + 1
            made.append(self.number)

        def cluster_id(self) -> str:
            if self.number not in accepted:
                raise Complaints("somewhere").no_login("the certificate has expired")
            return "cluster"

        def close(self) -> None:
            closed.append(self.number)

    cluster = KafkaCluster(Certified, ["a"], Complaints("somewhere"))
    assert cluster.cluster_id() == "cluster"
    accepted[:] = [2]
    with pytest.raises(CredentialsRefused, match="has expired"):
        cluster.cluster_id()
    assert cluster.cluster_id() == "cluster"
    assert (made, closed) == ([1, 2], [1])


def test_a_client_that_cannot_be_closed_hides_no_error() -> None:
    class Broken(Settling):
        def close(self) -> None:
            raise ConnectionError("its process has died")

    KafkaCluster(Broken, ["a"], Complaints("somewhere")).close()


def test_a_client_that_never_ends_its_question_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributary.ingest.kafka.cluster._LATE_SECONDS", 0.2)
    never: Future[Settling] = Future()
    with pytest.raises(BrokerUnavailable, match="somewhere does not answer: no answer in time"):
        KafkaCluster(never.result, ["a"], Complaints("somewhere"), timeout_seconds=0.2)
