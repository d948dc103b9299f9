"""Tables whose newer records set only the columns that their own schema has: held against a dictionary, however the stream is cut."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.ingest.e2e.handmade import EVENT, Schema, registered, registered_beside
from tests.ingest.e2e.keyed import PARTITIONS, counted, rows_of
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack]

LEVEL = "int32 level = 3;"
WITH_TEAM = EVENT.replace(LEVEL, f"{LEVEL}\n  optional string team = 4;\n  At at = 5;") + (
    "message At { optional string city = 1; }"
)
WITH_RANK = WITH_TEAM.replace("string city = 1;", "string city = 1; optional int32 zip = 2;")
RULE = {"match": "*", "mode": "upsert", "keys": "kafka_key", "update": "present"}


@dataclass
class Players:
    """Players whose changes come by three schemas, and what is true of each then."""

    kit: PipelineKit
    seed: int
    state: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        old = registered(self.kit)
        self._schemas = [old, *(registered_beside(self.kit, text) for text in (WITH_TEAM, WITH_RANK))]

    def send(self, count: int, schemas: int = 3) -> None:
        """Changes of a few players, each player's in one partition."""
        for _ in range(count):
            number = self._random.randrange(8)
            version = self._random.randrange(schemas)
            self._send(f"p{number}", number % PARTITIONS, self._schemas[version], version)

    def _send(self, player: str, partition: int, schema: Schema, version: int) -> None:
        level = self._random.randrange(1, 1000)
        sent: dict[str, Any] = {"game": "go", "player": player, "level": level}
        kept = self.state.setdefault(player, {"team": None, "at": None})
        kept["level"] = level
        if version:
            kept["team"] = self._random.choice([None, "red", "blue"])
            sent |= {} if kept["team"] is None else {"team": kept["team"]}
            at = self._random.choice([None, {"city": "Ulm"}, {"city": None}, {"city": "Hof", "zip": 7}])
            at = None if at is None else {name: at.get(name) for name in ("city", "zip")[:version]}
            sent |= {} if at is None else {"at": {name: value for name, value in at.items() if value}}
            kept["at"] = None if at is None else {"zip": None, **(kept["at"] or {}), **at}
        self.kit.send([schema.value(**sent)], key=player.encode(), partition=partition)

    def require(self) -> None:
        """Each player's row has of each column what the last record said whose schema has it."""
        names = ("level", "team", "at")
        found = {row["player"]: {name: row.get(name) for name in names} for row in rows_of(self.kit, "go")}
        assert found == {player: {name: kept[name] for name in names} for player, kept in self.state.items()}
        told = counted(self.kit)
        assert told["inserted"] == len(self.state)
        differences = verify(self.kit.settings).differences
        assert not differences, "\n".join(map(str, differences))


def test_a_producer_on_an_old_schema_does_not_empty_new_columns(kit: PipelineKit) -> None:
    kit.configured(
        decode={"evolution": "inline"},
        route={"field": "game", "table": "{entity}"},
        limits={"batch_rows": 25},
        tables=[RULE],
    )
    players = Players(kit, seed=5)
    players.send(30)
    kit.run()
    players.require()
    players.send(60)
    kit.run()
    players.require()
    # A run of the old schema alone empties nothing.
    players.send(20, schemas=1)
    kit.run()
    players.require()
