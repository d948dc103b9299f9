"""Which tables are of the present reading of the topics: what `start: again` left, where `route.table` names others by now, is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from distributary.ingest.checkpoint.generation import app_of
from distributary.ingest.commit_log.entries import Owner
from distributary.ingest.settings.groups import Route
from distributary.ingest.tables.transaction import app_of_replays


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of the topics, by however many checkpoints, each of which went on from the tables of the one before.

    route    how records find their tables by now
    lineage  the generation that began it
    ever     all owners that each table has and had, by its folder
    newest   the newest number that a table, by its folder, has of an application; None where it has none
    """

    route: Route
    lineage: str
    ever: Mapping[str, Sequence[Owner]]
    newest: Callable[[str, str], int | None]

    def of(self, entities: Mapping[str, str | None]) -> list[str]:
        """Those of some tables that are of it, in order; each is given with its entity, None where nobody tells.

        One that is called otherwise than its entity's would be by now is not, where only earlier readings are known to have written to it: its
        rows are theirs, and each record has its row in this one's tables as well, or is to get it. Raises PipelineError where nobody can tell.
        """
        return sorted(folder for folder, entity in entities.items() if self._has(folder, entity))

    def _has(self, folder: str, entity: str | None) -> bool:
        if not entity or folder == self.route.folder(entity):
            return True
        wrote = [
            owner.lineage for owner in self.ever.get(folder, ()) if self._wrote(owner.generation, folder)
        ]
        # Records from before there were lineages say nothing of them.
        return not wrote or any(lineage in ("", self.lineage) for lineage in wrote)

    def _wrote(self, generation: str, folder: str) -> bool:
        apps = (app_of(generation, folder), app_of_replays(generation))
        return any(self.newest(folder, app) is not None for app in apps)
