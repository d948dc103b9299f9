"""Records that say since when they are true, and what was true of each key from when to when by the topic alone: for tables that keep what was."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from tests.ingest.e2e.keyed import GAMES, Kept, Keyed, rows_of, topic_of
from tests.ingest.e2e.pipeline_kit import PipelineKit
from typing_extensions import Self

RULE: dict[str, Any] = {
    "mode": "history",
    "keys": ["player.id"],
    "sequence_by": ["time"],
    "deletes": "op = 'd'",
    "history": {"ignore": ["at"]},
}

START = datetime(2026, 1, 1, tzinfo=timezone.utc)

Span = tuple[Any, datetime, datetime | None, tuple[int, int]]


class Told(Keyed):
    """Changes that say when they are true, as text; of few scores, so that some say the same as the one before."""

    def configured(self, rule: Mapping[str, Any], **more: Any) -> Self:
        """The pipeline with this rule for all tables, in which the time is one."""
        super().configured(rule, **more)
        hints = {"format": "json", "evolution": "inline", "schema_hints": "time timestamp"}
        self.kit.configured(decode=hints)
        return self

    def send_one(self, player: int, body: dict[str, Any] | None, **more: Any) -> None:
        """Send one change of a player."""
        if body is not None:
            at = body["at"]
            told = None if at is None else (START + timedelta(hours=at)).isoformat().replace("+00:00", "Z")
            body = {**body, "score": body["score"] % 2, "time": told}
        super().send_one(player, body, **more)


def takes(kept: Kept) -> bool:
    """Whether it has a place in a table."""
    return kept.body is not None and kept.body["player"] is not None and kept.body["time"] is not None


def expected(kit: PipelineKit, *tracked: str) -> dict[tuple[str, int], list[Span]]:
    """What was true of each player of each game from when to when, and by which record, from all that the topic has."""
    by_key: dict[tuple[str, int], list[Kept]] = {}
    for kept in filter(takes, topic_of(kit)):
        assert kept.body is not None
        by_key.setdefault((kept.body["game"], kept.body["player"]["id"]), []).append(kept)
    found = {key: _spans(records, ("score", "level", *tracked)) for key, records in by_key.items()}
    return {key: spans for key, spans in found.items() if spans}


def _spans(records: list[Kept], tracked: tuple[str, ...]) -> list[Span]:
    last: dict[datetime, Kept] = {}
    for kept in sorted(records, key=lambda one: (_time(one), one.partition, one.offset)):
        last[_time(kept)] = kept
    spans, before = list[Span](), None
    for moment, kept in last.items():
        assert kept.body is not None
        says = None if kept.body["op"] == "d" else tuple(kept.body.get(name) for name in tracked)
        if says is not None and says == before:
            continue
        if before is not None:
            spans[-1] = (*spans[-1][:2], moment, spans[-1][3])
        if says is not None:
            spans.append((says[0], moment, None, kept.position))
        before = says
    return spans


def _time(kept: Kept) -> datetime:
    assert kept.body is not None
    return datetime.fromisoformat(kept.body["time"].replace("Z", "+00:00"))


def held(kit: PipelineKit) -> dict[tuple[str, int], list[Span]]:
    """What the tables say of the same."""
    found: dict[tuple[str, int], list[Span]] = {}
    for game in GAMES:
        for row in rows_of(kit, game):
            assert row["is_current"] == (row["valid_to"] is None)
            place = (row["kafka_partition"], row["kafka_offset"])
            span = (row["score"], _utc(row["valid_from"]), _utc(row["valid_to"]), place)
            found.setdefault((game, row["player"]["id"]), []).append(span)
    return {key: sorted(spans, key=lambda span: span[1]) for key, spans in found.items()}


def _utc(moment: datetime | None) -> Any:
    """Spark tells moments by its session's zone, which is UTC, and without saying so."""
    return moment if moment is None or moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
