"""Rows that are erased from a pipeline's tables, on the real broker: they are nowhere, all others are where they were, and runs go on."""

from __future__ import annotations

import json
import signal
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from tests.ingest.e2e.keyed import rows_of
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.planted import said
from tests.ingest.e2e.test_upserts_in_partitions import nine_days_later

from distributary.errors import ConfigError
from distributary.ingest.erasure import rewriting
from distributary.ingest.erasure.erase import Wanted, erase
from distributary.ingest.erasure.record import RECORDS
from distributary.ingest.merge.rule import memory_folder
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.log import put_entry
from distributary.ingest.upkeep.maintain import Wish, maintain
from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack]

ANN, BOB = "ann@example.org", "bob@example.org"

RULES = [
    {"match": "chess", "mode": "upsert", "keys": ["who"], "sequence_by": ["at"], "deletes": "op = 'd'"},
    {"match": "*", "partition_by": ["who"]},
]


def body(game: str, who: Any, at: int, op: str = "u") -> bytes:
    return json.dumps({"game": game, "who": who, "at": at, "op": op, "said": f"{who} at {at}"}).encode()


def sent(kit: PipelineKit, *records: bytes, key: bytes = b"") -> None:
    if key:
        kit.send(list(records), key=key)
    else:
        kit.send(list(records))
    kit.run()


def pipeline(kit: PipelineKit) -> PipelineKit:
    kit.configured(decode={"format": "json"}, route={"field": "game", "table": "{entity}"}, tables=RULES)
    sent(kit, body("chess", ANN, 1), body("chess", BOB, 1), body("go", ANN, 1), body("go", BOB, 1))
    kit.send([body("chess", ANN, 2), body("go", ANN, 2), body("chess", "cy", 3, "d")])
    # Of no number, which the column of times has, and no JSON at all.
    kit.send([json.dumps({"game": "chess", "who": ANN, "at": None}).encode(), b"{", body("chess", None, 4)])
    sent(kit, b"{", key=b"ann")
    return kit


def naming(kit: PipelineKit, who: str) -> list[str]:
    """The files under the root, but for logs, that have a name: in bytes, or in what Parquet has packed; and folders that are called so."""
    found = []
    for path in kit.root.rglob("*"):
        if quote(who) in path.name or who in path.name:
            found.append(str(path.relative_to(kit.root)))
        if not path.is_file() or "_delta_log" in path.parts:
            continue
        said_there = path.read_bytes()
        if path.suffix == ".parquet":
            said_there += repr(pq.read_table(path).to_pydict()).encode()
        found += [str(path.relative_to(kit.root))] if who.encode() in said_there else []
    return found


def test_rows_of_a_person_are_in_no_table_and_all_others_are_and_what_is_not_meant_is_told(
    kit: PipelineKit,
) -> None:
    pipeline(kit)
    assert_told_what_is_not_meant(kit)
    where = f"who = '{ANN}'"
    told = erase(kit.settings, Wanted(where, keys=("ann",), dry_run=True))
    counted = {one.table: one.rows for one in told.tables}
    assert counted == {"chess": 2, "chess__deleted": 0, "go": 2, "quarantine": 2}
    assert len(rows_of(kit, "go")) == 3
    done = erase(kit.settings, Wanted(where, keys=("ann",)))
    assert {one.table: one.rows for one in done.tables} == counted
    assert {one.table: one.hidden for one in done.tables if one.hidden} == {"chess": 1}
    assert [one.failed for one in done.tables if one.failed] == []
    assert (
        {row["who"] for row in rows_of(kit, "chess")} == {row["who"] for row in rows_of(kit, "go")} == {BOB}
    )
    left = kit.rows("quarantine").to_pylist()
    assert sorted(row["reason"] for row in left) == ["malformed", "null_key"]
    (quarantine,) = [one for one in done.tables if one.table == "quarantine"]
    assert "1 records have bytes that are no JSON" in quarantine.left[0]
    # It is kept that it was done, and not of whom.
    assert done.record is not None
    kept = kit.lake.root.read(done.record)
    assert json.loads(kept)["rows"] == 6
    assert b"ann" not in kept
    assert done.record.startswith(f"{RECORDS}/")

    # Runs go on.
    sent(kit, body("chess", BOB, 9), body("go", "dee", 9))
    assert {(row["who"], row["at"]) for row in rows_of(kit, "chess")} == {(BOB, 9)}
    assert {row["who"] for row in rows_of(kit, "go")} == {BOB, "dee"}
    again = erase(kit.settings, Wanted(where))
    assert (again.rows, again.record) == (0, None)


