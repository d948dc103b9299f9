"""`distributary quarantine replay` and `purge`: records brought back, or deleted."""

from __future__ import annotations

from typing import Annotated

import typer

from distributary.commands.arguments import File, Given
from distributary.commands.quarantine.choosing import (
    AsJson,
    Entity,
    Reason,
    SchemaId,
    Since,
    Topic,
    Until,
    chosen_by,
)
from distributary.views.answers import tell
from distributary.views.quarantine import purged, replayed
from distributary.views.terminal import watching


def replay(
    file: File,
    reason: Reason = None,
    entity: Entity = None,
    schema_id: SchemaId = None,
    topic: Topic = None,
    since: Since = None,
    until: Until = None,
    given: Given = None,
    as_json: AsJson = False,
) -> None:
    """Decode what is in quarantine again, by today's settings and schemas, and put it into its tables, once; a run that appends may go on meanwhile."""
    from distributary.ingest.replay.bring_back import bring_back
    from distributary.ingest.settings.model import load

    settings = load(file, given=given or ())
    chosen = chosen_by(reason, entity, schema_id, topic, (since, until))
    with watching(silent=as_json) as progress:
        done = bring_back(settings, chosen, progress)
    tell(done.as_dict(), replayed(done), as_json=as_json)


def purge(
    file: File,
    reason: Reason = None,
    entity: Entity = None,
    schema_id: SchemaId = None,
    topic: Topic = None,
    since: Since = None,
    until: Until = None,
    older_than: Annotated[
        float | None,
        typer.Option(min=0, help="Only records that are so many days old, by their time in Kafka."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Also such that were not brought back: nobody can bring them then.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing, and tell what would be done.")
    ] = False,
    given: Given = None,
    as_json: AsJson = False,
) -> None:
    """Delete from quarantine what was brought back; with --yes whatever is chosen. A run may go on meanwhile."""
    from distributary.ingest.quarantine.purging import Wish
    from distributary.ingest.quarantine.purging import purge as delete
    from distributary.ingest.settings.model import load

    wish = Wish(chosen_by(reason, entity, schema_id, topic, (since, until)), yes, older_than, dry_run)
    done = delete(load(file, given=given or ()), wish)
    tell(done.as_dict(), purged(done), as_json=as_json)
    done.check()
