"""The options by which records in quarantine are chosen, which all of its commands take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any

import typer

from distributary.errors import ConfigError

if TYPE_CHECKING:
    from distributary.ingest.quarantine.chosen import Chosen

Reason = Annotated[
    list[str] | None,
    typer.Option("--reason", help="Records that are there for this reason; may be given again."),
]
Entity = Annotated[
    list[str] | None,
    typer.Option("--entity", help="Records of this entity, where it was known; may be given again."),
]
SchemaId = Annotated[
    list[str] | None,
    typer.Option("--schema-id", help="Records that name this schema, by id or GUID; may be given again."),
]
Topic = Annotated[
    list[str] | None, typer.Option("--topic", help="Records of this topic; may be given again.")
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="Records whose time in Kafka is not before, such as 2026-01-31T08:00."
    ),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Records whose time in Kafka is before.")
]
# As Kafka counts them.
MOST_PARTITION, MOST_OFFSET = 2**31 - 1, 2**63 - 1

Partition = Annotated[
    int | None, typer.Option("--partition", min=0, max=MOST_PARTITION, help="Records of this partition.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]


def chosen_by(
    reason: Sequence[str] | None,
    entity: Sequence[str] | None,
    schema_id: Sequence[str] | None,
    topic: Sequence[str] | None,
    times: tuple[str | None, str | None],
    options: tuple[str, str] = ("--since", "--until"),
) -> Chosen:
    """Which records are meant. Raises ConfigError for what is no time."""
    from distributary.ingest.quarantine.chosen import Chosen

    listed: dict[str, Any] = {
        "reasons": tuple(reason or ()),
        "entities": tuple(entity or ()),
        "schemas": tuple(schema_id or ()),
        "topics": tuple(topic or ()),
    }
    since, until = (_time(name, text) for name, text in zip(options, times, strict=True))
    return Chosen(**listed, since=since, until=until)


def within(chosen: Chosen, partition: int | None, offsets: str | None) -> Chosen:
    """Those of them that are of a partition, and between two offsets, as `100:200`. Raises ConfigError for what are none."""
    return replace(chosen, place=(partition, None), offsets=_offsets(offsets))


def _offsets(text: str | None) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    first, colon, end = text.partition(":")
    try:
        found = (int(first) if first else None, int(end) if end else None)
    except ValueError:
        found = (None, None)
    known = [one for one in found if one is not None]
    if not (colon and known and all(0 <= one <= MOST_OFFSET for one in known)):
        raise ConfigError(
            f"--offsets {text}: those are no offsets; write the first one, and the first behind, such as 100:200, 100: or :200"
        )
    return found


def _time(option: str, text: str | None) -> datetime | None:
    """A time as users write it, in UTC unless it says otherwise. Raises ConfigError."""
    if text is None:
        return None
    try:
        # Before Python 3.11 a Z is none of ISO's.
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return (at.replace(tzinfo=timezone.utc) if at.tzinfo is None else at).astimezone(timezone.utc)
    except (ValueError, OverflowError):  # in UTC it may be in a year that Python lacks
        raise ConfigError(
            f"{option} {text}: that is no time; write one such as 2026-01-31 or 2026-01-31T08:00"
        ) from None