# Lighter: test_rows_of_a_person_are_in_no_table_and_all_others_are_and_what_is_not_meant_is_told erases everywhere.
@pytest.mark.heavy
def test_what_remembers_deletes_forgets_them_too(kit: PipelineKit) -> None:
    pipeline(kit)
    done = erase(kit.settings, Wanted("who = 'cy'", tables=("chess__deleted",)))
    assert [(one.table, one.rows) for one in done.tables] == [(memory_folder("chess"), 1)]
    sent(kit, body("chess", "cy", 2))
    assert {row["who"] for row in rows_of(kit, "chess")} == {ANN, BOB, "cy"}


# Lighter: test_rows_of_a_person_are_in_no_table_and_all_others_are_and_what_is_not_meant_is_told erases everywhere.
@pytest.mark.heavy
def test_what_remembers_tombstones_forgets_keys(kit: PipelineKit) -> None:
    kit.configured(decode={"format": "json"}, route={"by": "topic", "field": None, "table": "{entity}"})
    rule = {"match": "*", "mode": "upsert", "keys": "kafka_key", "deletes": {"tombstones": "delete"}}
    kit.configured(tables=[rule])
    for key in (b"ann", b"bob"):
        sent(kit, body("go", key.decode(), 1), key=key)
    kit.send([None], key=b"ann")
    kit.send([None], key=b"bob")
    kit.run()
    memory = memory_folder(kit.lake.table_of(kit.topic))
    lacking = erase(kit.settings, Wanted("who = 'ann'"))
    (told,) = [one for one in lacking.tables if one.table == memory]
    assert "name records' keys, which it has (--key)" in told.left[0]
    done = erase(kit.settings, Wanted("who = 'ann'", keys=("ann",)))
    assert [one.rows for one in done.tables if one.table == memory] == [1]
    assert [bytes(row["kafka_key"]) for row in rows_of(kit, memory)] == [b"bob"]
    assert verify(kit.settings).differences == ()


def test_a_history_goes_on_as_if_erased_records_had_never_come(kit: PipelineKit) -> None:
    def told(who: str, day: int, said: str) -> bytes:
        body = {"game": "go", "who": who, "time": f"2026-03-{day:02}T00:00:00Z", "said": said}
        return json.dumps(body).encode()

    def spans() -> set[tuple[str, str, int, int | None]]:
        return {
            (row["who"], row["said"], row["valid_from"].day, row["valid_to"] and row["valid_to"].day)
            for row in rows_of(kit, "go")
        }

    rule = {"match": "*", "mode": "history", "keys": ["who"], "sequence_by": ["time"]}
    decode = {"format": "json", "schema_hints": "time timestamp"}
    kit.configured(decode=decode, route={"field": "game", "table": "{entity}"}, tables=[rule])
    sent(kit, told(ANN, 1, "a"), told(BOB, 1, "a"))
    sent(kit, told(ANN, 5, "a"), told(ANN, 9, "b"))
    done = erase(kit.settings, Wanted(f"who = '{ANN}' and said = 'a'", tables=("go",)))
    assert [(one.table, one.rows - one.hidden, one.failed) for one in done.tables] == [
        ("go", 1, None),
        (memory_folder("go"), 2, None),
    ]
    # Of a row that is gone no remembered record decides what comes late.
    sent(kit, told(ANN, 2, "y"))
    sent(kit, told(ANN, 7, "z"))
    assert spans() == {(ANN, "y", 2, 7), (ANN, "z", 7, 9), (ANN, "b", 9, None), (BOB, "a", 1, None)}
    assert verify(kit.settings).differences == ()


