"""Steps in which the tables' files become others, and no row does."""

from __future__ import annotations

import random

from drills.walk.model import APPENDED
from drills.walk.operation import Operation
from drills.walk.pipeline import Walk

from distributary.ingest.derived.refresh import derive as derive_now
from distributary.ingest.quarantine.purging import Wish as Purge
from distributary.ingest.quarantine.purging import purge
from distributary.ingest.tables.log import has_log
from distributary.ingest.upkeep.maintain import Wish, maintain


def keep_up(walk: Walk, dice: random.Random) -> None:
    """Upkeep by the command, which deletes what is a week old, or what no version needs now."""
    wish = Wish(older_than_days=0, force=True) if dice.random() < 0.5 else Wish()
    maintain(walk.kit.settings, wish).check()
    walk.state.upkept = True


def optimize(walk: Walk, dice: random.Random) -> None:
    """Somebody brings a table's files together: by Spark, or by delta-rs where it may."""
    table = _any_table(walk, dice)
    if _may_be_by_delta_rs(walk, table) and dice.random() < 0.5:
        walk.kit.delta(table).optimize.compact()
    else:
        walk.kit.spark.sql(f"OPTIMIZE delta.`{walk.kit.root / table}`")
    walk.state.upkept = True


def vacuum(walk: Walk, dice: random.Random) -> None:
    """Somebody deletes what no version of a table needs: a week old, and where nothing is under way without delay."""
    table = _any_table(walk, dice)
    hours = 0 if walk.state.is_settled else 168
    if _may_be_by_delta_rs(walk, table) and dice.random() < 0.5:
        walk.kit.delta(table).vacuum(hours, dry_run=False, enforce_retention_duration=False)
    else:
        careless = walk.kit.spark.newSession()
        careless.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        # By its own default it lists a folder in ten thousand tasks.
        careless.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", "2")
        careless.sql(f"VACUUM delta.`{walk.kit.root / table}` RETAIN {hours} HOURS")
    walk.state.upkept = True


def _any_table(walk: Walk, dice: random.Random) -> str:
    root = walk.kit.lake.root
    return dice.choice(sorted(folder for folder in root.folders() if has_log(root.below(folder))))


def _may_be_by_delta_rs(walk: Walk, table: str) -> bool:
    """Neither rows that are marked as gone nor clusters."""
    plain = ("bronze", "quarantine", "ledger")
    appended = table.startswith(walk.table_of(APPENDED)) and "cluster_by" not in walk.shape.apart
    return table.startswith(plain) or appended


def derive(walk: Walk, dice: random.Random) -> None:
    """The derived tables are made current by the command, or all of them anew."""
    done = derive_now(walk.kit.settings, walk.kit.spark, whole=dice.random() < 0.5)
    assert not [one for one in done if one.how == "failed"], done
    walk.state.current = walk.state.is_settled


def purge_resolved(walk: Walk, dice: random.Random) -> None:
    """What was brought back is deleted from quarantine."""
    purge(walk.kit.settings, Purge()).check()


OPERATIONS = (
    Operation(keep_up, 4),
    Operation(optimize, 3),
    Operation(vacuum, 3),
    Operation(derive, 1),
    Operation(purge_resolved, 1),
)
