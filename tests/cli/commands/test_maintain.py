"""`distributary maintain` with the words that a user types."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake

from distributary import cli


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The settings of a pipeline that has a ledger, in three small files."""
    pipeline = {
        "name": "games",
        "source": {"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "topics": ["t"]},
        "registry": {"url": "http://127.0.0.1:1"},
        "route": {"field": "game", "table": "{entity}"},
        "sink": {"root": "./lake"},
    }
    for number in range(3):
        write_deltalake(tmp_path / "lake" / "ledger_batches", pa.table({"batch_id": [number]}), mode="append")
    file = tmp_path / "games.yaml"
    file.write_text(yaml.safe_dump(pipeline), encoding="utf-8")
    return file


def ended(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        cli.main(["maintain", *words])
    assert isinstance(end.value.code, int)
    return end.value.code


def test_json_is_one_document_and_nothing_else(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(str(file), "--json", "--dry-run") == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    told = json.loads(printed.out)
    assert (told["pipeline"], told["dry_run"], told["older_than_days"]) == ("games", True, 7.0)
    (table,) = told["tables"]
    assert (table["table"], table["before"]["files"], table["compacted"], table["made"]) == (
        "ledger_batches",
        3,
        3,
        1,
    )


def test_lines_go_to_stdout_and_progress_to_stderr(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(str(file), "--table", "ledger_batches") == 0
    printed = capsys.readouterr()
    assert printed.err.splitlines() == ["upkeep of tables", "upkeep of tables: 1 of 1"]
    first, last = printed.out.splitlines()
    assert first.startswith("ledger_batches: 3 files (")
    assert last.startswith("games: 3 files compacted into 1, 0 files (0 B) deleted in 1 table")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--older-than", "1"], "say --force with a shorter time"),
        (["--table", "chess"], "chess: no such table of the pipeline"),
    ],
)
def test_what_is_not_possible_is_a_sentence_and_changes_nothing(
    file: Path, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(file.parent.rglob("*"))
    assert ended(str(file), *words) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())
    assert sorted(file.parent.rglob("*")) == before


def test_a_table_that_failed_is_told_of_and_the_command_ends_with_1(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file.parent / "lake" / "ledger_batches" / "_delta_log" / f"{0:020d}.json"
    path.write_text("no JSON", encoding="utf-8")
    code = ended(str(file), "--json")
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    (table,) = told["tables"]
    assert table["failed"] or table["left"]
    # What is old in it is let go of by what it tells.
    assert "ledger_batches cannot be read" in told["record"]["failed"]
    assert code == 1
