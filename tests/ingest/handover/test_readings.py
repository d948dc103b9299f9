"""Which tables are of the present reading: as owners and their commits tell, without any table."""

from __future__ import annotations

import pytest

from distributary.ingest.checkpoint.generation import app_of
from distributary.ingest.commit_log.entries import Owner
from distributary.ingest.handover.readings import Reading
from distributary.ingest.settings.groups import Route
from distributary.ingest.tables.transaction import app_of_replays


def owner(generation: str, lineage: str) -> Owner:
    return Owner("games", "/checkpoint", generation, lineage)


FIRST, NEXT, AGAIN = owner("a", "a"), owner("b", "a"), owner("c", "c")


@pytest.mark.parametrize(
    ("owners", "wrote", "is_of_it"),
    [
        ([FIRST, AGAIN], {app_of("a", "old_go")}, False),
        ([FIRST, NEXT, AGAIN], {app_of("b", "old_go")}, False),
        ([FIRST, NEXT, AGAIN], {app_of_replays("b")}, False),
        # Also by this reading, as under another name of tables that a new checkpoint came with.
        ([FIRST, AGAIN], {app_of("a", "old_go"), app_of("c", "old_go")}, True),
        ([owner("d", "c")], {app_of("d", "old_go")}, True),
        ([FIRST, AGAIN], {app_of_replays("c")}, True),
        # Nobody tells.
        ([], set(), True),
        ([FIRST, AGAIN], set(), True),
        ([owner("a", ""), AGAIN], {app_of("a", "old_go")}, True),
    ],
)
def test_a_table_of_another_name_is_of_it_unless_only_earlier_readings_wrote_to_it(
    owners: list[Owner], wrote: set[str], is_of_it: bool
) -> None:
    reading = Reading(
        Route(field="game", table="new_{entity}"),
        "c",
        {"old_go": owners},
        lambda _, app: 1 if app in wrote else None,
    )
    assert reading.of({"old_go": "go"}) == (["old_go"] if is_of_it else [])


def test_one_that_is_called_as_its_entity_s_is_never_asked_about() -> None:
    def asked(_: str, app: str) -> int | None:
        raise AssertionError(app)

    reading = Reading(
        Route(field="game", table="new_{entity}"), "c", {"new_go": [FIRST], "lost": [FIRST]}, asked
    )
    assert reading.of({"new_go": "go", "lost": "", "nobody": None}) == ["lost", "new_go", "nobody"]