# It looks into files; in a store rows go the same way.
# Lighter: test_rows_of_a_person_are_in_no_table_and_all_others_are_and_what_is_not_meant_is_told erases everywhere.
@pytest.mark.heavy
@pytest.mark.folder
def test_after_upkeep_no_file_names_a_person(kit: PipelineKit) -> None:
    pipeline(kit)
    # Others put the files of a partition into a folder that is called as its value.
    maintain(kit.settings, Wish())
    assert [one for one in naming(kit, ANN) if one.startswith("go/who=")]
    bob = len(naming(kit, BOB))
    assert min(bob, len(naming(kit, ANN))) > 1
    done = erase(kit.settings, Wanted(f"who = '{ANN}'", keys=("ann",)))
    assert done.final_at is not None
    assert naming(kit, ANN)
    # Files of the newest batch wait for the one after it.
    sent(kit, body("go", BOB, 9))
    upkeep = maintain(kit.settings, Wish(older_than_days=8), clock=nine_days_later)
    assert [one.failed for one in upkeep.tables if one.failed] == []
    assert naming(kit, ANN) == []
    assert naming(kit, BOB)
    assert verify(kit.settings).differences == ()


def assert_told_what_is_not_meant(kit: PipelineKit) -> None:
    """Of a pipeline of which nothing was erased, and is."""
    lacking = erase(kit.settings, Wanted("nobody = 1"))
    assert {one.table for one in lacking.tables if "it has no column nobody" in "".join(one.left)} == {
        "chess",
        "chess__deleted",
        "go",
    }
    odd = erase(kit.settings, Wanted("who > 7", tables=("go",)))
    assert "the condition does not go with these records" in odd.tables[0].left[0]
    with pytest.raises(ConfigError, match="no such table of the pipeline"):
        erase(kit.settings, Wanted("who = 'x'", tables=("other",)))
    with pytest.raises(ConfigError, match="--where"):
        erase(kit.settings, Wanted("who ="))


# It writes with another hand than the store's.
@pytest.mark.folder
def test_rows_of_other_hands_and_records_that_fit_no_type_go_too(kit: PipelineKit) -> None:
    pipeline(kit)
    # Of no place in Kafka.
    write_deltalake(kit.root / "go", pa.table({"who": [ANN]}), mode="append", schema_mode="merge")
    sent(kit, json.dumps({"game": "chess", "who": ANN, "at": None, "n": 2**70}).encode())
    done = erase(kit.settings, Wanted(f"who = '{ANN}'"))
    assert [one.failed for one in done.tables if one.failed] == []
    assert {one.table: one.rows for one in done.tables if one.rows} == {"chess": 2, "go": 3, "quarantine": 2}
    assert verify(kit.settings).differences == ()


# Lighter: test_rows_of_a_person_are_in_no_table_and_all_others_are_and_what_is_not_meant_is_told erases everywhere.
@pytest.mark.heavy
def test_what_had_no_place_in_its_column_is_looked_into(kit: PipelineKit) -> None:
    kit.configured(policies={"incompatible_type": "rescue"})
    pipeline(kit)
    odd = {"game": "go", "who": BOB, "at": 8, "op": "u", "said": 17}
    sent(kit, json.dumps(odd).encode(), json.dumps({**odd, "at": {"hour": 8}}).encode())
    rescued = {row["_rescued_data"] for row in rows_of(kit, "go")}
    assert rescued == {None, '{"at":{"hour": 8}}'}
    done = erase(kit.settings, Wanted("at = 7", tables=("go",)))
    assert done.rows == 0
    assert (
        "1 rows have something in _rescued_data, or in __before, that the condition names"
        in done.tables[0].left[0]
    )
    done = erase(kit.settings, Wanted("said = '17'", tables=("go",)))
    assert [(one.rows, one.left) for one in done.tables] == [(2, ())]
    assert verify(kit.settings).differences == ()


