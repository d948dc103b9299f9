from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.ingest.pipelines import SUBJECT, checkpoint, registry, schema_book

from distributary.codecs.base import RecordPath
from distributary.codecs.json.codec import JsonCodec, JsonReader
from distributary.codecs.protobuf.codec import ProtobufCodec, ProtobufReader
from distributary.errors import BadSchema, CheckpointMismatch, RegistryFault
from distributary.ingest.columns.growth import GrowthRules
from distributary.ingest.interruptible import Stopped
from distributary.ingest.pins import PinnedRecord
from distributary.ingest.progress import Silent
from distributary.ingest.schemas.known import SchemaBook
from distributary.ingest.schemas.pinned import PinsStore
from distributary.ingest.schemas.registry_wait import RegistryWait
from distributary.producer_sim.formats.protobuf import schema_text
from distributary.registry.base import Schema, SubjectVersion
from distributary.registry.memory import MemoryRegistry


class Counting(ProtobufCodec):
    """Counts by id what it was asked to decode schemas by."""

    def __init__(self) -> None:
        super().__init__()
        self.made: Counter[int] = Counter()

    def reader(self, schema: Schema, path: RecordPath) -> ProtobufReader:
        self.made[schema.id] += 1
        return super().reader(schema, path)


class CountingJson(JsonCodec):
    """The same of inferred schemas."""

    def __init__(self) -> None:
        super().__init__()
        self.made: Counter[int] = Counter()

    def reader(self, schema: Schema, path: RecordPath) -> JsonReader:
        self.made[schema.id] += 1
        return super().reader(schema, path)


ADDING = GrowthRules(reserved=frozenset({"kafka_topic"}))


def opened(root: Path, asking: MemoryRegistry) -> SchemaBook:
    book = schema_book(checkpoint(root), asking)
    book.open([SUBJECT])
    return book


def test_every_version_of_the_subjects_is_pinned_and_outlives_the_process(tmp_path: Path) -> None:
    keys = [pinned.key for pinned in opened(tmp_path, registry(3)).records]
    assert keys == [(1, (0,)), (2, (0,)), (3, (0,))]
    down = registry(3)
    down.down = True
    assert [pinned.key for pinned in opened(tmp_path, down).records] == keys


def test_a_start_makes_no_decoder_twice_for_a_schema_that_is_pinned(tmp_path: Path) -> None:
    """A thousand entities have tens of thousands of versions after years: each time takes a minute then."""
    asking, codec = registry(3), Counting()
    for _ in range(2):
        wait = RegistryWait(Silent(), threading.Event())
        book = SchemaBook(codec, asking, PinsStore(checkpoint(tmp_path)), wait, 300.0)
        codec.made.clear()
        book.open([SUBJECT])
        assert [pinned.key for pinned in book.records] == [(1, (0,)), (2, (0,)), (3, (0,))]
    assert codec.made == Counter({1: 1, 2: 1, 3: 1})


