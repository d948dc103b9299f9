"""What docs/how-to/back-up-and-restore.md says to copy is enough to go on, and what it says of each restore is so."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.errors import CheckpointMismatch, CommitImpossible, ConfigError, TablesOfAnotherRun
from distributary.ingest.resolve import resolve, stuck_tables
from distributary.producer_sim.verify.comparison import verify

# Its commands are for a folder; a store's own copies are its users'.
pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.folder]

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/back-up-and-restore.md"


def back_up(kit: PipelineKit) -> None:
    """The page's own commands."""
    commands = re.findall(r"^    (cp -a .*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [command.split()[2] for command in commands] == ["checkpoints", "lake"]
    (kit.folder / "backup").mkdir()
    for command in commands:
        subprocess.run(command, shell=True, cwd=kit.folder, check=True)  # noqa: S602 it is the page's


def restore(kit: PipelineKit, names: Sequence[str], copy: str = "backup") -> None:
    """Into empty folders, as the page says."""
    for name in names:
        shutil.rmtree(kit.folder / name)
        shutil.copytree(kit.folder / copy / name, kit.folder / name)


def ran_on(kit: PipelineKit) -> None:
    """A pipeline that was backed up, and has done more than one batch since."""
    kit.simulate(1, corrupt=0.05)
    kit.run()
    back_up(kit)
    for _ in range(2):
        kit.simulate(2, games=4, corrupt=0.05)
        kit.run()
    (kit.folder / "now").mkdir()
    for name in ("checkpoints", "lake"):
        shutil.copytree(kit.folder / name, kit.folder / "now" / name)


def test_both_of_one_backup_go_on_and_one_alone_is_refused_and_the_tables_are_enough_to_go_on(
    kit: PipelineKit,
) -> None:
    ran_on(kit)
    restore(kit, ["checkpoints", "lake"])
    held = verify(kit.settings)
    assert held.differences == ()
    assert held.unread == kit.truth.records - 300, "what came after the backup is to be read again"
    kit.run()
    kit.assert_clean()
    assert kit.unnamed_files() == set()

    restore(kit, ["lake"], "now")
    restore(kit, ["checkpoints"])
    with pytest.raises(CheckpointMismatch, match="the checkpoint was put back from an older copy"):
        kit.run()
    assert {one.kind for one in verify(kit.settings).differences} == {"checkpoint_behind"}
    restore(kit, ["checkpoints"], "now")
    restore(kit, ["lake"])
    with pytest.raises(CheckpointMismatch, match="the tables were put back from an older copy"):
        kit.run()
    assert "tables_behind" in {one.kind for one in verify(kit.settings).differences}
    # The page's last section: the tables as they are, without any checkpoint.
    shutil.rmtree(kit.folder / "checkpoints")
    kit.configured(start="from_tables")
    with pytest.raises(TablesOfAnotherRun, match=r'confirm_dead: \["[0-9a-f]{32}"\]') as refused:
        kit.run()
    kit.configured(confirm_dead=re.findall(r'"([0-9a-f]{32})"', str(refused.value)))
    kit.run()
    kit.assert_clean()


@pytest.mark.heavy
def test_one_table_of_a_backup_alone_is_named_and_goes_without_only_by_the_users_word(
    kit: PipelineKit,
) -> None:
    ran_on(kit)
    table = kit.folder_of(0)
    shutil.rmtree(kit.root / table)
    shutil.copytree(kit.folder / "backup" / "lake" / table, kit.root / table)
    with pytest.raises(CommitImpossible, match=rf"{table} has batch \d+ as its newest one.*put back from an"):
        kit.run()
    (stuck,) = stuck_tables(kit.settings)
    assert stuck.table == table
    with pytest.raises(ConfigError, match="Restore its newest copy, or go on without"):
        resolve(kit.settings, table, "recreate")
    assert "distributary resolve games.yaml silver_chess_events --skip" in PAGE.read_text(encoding="utf-8")
    resolve(kit.settings, table, "skip")
    kit.simulate(2, games=4)
    kit.run()
    assert {one.kind for one in verify(kit.settings).differences} == {"ledger_rows"}
