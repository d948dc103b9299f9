"""What is remembered of what a topic was sent, asked without a broker; whole ways are in tests/ingest/e2e/test_sinks_of_derived_tables.py."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from distributary.codecs.writing.column import registered_for
from distributary.errors import BrokerUnavailable, PipelineError, RegistryUnavailable
from distributary.ingest.derivation.given import Derived
from distributary.ingest.derived import inputs, sinks, to_files, to_kafka
from distributary.ingest.derived.instances import Entities, instances
from distributary.ingest.derived.marks import Marks
from distributary.ingest.derived.sinks import Outside, bring_up
from distributary.ingest.derived.to_kafka import GONE, Topic, Uuids
from distributary.ingest.storage.posix import PosixFiles
from distributary.registry.confluent.options import RegistryAccess

RULE = {
    "table": "gold",
    "inputs": ["t"],
    "aggregate": {"by": ["city"], "columns": {"n": "count(*)"}},
    "sink": {"kafka": {"topic": "cities"}},
}


def test_that_nobody_says_which_topic_it_is_makes_none_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid, whole = "", list[bool]()

    def records(_: Any, __: Any, before: object, **___: Any) -> list[Any]:
        whole.append(before is None)
        return []

    monkeypatch.setattr(Uuids, "of", lambda *_: uuid)
    monkeypatch.setattr(to_kafka, "sending", lambda _: nullcontext())
    monkeypatch.setattr(to_kafka, "send", lambda *_: 1)
    monkeypatch.setattr(sinks._Sending, "_records", records)
    monkeypatch.setattr(sinks._Sending, "_before", lambda _, mark, __: mark)
    monkeypatch.setattr(sinks, "_pairs", lambda found: found)
    root = PosixFiles(tmp_path)
    outside = Outside("games", kafka={"bootstrap.servers": "there"}, marks=root.below("checkpoint"))
    (one,) = instances([Derived.model_validate(RULE)], Entities({}, folds=False))

    def sent(to: str) -> tuple[bool | None, str, str]:
        """Whether all rows were sent, None where none were; the topic that is known then; and what is told."""
        nonlocal uuid
        uuid = to
        write_deltalake(f"{root.url}/gold", pa.table({"city": ["Ulm"], "n": [1]}), mode="append")
        whole.clear()
        given = bring_up(None, one, root.below("gold"), outside, whole=False)  # type: ignore[arg-type] # none is needed
        _, mark = Marks(root.below("checkpoint"), "gold").last()
        assert mark is not None
        return whole[0] if whole else None, mark.topic, given.why

    anew = "topic cities was made anew since, so that all rows are sent"
    assert sent("first") == (True, "first", "")
    assert sent("") == (False, "first", "")
    assert sent("another") == (True, "another", anew), "it was made anew while nobody answered"
    # A broker that has not heard yet of a topic that another one has.
    assert sent(GONE) == (True, "", anew)
    assert sent("third") == (False, "third", ""), "to which all rows were sent"


def test_ends_that_nobody_tells_for_once_are_those_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was sent behind them by who died is found by the next turn to which they are told."""
    told, asked = dict[int, int](), list[tuple[dict[int, int], dict[int, int]]]()

    def keys_in(_: Any, __: Any, begins: dict[int, int], ends: dict[int, int]) -> Any:
        asked.append((begins, ends))
        raise PySparkException("who cannot read it sends all rows")

    monkeypatch.setattr(Uuids, "of", lambda *_: "first")
    monkeypatch.setattr(Uuids, "_ends", lambda *_: dict(told))
    monkeypatch.setattr(to_kafka, "sending", lambda _: nullcontext())
    monkeypatch.setattr(to_kafka, "send", lambda *_: 1)
    monkeypatch.setattr(to_kafka, "keys_in", keys_in)
    monkeypatch.setattr(to_kafka, "require_fitting", lambda *_: None)
    monkeypatch.setattr(sinks._Sending, "_records", lambda *_, **__: [])
    monkeypatch.setattr(sinks, "_pairs", lambda found: found)
    root = PosixFiles(tmp_path)
    outside = Outside("games", kafka={"bootstrap.servers": "there"}, marks=root.below("checkpoint"))
    (one,) = instances([Derived.model_validate(RULE)], Entities({}, folds=False))
    for told in ({0: 4}, {}, {0: 9}):  # noqa: B007 - it is what brokers tell
        write_deltalake(f"{root.url}/gold", pa.table({"city": ["Ulm"], "n": [1]}), mode="append")
        bring_up(None, one, root.below("gold"), outside, whole=False)  # type: ignore[arg-type] # none is needed
    assert asked == [({0: 4}, {0: 9})]