def test_a_start_makes_nothing_for_versions_that_no_record_comes_with_any_more(tmp_path: Path) -> None:
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in "abc"]
    for number, entity in enumerate(["go", "go", "chess", "go", None, None], 1):
        text = json.dumps({"type": "struct", "fields": fields[: 1 + number // 2]})
        store = PinsStore(checkpoint(tmp_path))
        store.write((number, ()), Schema(number, "STRUCT", text, entity=entity))
    codec, wait = CountingJson(), RegistryWait(Silent(), threading.Event())
    book = SchemaBook(codec, registry(0), PinsStore(checkpoint(tmp_path)), wait, 300.0)
    book.open([])
    assert [pinned.schema.id for pinned in book.records] == [1, 2, 3, 4, 5, 6]
    assert codec.made == Counter({3: 1, 4: 1, 6: 1})
    # What they brought is known all the same, where somebody asks.
    new = PinnedRecord(
        (7, ()), Schema(7, "STRUCT", json.dumps({"type": "struct", "fields": fields}), entity="go")
    )
    assert book.brings(new, ADDING) == ()
    assert book.layout((2, ())).names == ["a", "b"]
    assert codec.made == Counter({3: 1, 4: 1, 6: 1, 7: 1, 1: 1, 2: 1, 5: 1})


def test_a_new_pipeline_waits_for_its_registry_until_it_is_told_to_stop(tmp_path: Path) -> None:
    asking, stop = registry(1), threading.Event()
    asking.down = True
    stop.set()
    with pytest.raises(Stopped):
        schema_book(checkpoint(tmp_path), asking, stop).open([SUBJECT])


def test_a_start_does_not_wait_for_a_version_that_the_registry_fails_at(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(MemoryRegistry):
        def versions(self, subject: str, deleted: bool = False) -> Sequence[SubjectVersion]:
            raise RegistryFault(f"version 2 of subject {subject!r}: HTTP 500")

    asking, stop = Failing(), threading.Event()
    asking.register(SUBJECT, schema_text(1), "PROTOBUF")
    stop.set()  # who waits nevertheless is stopped
    book = schema_book(checkpoint(tmp_path), asking, stop)
    book.open([SUBJECT])
    assert book.records == ()
    assert "version 2 of subject" in caplog.text
    assert [record.key for record in book.learn([(1, (0,))]).records] == [(1, (0,))]


def test_a_start_that_need_not_wait_goes_on_without_its_registry(tmp_path: Path) -> None:
    asking, stop = registry(1), threading.Event()
    asking.down = True
    stop.set()  # who waits nevertheless is stopped
    book = schema_book(checkpoint(tmp_path), asking, stop)
    book.open([SUBJECT], waiting=False)
    assert book.records == ()


def test_a_subject_that_nobody_has_registered_yet_is_no_trouble(tmp_path: Path) -> None:
    assert opened(tmp_path, MemoryRegistry()).records == ()


def test_another_schema_under_a_pinned_id_stops_the_run(tmp_path: Path) -> None:
    opened(tmp_path, registry(2))
    emptied = MemoryRegistry()
    emptied.register(SUBJECT, schema_text(3), "PROTOBUF")
    with pytest.raises(CheckpointMismatch, match="another schema for 1"):
        opened(tmp_path, emptied)


def test_a_kept_schema_that_no_longer_can_be_used_is_refused_and_the_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asking = registry(1)
    PinsStore(checkpoint(tmp_path)).write((9, (0,)), Schema(9, "PROTOBUF", "message {"))
    book = schema_book(checkpoint(tmp_path), asking, refusal_seconds=0.0)
    book.open([SUBJECT])
    assert [record.key for record in book.records] == [(1, (0,))]
    assert {key: verdict.reason for key, verdict in book.refused().items()} == {(9, (0,)): "unusable_schema"}
    assert asking.asked == [1]
    (told,) = caplog.messages
    assert told.startswith("schema 9 is kept in the checkpoint") and "Register a schema" in told


def test_a_start_does_not_wait_for_its_registry_where_no_kept_schema_can_be_used(tmp_path: Path) -> None:
    asking, stop = registry(1), threading.Event()
    asking.down = True
    stop.set()  # who waits nevertheless is stopped
    PinsStore(checkpoint(tmp_path)).write((9, (0,)), Schema(9, "PROTOBUF", "message {"))
    book = schema_book(checkpoint(tmp_path), asking, stop)
    book.open([SUBJECT])
    assert set(book.refused()) == {(9, (0,))}


def test_another_schema_under_the_id_of_one_that_cannot_be_used_stops_the_run(tmp_path: Path) -> None:
    PinsStore(checkpoint(tmp_path)).write((1, (0,)), Schema(1, "PROTOBUF", "message {"))
    with pytest.raises(CheckpointMismatch, match="another schema for 1"):
        opened(tmp_path, registry(1))


def test_an_inferred_schema_that_cannot_be_used_is_never_passed_over(tmp_path: Path) -> None:
    PinsStore(checkpoint(tmp_path)).write((-1, ()), Schema(-1, "STRUCT", "{"))
    with pytest.raises(BadSchema):
        opened(tmp_path, registry(1))


def test_questions_are_answered_with_record_types_or_the_reason_why_not(tmp_path: Path) -> None:
    asking = registry(1)
    avro = asking.register("other", '"string"', "AVRO")
    book = schema_book(checkpoint(tmp_path), asking)
    learned = book.learn([(1, (0,)), (77, (0,)), (1, (40,)), (avro, (0,))])
    assert [record.key for record in learned.records] == [(1, (0,))]
    why = {key: verdict.reason for key, verdict in learned.refused.items()}
    assert why == {
        (77, (0,)): "unknown_schema",
        (1, (40,)): "unusable_schema",
        (avro, (0,)): "unusable_schema",
    }
    assert asking.asked == [1, 77, avro]
    assert book.records == ()


def test_what_nobody_knows_is_remembered_for_a_while_only(tmp_path: Path) -> None:
    lasting = schema_book(checkpoint(tmp_path), registry(1))
    lasting.learn([(77, (0,))])
    assert set(lasting.refused()) == {(77, (0,))}
    forgetful = schema_book(checkpoint(tmp_path), registry(1), refusal_seconds=0.0)
    forgetful.learn([(77, (0,))])
    assert forgetful.refused() == {}


def test_only_what_no_pinned_type_has_is_brought(tmp_path: Path) -> None:
    asking = registry(2)
    book = schema_book(checkpoint(tmp_path), asking)
    first, second = book.learn([(1, (0,)), (2, (0,))]).records
    book.pin([first])
    assert book.brings(second, ADDING) == ("season", "guild", "achievements")
    assert book.brings(first, ADDING) == ()
    book.pin([second])
    assert book.brings(second, ADDING) == ()
    assert book.layout((2, (0,))).names[-3:] == ["season", "guild", "achievements"]


def test_record_types_are_in_an_order_of_their_own(tmp_path: Path) -> None:
    asking = registry(3)
    guid = asking.by_ref(1).guid
    assert guid is not None
    book = schema_book(checkpoint(tmp_path), asking)
    book.pin(book.learn([(guid, (0,)), (3, (0,)), (2, (1,)), (2, (0,))]).records)
    assert [pinned.key for pinned in book.records] == [(2, (0,)), (2, (1,)), (3, (0,)), (guid, (0,))]
