"""A stream looked through: each record once and numbered, whoever reads beside, whatever becomes of shards and of what they keep."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tests.ingest.kinesis.looked import HOUR, World, kinds

from distributary.errors import BrokerUnavailable, CheckpointMismatch, CredentialsRefused, SetupError
from distributary.ingest.kinesis import fetching
from distributary.ingest.kinesis.kept import Kept
from distributary.ingest.storage.contract import Files


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def values(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def test_records_are_numbered_as_they_are_read_and_a_later_run_goes_on(world: World) -> None:
    world.stream.put_into(0, *values(3))
    looking = world.looking()
    looking.look()
    world.stream.put_into(0, *values(2, 3))
    looking.look()
    looking.look()
    assert world.rows(looking) == list(enumerate(values(5)))
    again = world.looking()
    assert again.begun == looking.begun
    world.stream.put_into(0, *values(2, 5))
    again.look()
    assert world.rows(again) == list(enumerate(values(7)))
    row = world.records(again).to_pylist()[0]
    assert (row["topic"], row["partition"], row["timestampType"], row["key"]) == ("games", 0, 1, b"k")
    assert row["timestamp"].timestamp() == world.clock.at
    assert row["headers"][0]["key"] == "sequence_number"
    assert len(row["headers"][0]["value"]) == 56


def test_pieces_are_kept_in_a_folder_as_in_every_store(world: World, files: Files) -> None:
    world.kept = files
    one, other = world.looking(), world.looking()
    for number in range(3):
        world.stream.put_into(0, *values(2, 2 * number))
        one.look()
    other.look()
    one.forget({"games": {0: 4}}, "games")
    assert world.rows(one) == [(4, b"4"), (5, b"5")]
    assert world.rows(world.looking()) == world.rows(one)
    assert other.lines[0].pieces[0].end == 2, "another one was first, whose piece counts"


def test_who_reads_beside_another_takes_what_that_one_has(world: World) -> None:
    one, other = world.looking(), world.looking()
    world.stream.put_into(0, *values(3))
    one.look()
    world.stream.put_into(0, *values(2, 3))
    other.look()
    assert world.rows(other) == list(enumerate(values(3)))
    other.look()
    one.look()
    assert world.rows(one) == world.rows(other) == list(enumerate(values(5)))


def test_a_look_reads_a_bounded_number_and_a_whole_one_all(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "_MOST_RECORDS", 4)
    world.stream.page = 2
    world.stream.put_into(0, *values(11))
    looking = world.looking()
    looking.look()
    assert looking.lines[0].end == 4
    looking.look(whole=True)
    assert world.rows(looking) == list(enumerate(values(11)))


def test_children_are_read_once_their_parents_have_come_to_their_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "_MOST_RECORDS", 2)
    world.stream.page = 2
    world.stream.put_into(0, *values(3))
    world.stream.split(0)
    world.stream.put_into(1, *values(1, 3))
    world.stream.put_into(2, *values(1, 4))
    world.stream.merge(1, 2)
    world.stream.put_into(3, *values(1, 5))
    looking = world.looking()
    looking.look()
    assert [looking.lines[number].end for number in range(4)] == [2, 0, 0, 0]
    looking.look()
    assert [looking.lines[number].end for number in range(4)] == [3, 1, 1, 1]
    assert kinds(looking) == ["records", "records", "ended"]
    assert [kinds(looking, number) for number in (1, 2, 3)] == [["records", "ended"]] * 2 + [["records"]]
    assert [line.shard.number for line in looking.parents(3)] == [1, 2]


def test_a_closed_shard_that_is_gone_was_read_to_its_end(world: World) -> None:
    world.stream.put_into(0, *values(3))
    looking = world.looking()
    looking.look()
    world.stream.split(0)
    looking.look()
    world.clock.at += 30 * HOUR
    world.stream.put_into(1, *values(1, 3))
    again = world.looking()
    again.look()
    assert kinds(again) == ["records", "ended"]
    assert kinds(again, 1) == ["lost", "records"], "nobody looked for longer than records are kept"
    assert world.rows(again, 1) == [(1, b"3")]


def test_a_closed_shard_that_was_gone_before_its_end_is_told_as_lost(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.stream.put_into(0, *values(3))
    looking = world.looking()
    looking.look()
    world.stream.put_into(0, *values(3))
    world.stream.split(0)
    world.stream.split(1)
    world.clock.at += 30 * HOUR
    with caplog.at_level(logging.WARNING):
        again = world.looking()
    assert kinds(again) == ["records", "lost", "ended"]
    assert kinds(again, 1) == ["lost", "ended"], "it came and went while nobody looked"
    assert "how many records nobody knows, and offset 3 stands for them" in caplog.text
    world.stream.put_into(3, b"new")
    again.look()
    assert world.rows(again, 3)[-1][1] == b"new"


def test_a_closed_shard_that_goes_amid_its_reading_is_told_as_lost_and_ends_no_run(world: World) -> None:
    world.stream.put_into(0, *values(2))
    looking = world.looking()
    looking.look()
    world.stream.put_into(0, *values(2, 2))
    world.stream.split(0)
    world.clock.at += 25 * HOUR
    world.stream.put_into(1, *values(1, 4))
    looking.look()
    looking.look()
    assert kinds(looking) == ["records", "lost", "ended"]
    assert [value for _, value in world.rows(looking, 1)] == [b"4"]


@pytest.mark.parametrize("is_told", [False, True])
def test_what_was_lost_of_a_closed_shard_is_told_though_another_one_had_read_some_of_it(
    world: World, *, is_told: bool
) -> None:
    stood_still, other = world.looking(), world.looking()
    world.stream.put_into(0, *values(2))
    other.look()
    world.stream.put_into(0, *values(3))
    world.stream.split(0)
    world.clock.at += 25 * HOUR
    if is_told:
        world.looking()
    for one in (stood_still, other):
        one.look()
        assert kinds(one) == kinds(world.looking()) == ["records", "lost", "ended"]
        assert one.lines[0].end == 3


def test_records_that_retention_took_before_they_were_read_have_a_place(world: World) -> None:
    world.stream.put_into(0, *values(3))
    looking = world.looking()
    looking.look()
    world.stream.put_into(0, *values(4, 3))
    world.clock.at += 25 * HOUR
    world.stream.put_into(0, *values(2, 7))
    again = world.looking()
    again.look()
    assert kinds(again) == ["records", "lost", "records"]
    assert world.rows(again) == [*enumerate(values(3)), (4, b"7"), (5, b"8")]
    again.look()
    assert again.lines[0].end == 6
    third = world.looking()
    third.look()
    assert kinds(third) == ["records", "lost", "records"]


def test_nothing_is_lost_where_nothing_came_though_the_last_record_is_gone(world: World) -> None:
    world.stream.put_into(0, *values(3))
    looking = world.looking()
    for _ in range(30):
        looking.look()
        world.clock.at += HOUR
    assert kinds(looking)[:2] == ["records", "idle"]
    world.stream.put_into(0, b"late")
    again = world.looking()
    again.look()
    assert "lost" not in kinds(again)
    assert world.rows(again)[-1] == (3, b"late")


def test_a_reading_begins_at_a_moment_once_for_all(world: World) -> None:
    world.stream.put_into(0, *values(3))
    world.clock.at += HOUR
    world.stream.put_into(0, b"of that second, and before")
    world.clock.at += 0.5
    begins = round(world.clock.at * 1000)
    looking = world.looking(begins)
    looking.look()
    assert world.rows(looking) == []
    world.stream.put_into(0, b"new")
    world.clock.at += HOUR
    again = world.looking(round(world.clock.at * 1000))
    again.look()
    assert world.rows(again) == [(0, b"new")]


def test_throttling_is_waited_out_and_what_there_is_counts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "_WAIT_SECONDS", 0.0)
    world.stream.put_into(0, *values(3))
    looking = world.looking()
    world.stream.throttled = 3
    looking.look()
    assert looking.lines[0].end == 3
    world.stream.put_into(0, *values(3))
    world.stream.throttled = 100
    looking.look()
    assert looking.lines[0].end == 3
    looking.look(whole=True)
    assert looking.lines[0].end == 6


def test_an_iterator_that_expired_is_asked_for_again(world: World) -> None:
    world.stream.put_into(0, *values(3))
    looking = world.looking()
    looking.look()
    world.stream.put_into(0, *values(3, 3))
    world.stream.expired = 2
    looking.look()
    assert world.rows(looking) == list(enumerate(values(6)))


def test_a_stream_that_was_made_anew_is_not_gone_on_with(world: World) -> None:
    world.stream.put_into(0, *values(3))
    looking = world.looking()
    looking.look()
    world.stream.remake()
    world.stream.put_into(0, b"other")
    world.clock.at += HOUR
    with pytest.raises(CheckpointMismatch, match="was deleted and made anew"):
        looking.look()
    assert looking.lines[0].end == 3


def test_pieces_are_forgotten_but_for_the_newest_of_each_shard(world: World) -> None:
    looking = world.looking()
    for number in range(4):
        world.stream.put_into(0, *values(2, 2 * number))
        looking.look()
    looking.forget({"games": {0: 4}}, "games")
    assert [piece.first for piece in looking.lines[0].pieces] == [4, 6]
    looking.forget({"games": {0: 8}}, "games")
    assert [info.name for info in world.kept.list("0000000000")] == ["00000000000000000003.arrow"]
    assert world.looking().lines[0].end == 8


def test_a_stream_in_which_nothing_comes_for_weeks_is_said_so_once(world: World) -> None:
    """No batch comes behind which anything was forgotten, and who goes on reads all that is kept."""
    looking = world.looking()
    world.stream.put_into(0, *values(2))
    looking.look()
    for _ in range(40):
        world.clock.at += 12 * HOUR
        looking.look()
    assert kinds(looking) == kinds(world.looking()) == ["records", "idle"]
    assert len(list(world.kept.list("0000000000"))) == 2
    # It is known that nothing came up to then.
    world.clock.at += 12 * HOUR
    world.stream.put_into(0, *values(2, 2))
    for one in (world.looking(), looking):
        one.look()
        assert world.rows(one) == list(enumerate(values(4)))
        assert kinds(one) == ["records", "idle", "records"]


def test_what_somebody_left_who_stood_still_counts_for_nothing(world: World) -> None:
    looking = world.looking()
    world.stream.put_into(0, *values(2))
    looking.look()
    stale = world.kept.read("0000000000/00000000000000000000.arrow")
    for number in range(3):
        world.stream.put_into(0, *values(2, 2 * number + 2))
        looking.look()
    looking.forget({"games": {0: 8}}, "games")
    world.kept.put("0000000000/00000000000000000001.arrow", stale)
    assert [piece.index for piece in world.looking().lines[0].pieces] == [3]
    assert len(list(world.kept.list("0000000000"))) == 1


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("AccessDeniedException", CredentialsRefused),
        ("KMSAccessDeniedException", CredentialsRefused),
        ("InternalFailure", BrokerUnavailable),
        ("ResourceNotFoundException", SetupError),
    ],
)
def test_what_kinesis_refuses_is_told(world: World, code: str, error: type[Exception]) -> None:
    looking = world.looking()
    world.stream.refused = code
    with pytest.raises(error, match="stream games"):
        looking.look()


def test_a_damaged_piece_is_told(world: World) -> None:
    world.stream.put_into(0, *values(2))
    world.looking().look()
    world.kept.put("0000000000/00000000000000000000.arrow", b"{}")
    with pytest.raises(CheckpointMismatch, match="was cut off or edited"):
        Kept(world.kept).pieces()


def test_a_shard_with_few_records_is_read_on_through_answers_that_have_none(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.stream.holes = 120
    world.stream.put_into(0, b"0", b"1")
    looking = world.looking()
    for _ in range(4):
        looking.look()
    assert [value for _, value in world.rows(looking)] == [b"0", b"1"]
    world.stream.page = 1
    world.stream.put_into(0, b"2", b"3")
    other = world.looking()
    for _ in range(8):
        other.look()
    assert [value for _, value in world.rows(other)] == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("holes", [0, 3])
def test_a_reading_that_is_days_behind_comes_on_however_little_an_answer_has(
    tmp_path: Path, holes: int
) -> None:
    world = World(tmp_path, page=1)
    world.stream.retention_hours = 168
    world.stream.put_into(0, b"0")
    looking = world.looking()
    looking.look()
    for value in (b"1", b"2", b"3"):
        world.clock.at += HOUR
        world.stream.put_into(0, value)
    world.clock.at += 40 * HOUR
    world.stream.holes = holes
    for _ in range(6):
        looking.look()
    assert [value for _, value in world.rows(looking)] == [b"0", b"1", b"2", b"3"]
    assert kinds(looking).count("lost") == 0


def test_a_reading_whose_last_record_is_gone_meanwhile_says_so_though_it_had_begun_to_look(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, page=1)
    world.stream.put_into(0, b"0")
    looking = world.looking()
    looking.look()
    world.clock.at += HOUR
    world.stream.put_into(0, b"1")
    world.clock.at += 30 * HOUR
    world.stream.put_into(0, b"2")
    world.stream.holes = 3
    for _ in range(4):
        looking.look()
    assert "lost" in kinds(looking)
    assert [value for _, value in world.rows(looking)] == [b"0", b"2"]