def without_brokers(
    patch: pytest.MonkeyPatch, ends: Callable[[], dict[int, int]], send: Callable[..., int]
) -> list[bool]:
    """Have a topic that ends there be sent to in such a way; whether each sending was to have all rows."""
    asked = list[bool]()

    def records(*_: Any, whole: bool, **__: Any) -> list[Any]:
        asked.append(whole)
        return []

    patch.setattr(Uuids, "of", lambda *_: "first")
    patch.setattr(Uuids, "_ends", lambda *_: dict(ends()))
    patch.setattr(to_kafka, "sending", lambda _: nullcontext())
    patch.setattr(to_kafka, "send", send)
    patch.setattr(to_kafka, "keys_in", lambda *_: SimpleNamespace(isEmpty=lambda: True))
    patch.setattr(to_kafka, "require_fitting", lambda *_: None)
    patch.setattr(sinks._Sending, "_records", records)
    patch.setattr(sinks._Sending, "_before", lambda _, mark, __: mark)
    patch.setattr(sinks, "_pairs", lambda found: found)
    return asked


def test_all_rows_are_sent_where_what_somebody_sent_is_there_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run said that a key went, and died; compaction took both a day later, and the row is back as it was: no comparison tells of it."""
    ends = dict[int, int]()
    asked = without_brokers(monkeypatch, lambda: ends, lambda *_: 1)
    root = PosixFiles(tmp_path)
    outside = Outside("games", kafka={"bootstrap.servers": "there"}, marks=root.below("checkpoint"))
    (one,) = instances([Derived.model_validate(RULE)], Entities({}, folds=False))
    for ends in ({0: 4}, {0: 4}, {0: 6}, {0: 6}):  # noqa: B007 - it is what brokers tell
        write_deltalake(f"{root.url}/gold", pa.table({"city": ["Ulm"], "n": [1]}), mode="append")
        given = bring_up(None, one, root.below("gold"), outside, whole=False)  # type: ignore[arg-type] # none is needed
        assert ("other records than were noted" in given.why) == (asked == [False, False, True])
    assert asked == [False, False, True, False]


def test_what_was_taken_back_has_nothing_sent_again_and_what_came_behind_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each turn that a row ends whose topic does not take it leaves the mark of an aborted transaction, and sent all rows at the next."""
    ends, fails = dict[int, int](), ""

    def send(*given: Any) -> int:
        if fails == "before":
            given[-1]()
        if fails:
            raise PipelineError("a row is too large" if fails == "before" else "killed behind a commit")
        return 1

    asked = without_brokers(monkeypatch, lambda: ends, send)
    root = PosixFiles(tmp_path)
    outside = Outside("games", kafka={"bootstrap.servers": "there"}, marks=root.below("checkpoint"))
    (one,) = instances([Derived.model_validate(RULE)], Entities({}, folds=False))
    for end, fails in ((4, ""), (4, "before"), (5, "before"), (6, ""), (6, "before"), (7, "behind"), (9, "")):
        ends = {0: end}
        write_deltalake(f"{root.url}/gold", pa.table({"city": ["Ulm"], "n": [1]}), mode="append")
        with pytest.raises(PipelineError) if fails else nullcontext():
            bring_up(None, one, root.below("gold"), outside, whole=False)  # type: ignore[arg-type] # none is needed
    assert asked == [False] * 6 + [True]


