"""An erasure that looked into no table does not look like one that was done."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.ingest.pipelines import settings
from tests.ingest.upkeep.test_maintain import own

from distributary.errors import ConfigError, PipelineError
from distributary.ingest.erasure import erase as module
from distributary.ingest.erasure.erase import Wanted, erase
from distributary.ingest.erasure.outcome import Erasure, TableErasure
from distributary.ingest.routing.conditions import ReadCondition
from distributary.ingest.routing.tree import Call, Field, Literal
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.change import create


def of(*tables: TableErasure) -> Erasure:
    return Erasure("games", "1", "", dry_run=False, at=datetime.now(timezone.utc), tables=tables)


@pytest.mark.parametrize(
    ("column", "tables", "why"),
    [
        ("playr", (), r"^no table has playr, which --where names: .*correct it"),
        ("player.idd", (), r"^no table has player.idd, which"),
        ("Player.ID", (), ""),
        ("player.nick", (), ""),
        ("score", (), ""),
        ("score", ("chess",), r"^no table has score, which"),
    ],
)
def test_a_condition_that_no_table_has_the_columns_of_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str, tables: tuple[str, ...], why: str
) -> None:
    root = files_at(tmp_path / "lake")
    given = settings(tmp_path, sink={"root": root.url})
    for table, rows in (
        ("chess", {"player": [{"id": 7}]}),
        ("go", {"player": [{"id": 8, "nick": 1}], "score": [1]}),
    ):
        own(root, given, table)
        create(root.below(table).url, pa.table(rows).schema, {})
        write_deltalake(root.below(table).url, pa.table(rows), mode="append")
    where = f"{column} = 99"
    condition = ReadCondition(Call("=", (Field(tuple(column.split("."))), Literal(99))))
    monkeypatch.setattr(module, "conditions_ahead", lambda _: {where: condition})
    for dry in (True, False):
        done = erase(given, Wanted(where, keys=("p7",), tables=tables, dry_run=dry))
        if not why:
            done.check()
            continue
        with pytest.raises(ConfigError, match=why):
            done.check()


@pytest.mark.parametrize(
    ("field", "value", "rows", "why"),
    [
        ("nick", 99, 1, ""),
        # Of somebody else, as where it is said once more.
        ("Nick", 98, 0, ""),
        ("nik", 99, 0, r"^no table has player\.nik, which"),
    ],
)
def test_rows_that_have_a_field_rescued_are_enough(  # noqa: PLR0917 - a field, and what comes of it
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str, value: int, rows: int, why: str
) -> None:
    root = files_at(tmp_path / "lake")
    given = settings(tmp_path, sink={"root": root.url})
    own(root, given, "chess")
    there = pa.table({"player": [{"id": 7}, {"id": 8}], "_rescued_data": ['{"player.nick": 99}', None]})
    create(root.below("chess").url, there.schema, {})
    write_deltalake(root.below("chess").url, there, mode="append")
    condition = ReadCondition(Call("=", (Field(("player", field)), Literal(value))))
    monkeypatch.setattr(module, "conditions_ahead", lambda _: {"": condition})
    done = erase(given, Wanted(""))
    assert done.rows == rows
    if not why:
        done.check()
        return
    with pytest.raises(ConfigError, match=why):
        done.check()


def test_only_tables_that_have_columns_are_asked_for_them() -> None:
    passed, beside = TableErasure("chess", lacks=("who",)), TableErasure("quarantine", rows=1)
    of(beside).check()
    of(passed, TableErasure("go", lacks=()), beside).check()
    with pytest.raises(ConfigError, match=r"^no table has who, which --where names"):
        of(passed, TableErasure("go", lacks=("at", "who")), beside).check()
    with pytest.raises(ConfigError, match=r"^each table lacks a column that --where names"):
        of(passed, TableErasure("go", lacks=("at",))).check()
    with pytest.raises(PipelineError, match=r"rows of 1 of 2 tables were not erased.*go: no disk"):
        of(passed, TableErasure("go", failed="no disk")).check()