# Lighter: test_rows_of_a_person_are_in_no_table_and_all_others_are_and_what_is_not_meant_is_told erases everywhere.
@pytest.mark.heavy
def test_the_command_says_what_was_done(kit: PipelineKit) -> None:
    pipeline(kit)
    command = ["erase", str(kit.settings_file), "--where", f"who = '{ANN}'", "--key", "ann"]
    answered, output = said(kit, *command, "--dry-run")
    assert answered == 0, output
    assert (
        "chess: 2 rows (1 that no reader saw any more) would be erased, 2 files would be written anew"
        in output
    )
    answered, output = said(kit, *command, "--json")
    assert answered == 0, output
    found = json.loads(output[output.index("{") :])
    assert (found["rows"], len(found["where"])) == (6, 64)
    assert ANN not in output
    answered, output = said(kit, *command)
    assert answered == 0, output
    assert "go: no such row" in output
    answered, output = said(kit, "verify", str(kit.settings_file))
    assert answered == 0, output


# Lighter: test_rows_of_a_person_are_in_no_table_and_all_others_are_and_what_is_not_meant_is_told erases everywhere.
@pytest.mark.heavy
@pytest.mark.parametrize("where", ["before", "behind"])
def test_verify_misses_nothing_wherever_an_erasure_ends(
    kit: PipelineKit, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    pipeline(kit)

    def dying(place: Files, version: int, actions: list[dict[str, Any]]) -> bool:
        if where == "behind":
            put_entry(place, version, actions)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(rewriting, "put_entry", dying)
        for table in ("go", "quarantine"):
            with pytest.raises(KeyboardInterrupt):
                erase(kit.settings, Wanted(f"who = '{ANN}'", keys=("ann",), tables=(table,)))
    assert verify(kit.settings).differences == ()
    erase(kit.settings, Wanted(f"who = '{ANN}'", keys=("ann",)))
    assert {row["who"] for row in rows_of(kit, "go")} == {BOB}
    assert verify(kit.settings).differences == ()
    # What comes again is there, and not twice.
    kit.configured(checkpoint="./another", start="again")
    kit.run()
    assert {row["who"] for row in rows_of(kit, "go")} == {ANN, BOB}


# Lighter: test_rows_of_a_person_are_in_no_table_and_all_others_are_and_what_is_not_meant_is_told erases everywhere.
@pytest.mark.heavy
def test_a_replay_brings_nothing_back_that_the_settings_say_was_erased(kit: PipelineKit) -> None:
    pipeline(kit)
    erase(kit.settings, Wanted(f"who = '{ANN}'"))
    kit.configured(erased=[f"who = '{ANN}'", "who = 'nobody'"], checkpoint="./another", start="again")
    kit.run()
    assert {row["who"] for row in rows_of(kit, "chess")} == {BOB}
    assert {row["who"] for row in rows_of(kit, "go")} == {BOB}
    rows = sorted(kit.rows("ledger_batches").to_pylist(), key=lambda row: row["started_at"])
    assert json.loads(rows[-1]["rows_by_reason"])["erased"] == 5
    # A number is no text: nobody knows whether it is meant.
    kit.configured(erased=["who > 7"])
    sent(kit, body("go", BOB, 10))
    assert {row["at"] for row in rows_of(kit, "go") if row["who"] == BOB} == {1}
    told = [
        row["detail"] for row in kit.rows("quarantine").to_pylist() if row["reason"] == "delete_condition"
    ]
    assert [one.startswith("erased: the condition does not go with these records") for one in told] == [True]


# Lost files of other records are written again in `make test`.
@pytest.mark.heavy
def test_lost_files_are_written_again_without_what_was_erased_then(kit: PipelineKit) -> None:
    pipeline(kit)
    kit.configured(erased=[f"who = '{ANN}'"])
    kit.send([body("go", ANN, 7), body("go", BOB, 7)])
    killed = kit.run_apart("after_manifest=kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    mine = [path for path in kit.unnamed_files() if path.startswith("go/")]
    assert mine
    kit.lake.root.delete(mine)
    # What is erased from now on is of the next batch.
    kit.configured(erased=[f"who = '{BOB}'"])
    kit.run()
    assert {(row["who"], row["at"]) for row in rows_of(kit, "go") if row["at"] == 7} == {(BOB, 7)}
