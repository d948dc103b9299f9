"""Steps in which checkpoints, backups and names change."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace

from drills.walk.checking import of_rows, read_twice
from drills.walk.model import ENTITIES
from drills.walk.operation import Operation, backed_up, settled
from drills.walk.pipeline import Backup, Walk
from drills.walk.runs import ended, produce, run_to_end

from distributary.errors import CheckpointMismatch, CommitImpossible, PipelineError
from distributary.ingest.checkpoint.generation import read_generation
from distributary.ingest.tables.log import has_log

# As a program writes that is newer than everybody here.
_NOBODY_READS = b'{"protocol":{"minReaderVersion":99,"minWriterVersion":99}}\n'


def from_tables(walk: Walk, dice: random.Random) -> None:
    """A new checkpoint goes on from the tables; the one before is there, or is lost."""
    said = walk.said
    # What a run has left that died is told by files which upkeep may have deleted.
    if dice.random() < 0.5 and not walk.state.upkept:
        generation = read_generation(walk.kit.checkpoint)
        if generation is not None:
            said.confirmed = (*said.confirmed, generation.id)
        shutil.rmtree(walk.kit.checkpoint_folder, ignore_errors=True)
    said.turns, said.start = said.turns + 1, "from_tables"
    walk.configure()
    run_to_end(walk)


def again(walk: Walk, dice: random.Random) -> None:
    """A new checkpoint reads everything once more, into tables of other names."""
    said = walk.said
    every = [*map(walk.table_of, ENTITIES)]
    walk.state.left |= {folder: rows for folder in every if (rows := walk.rows(folder))}
    said.turns, said.number, said.start = said.turns + 1, said.number + 1, "again"
    # Of an entity that has no table then what was derived before stays.
    said.left_out = ""
    walk.configure()
    walk.model.begun_again()
    run_to_end(walk)


def made_anew(walk: Walk, dice: random.Random) -> None:
    """A topic is deleted and made anew: a run is refused, and a new checkpoint reads what there is by then into tables of other names."""
    # Of one that is not read for now a run says nothing.
    walk.said.left_out = ""
    walk.configure()
    run_to_end(walk)
    topic = dice.choice(list(walk.state.topics))
    walk.make_anew(topic)
    try:
        walk.kit.run()
    except CheckpointMismatch as error:
        assert f"topic '{topic}' was made anew" in str(error), error
    else:
        raise AssertionError(f"a run went on with topic {topic}, which was made anew")
    # By any copy of before it is the other topic.
    walk.state.backup = None
    walk.model.made_anew(topic)
    produce(walk, dice)
    again(walk, dice)


def again_in_place(walk: Walk, dice: random.Random) -> None:
    """A new checkpoint reads everything once more into the tables that are there, and what was there comes back."""
    said, before, newest = replace(walk.said), walk.model.snapshot(), walk.copied("newest")
    had = {entity: walk.rows(walk.table_of(entity)) for entity in ENTITIES}
    walk.said.turns, walk.said.start = said.turns + 1, "again"
    walk.configure()
    walk.model.begun_again()
    walk.kit.run()
    walk.model.read(said.left_out)
    wrong = [*read_twice(walk, before, had)]
    walk.put_back(newest)
    walk.said = said
    walk.configure()
    walk.model.put_back(before)
    assert not wrong, wrong


def rename(walk: Walk, dice: random.Random) -> None:
    """The pipeline gets another name, and runs once: by its checkpoint it is known to be the same one."""
    walk.said.name = f"walk{dice.randrange(1000)}"
    walk.configure()
    run_to_end(walk)


def back_up(walk: Walk, dice: random.Random) -> None:
    """A copy is made of everything."""
    folder = walk.copied("backup")
    left = {name: list(rows) for name, rows in walk.state.left.items()}
    walk.state.backup = Backup(folder, replace(walk.said), walk.model.snapshot(), left)


def restore(walk: Walk, dice: random.Random) -> None:
    """The copy is put in the place of everything."""
    if (backup := walk.state.backup) is None:
        return
    walk.put_back(backup.folder)
    walk.said = replace(backup.said)
    walk.model.put_back(backup.model)
    walk.state.left = {name: list(rows) for name, rows in backup.left.items()}
    walk.state.begun.clear()
    walk.state.whole, walk.state.current = True, False
    walk.configure()


def restore_one_half(walk: Walk, dice: random.Random) -> None:
    """Of the copy the checkpoint alone is put back, or the tables alone: a run is refused, and what was there comes back."""
    backup = walk.state.backup
    if backup is None or replace(backup.said, stuck="stop") != replace(walk.said, stuck="stop"):
        return
    unread = {record.place for record in backup.model.of("unread")} | _sent_since(walk, backup)
    if not any(record.place in unread for record in walk.model.of("table", "quarantine")):
        return
    newest = walk.copied("newest")
    half = dice.choice(("lake", "checkpoints"))
    walk.put_back(backup.folder, half)
    try:
        walk.kit.run()
    except (CheckpointMismatch, CommitImpossible):
        pass
    else:
        # Where the newest batch alone is missing a run puts it there again.
        assert half == "lake", "a checkpoint that was put back from an older copy was run"
    walk.put_back(newest)


def restore_one_table(walk: Walk, dice: random.Random) -> None:
    """Of the copy one table is put back: a run is refused, or brings in the newest batch where that alone is missing, and what was there comes back."""
    backup = walk.state.backup
    if backup is None or replace(backup.said, stuck="stop") != replace(walk.said, stuck="stop"):
        return
    unread = {record.place for record in backup.model.of("unread")} | _sent_since(walk, backup)
    lacking = {str(record.entity) for record in walk.model.of("table") if record.place in unread}
    there = [one for one in sorted(lacking) if (backup.folder / "lake" / walk.table_of(one)).is_dir()]
    if not there:
        return
    entity, before, newest = dice.choice(there), walk.model.snapshot(), walk.copied("newest")
    walk.put_back(backup.folder, f"lake/{walk.table_of(entity)}")
    try:
        walk.kit.run()
    except (CheckpointMismatch, CommitImpossible):
        pass
    else:
        walk.model.read(walk.said.left_out)
        assert not (wrong := [*of_rows(walk, entity)]), wrong
        walk.model.put_back(before)
    walk.put_back(newest)


def _sent_since(walk: Walk, backup: Backup) -> set[tuple[str, int, int]]:
    then = {record.place for record in backup.model.records}
    return {record.place for record in walk.model.records} - then


def park(walk: Walk, dice: random.Random) -> None:
    """A table becomes one that nobody can open, and waits for what comes meanwhile; then it is put right, or goes without that and is made again."""
    root = walk.kit.lake.root
    there = [folder for entity in ENTITIES if has_log(root.below(folder := walk.table_of(entity)))]
    table = dice.choice(there)
    walk.said.stuck = "park"
    walk.configure()
    version = walk.kit.delta(table).version() + 1
    entry = walk.kit.root / table / "_delta_log" / f"{version:020}.json"
    entry.write_bytes(_NOBODY_READS)
    for _ in range(dice.choice((1, 2))):
        produce(walk, dice)
        try:
            walk.kit.run()
        except PipelineError as error:
            # What is made of it cannot be made current.
            if "gold_" not in str(error):
                raise
    entry.unlink()
    walk.kit.run()
    walk.said.stuck = "stop"
    walk.configure()
    ended(walk)
    walk.kit.run()


OPERATIONS = (
    Operation(from_tables, 3),
    Operation(again, 2, when=settled),
    Operation(made_anew, 1, when=settled),
    Operation(again_in_place, 1, when=settled),
    Operation(rename, 2),
    Operation(back_up, 3, when=settled),
    Operation(restore, 3, when=backed_up),
    Operation(restore_one_half, 2, when=lambda walk: settled(walk) and backed_up(walk)),
    Operation(restore_one_table, 3, when=lambda walk: settled(walk) and backed_up(walk)),
    Operation(park, 3, when=settled),
)
