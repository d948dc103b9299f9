"""Entities of unlike schemas decoded together: nothing of it shows in what is written, asked for and told."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.ingest.kafka_records import Sent, aside_rows, batch, pins, rows_of

from distributary.codecs.base import Decoded
from distributary.codecs.json.codec import JsonCodec, JsonReader
from distributary.ingest.pins import PinnedRecord, Pins
from distributary.ingest.settings.groups import Route
from distributary.ingest.worker import families as entity_families
from distributary.ingest.worker import task
from distributary.ingest.worker.demux import Demultiplexer
from distributary.ingest.worker.families import Families
from distributary.ingest.worker.task import Task
from distributary.registry.base import Schema

ENTITIES = 30


def pinned(number: int, entity: str, **types: Any) -> PinnedRecord:
    fields = [{"name": n, "type": of, "nullable": True, "metadata": {}} for n, of in types.items()]
    text = json.dumps({"type": "struct", "fields": fields})
    return PinnedRecord((number, ()), Schema(number, "STRUCT", text, entity=entity))


def unlike(number: int) -> PinnedRecord:
    """A schema like no other; `score` is of another type in every third, and the field of one's own in another place."""
    own = {f"own_{number}": "long", "score": ["long", "double", "string"][number % 3], "game": "string"}
    nested = {
        "type": "struct",
        "fields": [{"name": f"x_{number % 4}", "type": "long", "nullable": True, "metadata": {}}],
    }
    names = sorted(own, reverse=number % 2 == 0)
    return pinned(number + 1, f"g{number}", **{name: own[name] for name in names}, more=nested)


def entity_pins(root: Path, **changes: Any) -> Pins:
    given = {
        "codec": "json",
        "route": Route(by="key", table="{entity}"),
        "records": tuple(unlike(number) for number in range(ENTITIES)),
        "by_entity": True,
    }
    return pins(root, **{**given, **changes})


def event(dice: random.Random, number: int, entities: int) -> Sent:
    """A record of one of the first entities; some do not fit its schema, or have fields that only another one's has, or are broken."""
    game = dice.randrange(entities)
    score = [7, 7.5, "seven"][game % 3]
    record: dict[str, Any] = {
        "game": f"g{game}",
        "score": score,
        f"own_{game}": number,
        "more": {f"x_{game % 4}": number},
    }
    spoiled: dict[int, dict[str, Any]] = {
        0: {"score": {"a": 1}, f"own_{game}": "text"},
        1: {f"own_{(game + 1) % ENTITIES}": 1},
        2: {"more": {f"x_{(game + 1) % 4}": 1}},
        3: {f"own_{(game + 1) % ENTITIES}": None},
        4: {"new": 1},
    }
    text = json.dumps(record | spoiled.get(dice.randrange(40), {})).encode()
    broken = dice.randrange(60) == 0
    return Sent(text[: -dice.randrange(2, 9)] if broken else text, number, key=f"g{game}".encode())


def outcome(by: Pins, sent: list[Sent]) -> dict[str, Any]:
    """All that a task does with these records."""
    task = Demultiplexer(by)
    for half in (sent[: len(sent) // 2], sent[len(sent) // 2 :]):
        task.take(batch(half))
    report = task.finish()
    return {
        "rows": {
            table: rows_of(by, report, table)
            for table in sorted({one.file.table for one in report.files.written})
        },
        "aside": sorted(row["offset"] for row in aside_rows(Path(by.batch.root.url).parent, report)),
        "told": [
            report.counts.quarantined,
            report.counts.decoded,
            report.questions.proposals,
            report.sightings.met,
            report.questions.unmet,
            report.questions.newcomers,
        ],
        "growths": report.files.growths,
    }


class Alone(JsonCodec):
    """A codec that decodes no two schemas together. A class of its own: Python keeps what a class can do."""

    joint = None  # type: ignore[assignment]


# Guarded, each entity takes processes of its own.
@pytest.mark.parametrize(
    ("changes", "entities"), [({}, ENTITIES), ({"inferred_final": True}, ENTITIES), ({"guarded": True}, 8)]
)
def test_what_comes_of_records_is_the_same_where_each_schema_is_decoded_alone(
    tmp_path: Path, changes: dict[str, Any], entities: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(7)
    sent = [event(dice, number, entities) for number in range(900)]
    together = outcome(entity_pins(tmp_path / "together", **changes), sent)
    assert len(together["rows"]) == entities + 1
    assert together["told"][0]["malformed"] > 5
    monkeypatch.setattr(task, "codec_of", lambda pins: Alone())
    alone = entity_pins(tmp_path / "alone", **{**changes, "guarded": False})
    assert outcome(alone, sent) == together


def parts(counts: dict[int, int]) -> list[tuple[int, pa.BinaryArray]]:
    text = '{{"game":"g{0}","own_{0}":{0}}}'
    return [(n, pa.array([text.format(n).encode()] * count, pa.binary())) for n, count in counts.items()]


def test_a_few_records_of_each_of_many_schemas_take_few_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    families = Families(Task(entity_pins(tmp_path)))
    alone: list[int] = []
    decode = JsonReader.decode

    def counted(self: JsonReader, payloads: pa.BinaryArray) -> Decoded:
        alone.append(len(payloads))
        return decode(self, payloads)

    monkeypatch.setattr(JsonReader, "decode", counted)
    monkeypatch.setattr(entity_families, "_FEW", 50)
    # One that has many records is better off alone, whatever family it was in before.
    for many in (0, 60):
        given = parts({number: many if many and number == 3 else 20 for number in range(ENTITIES)})
        for number, found in enumerate(families.decode(given)):
            assert found.rows[f"own_{number}"].to_pylist() == [number] * len(given[number][1])
        assert alone == ([60] if many else [])
    # Nobody else of its family is there.
    assert families.decode(parts({5: 9}))[0].rows.num_rows == 9
    assert alone == [60, 9]


def test_schemas_of_which_none_agree_are_decoded_all_the_same(tmp_path: Path) -> None:
    types = [
        "long",
        "double",
        "string",
        "boolean",
        "date",
        "timestamp",
        "integer",
        "short",
        "byte",
        "float",
        "binary",
    ]
    records = tuple(
        pinned(n + 1, f"g{n}", **{f"own_{n}": "long", "odd": of}) for n, of in enumerate(types * 2)
    )
    families = Families(Task(entity_pins(tmp_path, records=records)))
    found = families.decode(parts(dict.fromkeys(range(len(records)), 10)))
    assert [one.rows[f"own_{number}"].to_pylist() for number, one in enumerate(found)] == [
        [number] * 10 for number in range(len(records))
    ]