@pytest.mark.parametrize(
    ("error", "tried"), [(to_kafka.BrokersSilent, [("a", 60)]), (BrokerUnavailable, [("a", 60), ("b", 5)])]
)
def test_where_no_broker_answers_one_table_waits_for_all_of_a_turn(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BrokerUnavailable],
    tried: list[tuple[str, float]],
) -> None:
    """Where one topic cannot be written to, all others are; but hundreds must not each wait for as long."""
    asked = list[tuple[str, float]]()

    def sending(topic: Topic) -> Any:
        asked.append((topic.name, topic.patience))
        raise error("nobody answers")

    monkeypatch.setattr(Uuids, "of", lambda *_: "")
    monkeypatch.setattr(to_kafka, "sending", sending)
    root = PosixFiles(tmp_path)
    outside = Outside("games", kafka={"bootstrap.servers": "there"}, marks=root.below("checkpoint"))
    for name in ("a", "b"):
        rule = {**RULE, "table": name, "sink": {"kafka": {"topic": name}}}
        (one,) = instances([Derived.model_validate(rule)], Entities({}, folds=False))
        write_deltalake(f"{root.url}/{name}", pa.table({"city": ["Ulm"], "n": [1]}))
        with pytest.raises(BrokerUnavailable):
            bring_up(None, one, root.below(name), outside, whole=False)  # type: ignore[arg-type] # none is needed
    assert asked == tried


