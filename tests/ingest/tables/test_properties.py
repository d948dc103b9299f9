"""A table's properties and comment, set by one entry of its log: all of them or none, once, and nobody's change lost."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from errno import EIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pydantic import TypeAdapter
from pyspark.sql import SparkSession
from tests.ingest.pipelines import make_table
from tests.ingest.power import Disk

from distributary.errors import CommitImpossible, PipelineError
from distributary.ingest.columns.clustering import ClusterBy
from distributary.ingest.log_paths import LOG, entry_path
from distributary.ingest.settings.groups import Columns
from distributary.ingest.settings.rule_book import TableSpec
from distributary.ingest.settings.table_properties import TableProperties
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables import properties
from distributary.ingest.tables.change import TableChanger, create, evolve
from distributary.ingest.tables.known import MadeWith, TableBook
from distributary.ingest.tables.log import put_entry
from distributary.ingest.tables.properties import Retellings, Setting, differing, features_of, retell
from distributary.ingest.tables.state import TableState, read_state

A = pa.schema([("a", pa.int64()), ("s", pa.struct([("b", pa.string())]))])
DURATIONS = ("delta.deletedFileRetentionDuration", "delta.logRetentionDuration")
TIMED = A.append(pa.field("at", pa.timestamp("us")))


def state(table: Path) -> TableState:
    found = read_state(table)
    assert found is not None
    return found


def stood_still(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next that puts an entry finds that others did so meanwhile, and that the log was cleaned up."""

    def late(place: Files, version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
        monkeypatch.setattr(properties, "put_entry", put_entry)
        for number in range(version, version + 3):
            assert put_entry(place, number, [{"commitInfo": {}}])
        handle = DeltaTable(table)
        handle.create_checkpoint()
        place.delete(entry_path(old) for old in range(handle.version()))
        return put_entry(place, version, actions)

    monkeypatch.setattr(properties, "put_entry", late)


def spec(comment: str | None = None, **given: str | None) -> TableSpec:
    named = {name.replace("__", "."): value for name, value in given.items()}
    return TableSpec(properties=named, comment=comment)


def test_all_that_differs_is_set_in_one_entry_and_nothing_the_second_time(tmp_path: Path) -> None:
    table = make_table(tmp_path, "t", A, "chess")
    DeltaTable(table).alter.set_table_properties({"old": "1"}, raise_if_not_exists=False)
    before = state(table)
    wanted = spec("Games of chess", delta__checkpointInterval="7", mine="it's \\ 'so'", old=None, never=None)
    assert set(retell(table, wanted)) == {
        Setting("delta.checkpointInterval", "25", "7"),
        Setting("mine", None, "it's \\ 'so'"),
        Setting("old", "1", None),
        Setting("comment", None, "Games of chess"),
    }
    assert retell(table, wanted) == ()
    after = state(table)
    assert after.version == before.version + 1
    assert after.comment == "Games of chess"
    kept = {name: value for name, value in before.properties.items() if name != "old"}
    assert after.properties == {**kept, "delta.checkpointInterval": "7", "mine": "it's \\ 'so'"}
    assert after.layout == before.layout
    assert after.native
    assert DeltaTable(table).metadata().id == DeltaTable(table, version=0).metadata().id
    assert DeltaTable(table).metadata().created_time == DeltaTable(table, version=0).metadata().created_time


def test_an_empty_comment_takes_it_away_and_none_leaves_it(tmp_path: Path) -> None:
    table = make_table(tmp_path, "t", A)
    retell(table, spec("hello"))
    assert retell(table, spec()) == ()
    assert retell(table, spec("")) == (Setting("comment", "hello", None),)
    assert retell(table, spec("")) == ()
    assert state(table).comment == ""


@pytest.mark.parametrize("columns", [A, TIMED])
@pytest.mark.parametrize(
    ("name", "feature"),
    [("delta.enableChangeDataFeed", "changeDataFeed"), ("delta.appendOnly", "appendOnly")],
)
def test_a_property_that_takes_a_feature_brings_it_to_old_and_new_tables_alike(
    tmp_path: Path, columns: pa.Schema, name: str, feature: str
) -> None:
    wanted = TableSpec(properties={name: "true"})
    assert features_of(wanted) == {feature}
    create(tmp_path / "new", columns, wanted.properties)
    create(tmp_path / "old", columns, {})
    retell(tmp_path / "old", wanted)
    for table in ("new", "old"):
        protocol = DeltaTable(tmp_path / table).protocol()
        listed = protocol.writer_features
        assert (feature in listed) if listed else protocol.min_writer_version >= 2, (table, protocol)
        assert state(tmp_path / table).native
        assert retell(tmp_path / table, wanted) == ()
    retell(tmp_path / "old", TableSpec(properties={name: "false"}))
    assert state(tmp_path / "old").properties[name] == "false"


def test_a_change_of_somebody_in_between_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(tmp_path, "t", A)
    rivals = iter(("theirs", "also_theirs"))

    def late(place: Any, version: int, actions: Any) -> bool:
        rival = next(rivals, None)
        if rival is not None:
            DeltaTable(table).alter.set_table_properties({rival: "1"}, raise_if_not_exists=False)
        return put_entry(place, version, actions)

    monkeypatch.setattr(properties, "put_entry", late)
    retell(table, spec(mine="1"))
    found = state(table)
    assert {"mine", "theirs", "also_theirs"} <= found.properties.keys()
    assert found.version == 3


def test_where_others_are_first_again_and_again_it_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(tmp_path, "t", A)
    monkeypatch.setattr(properties, "put_entry", lambda *_: False)
    with pytest.raises(PipelineError, match="20 times another writer was first"):
        retell(table, spec(mine="1"))
    assert state(table).version == 0


def test_a_table_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(CommitImpossible, match="is gone; run again to have it made anew"):
        retell(tmp_path / "t", spec(mine="1"))


def test_a_table_in_a_store_is_told_the_same_way(in_s3: Any) -> None:
    create(in_s3.below("t"), A, {})
    retell(in_s3.below("t"), spec("hello", mine="1"))
    found = read_state(in_s3.below("t"))
    assert found is not None
    assert (found.comment, found.properties["mine"], found.version) == ("hello", "1", 1)


def test_tables_that_are_right_are_not_looked_at_again_in_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("right", "wrong", "other"):
        make_table(tmp_path, folder, A, folder)
    specs = {"wrong": spec(mine="1"), "right": TableSpec(), "other": TableSpec()}
    book = TableBook(str(tmp_path / "lake"), Columns(), None, 2, made_with=MadeWith({}, specs.__getitem__))
    asked: list[list[str]] = []
    plain = book.states

    def states(folders: Iterable[str]) -> dict[str, TableState]:
        asked.append(list(folders))
        return plain(asked[-1])

    monkeypatch.setattr(book, "states", states)
    entities = {folder: folder for folder in ("right", "wrong", "gone")} | {"gone": "right"}
    told = Retellings(book)
    for _ in range(2):
        (one,) = told.wanted(entities)
        assert (one.folder, one.settings) == ("wrong", (Setting("mine", None, "1"),))
    retell(tmp_path / "lake" / "wrong", specs["wrong"])
    assert told.wanted(entities) == told.wanted(entities) == []
    assert asked == [["right", "wrong", "gone"], *[["wrong", "gone"]] * 2, ["gone"]]


@pytest.mark.parametrize("refused", range(1, 6))
def test_what_a_disk_refused_of_what_a_table_says_is_written_again(tmp_path: Path, refused: int) -> None:
    make_table(tmp_path, "t", A, "golf")
    wanted = MadeWith({}, lambda _: spec(mine="1"))
    book = TableBook(str(tmp_path / "lake"), Columns(), None, 1, made_with=wanted)
    changer, told = TableChanger(book, None, Columns()), Retellings(book)
    changer.apply([], {}, {})
    disk = Disk((tmp_path / "lake",), refuses_at=refused)
    with disk.watched():
        with pytest.raises(OSError, match=os.strerror(EIO)):
            changer.apply([], {}, {}, told.wanted({"t": "golf"}))
        # The next attempt finds the table as it is to be, and asks for nothing.
        assert told.wanted({"t": "golf"}) == []
        changer.apply([], {}, {})
    assert book.states(["t"])["t"].properties["mine"] == "1"
    assert [path.name for path in disk.unsafe() if path.parent.name == LOG] == []


@pytest.mark.spark
def test_a_table_that_only_spark_may_change_is_told_by_spark(tmp_path: Path, spark: SparkSession) -> None:
    table = make_table(tmp_path, "t", A)
    retell(table, spec("hello", old="1"))
    spark.sql(f"ALTER TABLE delta.`{table}` ADD CONSTRAINT positive CHECK (a > 0)")
    assert not state(table).native
    with pytest.raises(PipelineError, match="it needs Spark for it: CHECK constraint positive"):
        retell(table, spec(mine="1"))
    # The second half is what Spark would put a variable's value in the place of.
    text = "it's \\ 'so' ${env:HOME} ${spark.master} $"
    wanted = spec(text, mine=text, old=None)
    assert retell(table, wanted, spark)
    assert retell(table, wanted, spark) == ()
    found = state(table)
    assert (found.comment, found.properties["mine"]) == (text, text)
    assert "old" not in found.properties
    assert found.conditions.checks == ("a > 0",)
    retell(table, spec(""), spark)
    assert state(table).comment == ""


@pytest.mark.spark
def test_spark_reads_what_was_set_and_keeps_to_it(tmp_path: Path, spark: SparkSession) -> None:
    table = make_table(tmp_path, "t", TIMED)
    retell(table, spec("hello", delta__appendOnly="true", delta__enableChangeDataFeed="true"))
    (told,) = spark.sql(f"DESCRIBE DETAIL delta.`{table}`").collect()
    assert told["description"] == "hello"
    assert told["properties"]["delta.appendOnly"] == "true"
    with pytest.raises(Exception, match=r"(?i)append"):
        spark.sql(f"DELETE FROM delta.`{table}`")  # noqa: S608


@pytest.mark.spark
def test_spark_reads_a_table_of_every_interval_that_the_settings_take(
    tmp_path: Path, spark: SparkSession
) -> None:
    intervals = (
        "interval 1 week 2 days",
        "INTERVAL 3 Hours 4 minutes 5 seconds",
        "interval 6 milliseconds 7 microseconds",
        f"interval {365_000 * 24} hours",
    )
    for number in range(0, len(intervals), len(DURATIONS)):
        each = dict(zip(DURATIONS, intervals[number : number + len(DURATIONS)], strict=True))
        given = TypeAdapter(TableProperties).validate_python(each)
        create(tmp_path / str(number), A, given)
        spark.sql(f"INSERT INTO delta.`{tmp_path / str(number)}` VALUES (1, null)")  # noqa: S608
        assert spark.read.format("delta").load(str(tmp_path / str(number))).count() == 1


def test_many_tables_of_one_kind_share_a_beginning_but_not_what_they_say(tmp_path: Path) -> None:
    first = create(tmp_path / "one", A, {"mine": "1"}, comment="one")
    assert first is not None
    second = create(
        tmp_path / "two", A, {"mine": None, "delta.checkpointInterval": None}, first, comment="two"
    )
    assert second is not None
    for name, made in (("one", first), ("two", second)):
        found = state(tmp_path / name)
        assert (found.comment, dict(found.properties)) == (made.comment, dict(made.properties))
        assert found.comment == name
    assert second.properties == {"delta.logRetentionDuration": "interval 2 days"}
    assert differing(second, spec("two", mine=None)) == ()


def test_what_is_set_is_in_the_log_as_it_is_put(tmp_path: Path) -> None:
    table = make_table(tmp_path, "t", A)
    retell(files_at(table), spec(mine="1"))
    (entry,) = DeltaTable(table).history(1)
    assert entry["operation"] == "SET TBLPROPERTIES"


def test_who_stood_still_until_the_log_was_cleaned_up_beyond_its_entry_tells_the_table_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(tmp_path, "t", A, "chess")
    stood_still(table, monkeypatch)
    retell(table, spec("Games of chess"))
    assert state(table).comment == "Games of chess"


def test_who_stood_still_until_the_log_was_cleaned_up_beyond_its_entry_adds_the_columns_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(tmp_path / "t", A, {}, cluster_by=ClusterBy(("a",)))
    stood_still(tmp_path / "t", monkeypatch)
    assert evolve(tmp_path / "t", A.append(pa.field("more", pa.string()))) == ("more",)
    assert "more" in state(tmp_path / "t").layout.names
