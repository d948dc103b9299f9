"""The versions of tables that belong together, asked for while a batch is in some of them, of shared tables, and by the page's own code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.planted import said_here

from distributary.errors import BudgetSpent, PipelineError
from distributary.ingest.columns.safe_names import BATCHES_TABLE, QUARANTINE_TABLE
from distributary.ingest.table_versions import TableVersion, Versions, versions_at
from distributary.ingest.tables.handle import opened

pytestmark = [pytest.mark.spark, pytest.mark.stack]

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/read-tables-together.md"


def read(kit: PipelineKit, versions: Versions) -> dict[str, int]:
    """The rows that each table has at its version."""
    found = {}
    for one in versions.tables:
        table = opened(kit.lake.root.below(one.table))
        table.load_as_version(one.version)
        found[one.table] = table.to_pyarrow_table().num_rows
    return found


def whole(kit: PipelineKit) -> dict[str, int]:
    """The rows that each table has now."""
    root = kit.lake.root
    return {name: kit.delta(name).to_pyarrow_table().num_rows for name in root.folders() if name[0] != "."}


def test_tables_are_read_as_of_a_batch_while_the_next_one_is_in_some_of_them(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    kit.configured(limits={"commit_threads": 1})
    kit.simulate(1, corrupt=0.05)
    kit.run()
    before = whole(kit)
    assert read(kit, versions_at(kit.settings)) == before
    kit.delta(kit.folder_of(0)).optimize.compact()
    first = versions_at(kit.settings)
    assert read(kit, first) == before
    kit.simulate(2, games=4, corrupt=0.05)
    fail_at("between_commits:3")
    with pytest.raises(BudgetSpent):
        kit.run()
    assert whole(kit) != before, "a part of the next batch is there"
    assert versions_at(kit.settings) == first

    fail_at()
    kit.run()
    second = versions_at(kit.settings)
    assert (second.batch, read(kit, second)) == (3, whole(kit))
    assert versions_at(kit.settings, first.batch) == first
    assert kit.folder_of(3) in {one.table for one in second.tables} - {one.table for one in first.tables}
    with pytest.raises(PipelineError, match=r"tells of no batch 2 of pipeline games; the oldest one .* is 1"):
        versions_at(kit.settings, 2)
    answered, output = said_here("versions", str(kit.settings_file), "--batch", str(first.batch), "--json")
    assert (answered, json.loads(output)["batch"]) == (0, first.batch)
    assert (
        f"{kit.folder_of(0)}: version {first[kit.folder_of(0)].version}"
        in said_here("versions", str(kit.settings_file), "--batch", str(first.batch))[1]
    )


# Lighter: tests/ingest/test_table_versions.py asks without a run, and test_owners.py shares tables.
@pytest.mark.heavy
def test_of_shared_tables_a_pipelines_own_batch_counts_and_a_new_checkpoint_begins_anew(
    kit: PipelineKit, topic: str
) -> None:
    kit.simulate(1, corrupt=0.05)
    kit.run()
    other = kit.beside(f"{topic}-2").configured(name="others", route={"table": "others_{entity}"})
    with pytest.raises(PipelineError, match="no batch that is whole of pipeline others"):
        versions_at(other.settings)
    before = versions_at(kit.settings)
    other.simulate(1, corrupt=0.05)
    other.run()
    after = versions_at(kit.settings)
    assert after == before
    theirs = versions_at(other.settings)
    assert theirs[QUARANTINE_TABLE].version > before[QUARANTINE_TABLE].version
    assert {one.table.partition("_")[0] for one in theirs.tables} == {"others", "quarantine", "ledger"}

    kit.configured(checkpoint="./anew", start="from_tables")
    kit.simulate(1, games=2)
    kit.run()
    anew = versions_at(kit.settings)
    last = before[kit.folder_of(2)]
    assert anew[kit.folder_of(2)] == TableVersion(last.table, last.url, last.version, None)
    assert anew[kit.folder_of(0)].batch == anew[BATCHES_TABLE].batch == anew.batch


# Lighter: test_a_table_whose_log_does_not_go_back_as_far_as_the_ledgers_is_named.
@pytest.mark.heavy
@pytest.mark.folder
def test_of_a_log_that_was_cleaned_up_the_newest_batch_is_known_and_older_ones_are_not(
    kit: PipelineKit,
) -> None:
    for _ in range(2):
        kit.simulate(1, corrupt=0.05)
        kit.run()
    newest = versions_at(kit.settings)
    for one in newest.tables:
        table = kit.delta(one.table)
        table.alter.set_table_properties({"mine": "yes"}, raise_if_not_exists=False)
        table.create_checkpoint()
        for version in range(table.version()):
            (kit.root / one.table / "_delta_log" / f"{version:020d}.json").unlink()
    again = versions_at(kit.settings)
    assert [(one.table, one.batch) for one in again.tables] == [
        (one.table, one.batch) for one in newest.tables
    ]
    assert (again.batch, read(kit, again)) == (newest.batch, whole(kit))
    with pytest.raises(PipelineError, match=r"no batch 1 of pipeline games; the oldest one .* is 3"):
        versions_at(kit.settings, 1)


@pytest.mark.folder
def test_a_table_whose_log_does_not_go_back_as_far_as_the_ledgers_is_named(kit: PipelineKit) -> None:
    for _ in range(2):
        kit.simulate(1)
        kit.run()
    first = versions_at(kit.settings, 1)
    table = kit.folder_of(0)
    kit.delta(table).create_checkpoint()
    for version in range(first[table].version + 1):
        (kit.root / table / "_delta_log" / f"{version:020d}.json").unlink()
    with pytest.raises(PipelineError, match=rf"{table} goes back no further .*sink\.log_retention_days"):
        versions_at(kit.settings, 1)


# What it calls is in the other tests.
@pytest.mark.heavy
@pytest.mark.folder
def test_the_pages_code_joins_two_tables(
    kit: PipelineKit, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kit.simulate(1, games=8)
    kit.run()
    assert kit.settings_file.name == "games.yaml"
    monkeypatch.chdir(kit.folder)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"spark": kit.spark}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102 the page's own code is what is tested
    first, *others = capsys.readouterr().out.splitlines()
    assert int(first.split()[0]) > 0
    assert [int(other.split()[0]) for other in others] == 2 * [int(first.split()[0])]
    assert first.endswith(f"as of batch {names['versions'].batch}")