@pytest.mark.spark
def test_of_a_table_that_is_added_to_what_came_alone_is_read_and_sent(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, read, read_by_itself = list[tuple[bytes, bytes | None]](), set[str](), inputs._read

    def send(_: Any, __: Any, records: Any, *___: Any) -> int:
        sent[:] = sorted(records)
        return len(sent)

    def noted(session: SparkSession, table: Any, files: Any) -> Any:
        read.update(name for name, _ in files)
        return read_by_itself(session, table, files)

    monkeypatch.setattr(Uuids, "of", lambda *_: "")
    monkeypatch.setattr(to_kafka, "sending", lambda _: nullcontext())
    monkeypatch.setattr(to_kafka, "send", send)
    monkeypatch.setattr(inputs, "_read", noted)
    rule = {
        "table": "gold",
        "inputs": ["t"],
        "stream": {"columns": {"n": "n", "k": "k"}},
        "sink": {"kafka": {"topic": "rows", "keys": ["n", "k"]}},
    }
    (one,) = instances([Derived.model_validate(rule)], Entities({}, folds=False))
    root = PosixFiles(tmp_path)
    outside = Outside("games", kafka={"bootstrap.servers": "there"}, marks=root.below("checkpoint"))
    url = f"{root.url}/gold"

    def files() -> set[str]:
        return {path.rpartition("/")[2] for path in DeltaTable(url).file_uris()}

    def brought_up(rows: dict[str, list[Any]] | None = None) -> list[tuple[str, str | None]]:
        """What is sent behind these rows, and `read` are the files of which."""
        if rows is not None:
            schema = pa.schema([("n", pa.int64()), ("k", pa.string())])
            write_deltalake(url, pa.table(rows, schema), mode="append")
        read.clear()
        sent.clear()
        bring_up(spark, one, root.below("gold"), outside, whole=False)
        return [(key.decode(), None if value is None else value.decode()) for key, value in sent]

    first = '{"n":1,"k":"a"}'
    assert brought_up({"n": [1], "k": ["a"]}) == [(first, first)]
    before = files()
    row = '{"n":5000,"k":"b"}'
    assert brought_up({"n": [5000], "k": ["b"]}) == [(row, row)]
    assert read == files() - before
    # Of a key whose numbers tell nothing the others' are looked at, and are others.
    row = '{"n":null,"k":"c"}'
    assert brought_up({"n": [None], "k": ["c"]}) == [(row, row)]
    assert read == files()
    # One file in the place of all changes nothing.
    DeltaTable(url).optimize.compact()
    assert brought_up() == []
    DeltaTable(url).delete("n = 5000")
    assert brought_up() == [('{"n":5000,"k":"b"}', None)]
    with pytest.raises(PipelineError, match="several rows have the same n, k"):
        brought_up({"n": [None], "k": ["c"]})
    DeltaTable(url).delete("n IS NULL")
    assert brought_up() == [('{"n":null,"k":"c"}', None)]
    with pytest.raises(PipelineError, match="several rows have the same n, k"):
        brought_up({"n": [1], "k": ["a"]})


@pytest.mark.spark
def test_a_row_that_is_too_large_has_the_rows_before_it_sent_once_and_not_by_each_turn(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large table transactions before that of such a row are there for good."""
    sent, ends = list[bytes](), iter(range(9))

    def send(_: Any, __: Any, records: Any, too_large: Callable[[], None], *___: Any) -> int:
        for key, value in records:
            if value is not None and len(value) > 1_000:
                too_large()
            sent.append(key)
        return len(sent)

    monkeypatch.setattr(Uuids, "of", lambda *_: "first")
    monkeypatch.setattr(Uuids, "_ends", lambda *_: {0: next(ends)})
    monkeypatch.setattr(to_kafka, "sending", lambda _: nullcontext())
    monkeypatch.setattr(to_kafka, "send", send)
    monkeypatch.setattr(to_kafka, "keys_in", lambda *_: SimpleNamespace(isEmpty=lambda: True))
    monkeypatch.setattr(to_kafka, "most_bytes", lambda *_: 1_128)
    root = PosixFiles(tmp_path)
    outside = Outside("games", kafka={"bootstrap.servers": "there"}, marks=root.below("checkpoint"))
    (one,) = instances([Derived.model_validate(RULE)], Entities({}, folds=False))
    url = f"{root.url}/gold"
    write_deltalake(url, pa.table({"city": ["Bonn", "Ulm"], "n": ["1", "x" * 1_000]}))
    for _ in range(2):
        with pytest.raises(PipelineError, match=r"larger than the topic takes \(1,128 bytes"):
            bring_up(spark, one, root.below("gold"), outside, whole=False)
    assert sent == [b'{"city":"Bonn"}']
    DeltaTable(url).delete("city = 'Ulm'")
    bring_up(spark, one, root.below("gold"), outside, whole=False)
    assert sent == [b'{"city":"Bonn"}'] * 2


def test_what_is_looked_for_is_what_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that was nearly too large was not found, and those before it went there again with each turn."""
    monkeypatch.setattr(to_kafka, "most_bytes", lambda *_: 2_128)
    topic = Topic("games", {"bootstrap.servers": "127.0.0.1:1"}, "sender")
    producer = Producer({**topic.kafka, **to_kafka._sizes(topic), "log_level": 0})
    most = to_kafka.most_of_one(topic) - 1
    producer.produce(topic.name, key=b"k", value=b"x" * most)
    with pytest.raises(KafkaException, match="MSG_SIZE_TOO_LARGE"):
        producer.produce(topic.name, key=b"k", value=b"x" * (most + 1))
    producer.purge()


@pytest.mark.spark
def test_files_for_others_that_were_never_finished_go_when_they_are_old(
    tmp_path: Path, spark: SparkSession
) -> None:
    root, out = PosixFiles(tmp_path), tmp_path / "out"
    out.mkdir()
    old, young, others = (out / name for name in (f".{'a' * 32}.tmp", f".{'b' * 32}.tmp", ".others"))
    for left in (old, young, others):
        left.touch()
    os.utime(old, (0, 0))
    write_deltalake(f"{root.url}/gold", pa.table({"n": [1]}))
    assert to_files.put(spark, sinks._now(root.below("gold")), PosixFiles(out)) == 1
    assert (old.exists(), young.exists(), others.exists()) == (False, True, True)


@pytest.mark.spark
def test_what_nobody_else_may_delete_there_keeps_no_file_from_others(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a folder in which each deletes what is his alone."""
    root, out = PosixFiles(tmp_path), tmp_path / "out"
    out.mkdir()
    left = out / f".{'a' * 32}.tmp"
    left.touch()
    os.utime(left, (0, 0))
    unlink = Path.unlink

    def refused(self: Path, missing_ok: bool = False) -> None:
        if self == left:
            raise PermissionError(f"{self} is another's")
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", refused)
    write_deltalake(f"{root.url}/gold", pa.table({"n": [1]}))
    assert to_files.put(spark, sinks._now(root.below("gold")), PosixFiles(out)) == 1


@pytest.mark.spark
def test_files_of_versions_before_are_not_asked_for(tmp_path: Path, spark: SparkSession) -> None:
    root, asked = PosixFiles(tmp_path), list[str]()

    class Folder(PosixFiles):
        def names(self, folder: str = "", after: str = "") -> Any:
            found = list(super().names(folder, after))
            asked.extend(found)
            return iter(found)

    for _ in range(3):
        write_deltalake(f"{root.url}/gold", pa.table({"n": [1]}), mode="overwrite")
        table = sinks._now(root.below("gold"))
        assert to_files.put(spark, table, Folder(tmp_path / "out")) == 1
        assert to_files.put(spark, table, Folder(tmp_path / "out")) == 0
    assert len(set(asked)) == len(asked) == 3


@pytest.mark.spark
def test_a_registry_that_does_not_answer_is_waited_for_once_a_turn(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Uuids, "of", lambda *_: "")
    monkeypatch.setattr(to_kafka, "sending", lambda _: nullcontext())
    asked = list[str]()

    def noted(registry: Any, wanted: Any, *given: Any) -> Any:
        asked.append(wanted.subject)
        return registered_for(registry, wanted, *given)

    monkeypatch.setattr(sinks, "registered_for", noted)
    root = PosixFiles(tmp_path)
    nobody = RegistryAccess(url="http://127.0.0.1:1", retry_seconds=0)
    outside = Outside(
        "games",
        kafka={"bootstrap.servers": "there"},
        registry=nobody,
        marks=root.below("checkpoint"),
    )
    for name in ("a", "b"):
        rule = {**RULE, "table": name, "sink": {"kafka": {"topic": name, "format": "avro"}}}
        (one,) = instances([Derived.model_validate(rule)], Entities({}, folds=False))
        write_deltalake(f"{root.url}/{name}", pa.table({"city": ["Ulm"], "n": [1]}))
        with pytest.raises(RegistryUnavailable):
            bring_up(spark, one, root.below(name), outside, whole=False)
    assert asked == ["a-value"]


@pytest.mark.parametrize(
    ("uuid", "of_before"),
    [("the same", True), ("another", False), ("", False)],
    ids=["same", "other", "unknown"],
)
def test_brokers_that_are_called_otherwise_have_the_topic_that_they_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uuid: str, of_before: bool
) -> None:
    """Sent all rows as for the first time, the topic would keep the keys that went since it was sent some."""
    told, before = "the same", list[bool]()

    def records(_: Any, __: Any, had: object, **___: Any) -> list[Any]:
        before.append(had is not None)
        return []

    monkeypatch.setattr(Uuids, "of", lambda *_: told)
    monkeypatch.setattr(to_kafka, "sending", lambda _: nullcontext())
    monkeypatch.setattr(to_kafka, "send", lambda *_: 1)
    monkeypatch.setattr(sinks._Sending, "_records", records)
    monkeypatch.setattr(sinks, "_pairs", lambda found: found)
    root = PosixFiles(tmp_path)
    (one,) = instances([Derived.model_validate(RULE)], Entities({}, folds=False))
    for servers, told in (("a:9092", "the same"), ("a:9092,b:9092", uuid)):  # noqa: B007 - it is what brokers tell
        kafka = {"bootstrap.servers": servers}
        outside = Outside("games", kafka=kafka, marks=root.below("checkpoint"))
        write_deltalake(f"{root.url}/gold", pa.table({"city": ["Ulm"], "n": [1]}), mode="append")
        bring_up(None, one, root.below("gold"), outside, whole=False)  # type: ignore[arg-type] # none is needed
    assert before == [False, of_before]


def test_a_topic_that_nobody_may_ask_about_is_no_matter_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        """Of one topic nobody is told, of the other its UUID."""

        def describe_topics(self, topics: Any, **_: Any) -> dict[str, Future[Any]]:
            (name,), asked = topics.topic_names, Future[Any]()
            if name == "secret":
                asked.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
            else:
                asked.set_result(name)
            return {name: asked}

    monkeypatch.setattr(to_kafka, "_admin", lambda _: Client())
    monkeypatch.setattr(
        to_kafka, "as_topic", lambda name: SimpleNamespace(uuid=f"of {name}", partitions=(0,))
    )
    uuids, there = Uuids(), {"bootstrap.servers": "there"}
    assert [uuids.of(Topic(name, there, "sender")) for name in ("secret", "open")] == ["", "of open"]
