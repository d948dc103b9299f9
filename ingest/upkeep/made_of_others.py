"""Which tables under a root a pipeline has made of its others."""

from __future__ import annotations

import re
from collections.abc import Sequence

from deltalake.exceptions import DeltaError

from distributary.ingest.columns.safe_names import ENTITY
from distributary.ingest.derivation.given import OWNER, Derived
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log import has_log, may_be_tables, passing_unread
from distributary.ingest.upkeep.compaction import NO_HOOKS


def derived_tables(
    root: Files, rules: Sequence[Derived], pipeline: str, *, passing: bool = False
) -> list[str]:
    """The folders of the tables that these rules have made, in order; one that cannot be opened is none. Raises OSError.

    With `passing` one that may not be read is none, either, with a warning: it may be kept for others.
    """
    if not rules:
        return []
    named = [re.compile(re.escape(rule.table).replace(re.escape(ENTITY), ".+")) for rule in rules]
    candidates = [folder for folder in may_be_tables(root) if any(one.fullmatch(folder) for one in named)]

    def is_own(folder: str) -> bool:
        return _is_of(root.below(folder), pipeline)

    return [*filter(passing_unread(root, is_own) if passing else is_own, candidates)]


def take_over(place: Files, pipeline: str) -> None:
    """Have a table that a pipeline has derived under another of its names tell the one that it has. Raises DeltaErrors where somebody else changes it at the same time."""
    opened(place).alter.set_table_properties(
        {OWNER: pipeline}, raise_if_not_exists=False, post_commithook_properties=NO_HOOKS
    )


def _is_of(place: Files, pipeline: str) -> bool:
    try:
        return has_log(place) and opened(place).metadata().configuration.get(OWNER) == pipeline
    except DeltaError:
        return False
