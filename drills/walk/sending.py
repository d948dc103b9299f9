"""Records of schemas that change, on their way to Kafka: what is sent the model knows."""

from __future__ import annotations

import io
import json
import random
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import fastavro
from confluent_kafka import Message, Producer
from drills.walk.model import ENTITIES, Record, Row

from distributary.registry.confluent.options import RegistryOptions
from distributary.registry.confluent.registry import ConfluentRegistry

START = datetime(2026, 1, 1, tzinfo=timezone.utc)

KEYS = tuple(f"k{number}" for number in range(9))

SCORES = 100

# Beyond what any registry hands out here.
_UNKNOWN_ID = 2_000_000_000

# What a field that comes later may be, by its name's number: a name is of one type for ever, but for one that becomes wider.
_TYPES = ("int", "string", "boolean", "int")


@dataclass
class Fields:
    """The fields that producers write beside those that each record has: Avro's types by their names."""

    types: dict[str, str] = field(default_factory=dict)
    made: int = 0

    def add(self) -> None:
        """One more."""
        self.types[f"f{self.made}"] = _TYPES[self.made % len(_TYPES)]
        self.made += 1

    def drop(self, name: str) -> None:
        """One less."""
        del self.types[name]

    def rename(self, name: str) -> None:
        """The same under a name that nobody had."""
        self.drop(name)
        self.add()

    def widen(self, name: str) -> None:
        """From now on it is of 64 bits; its values stay such as fit the column that is there."""
        self.types[name] = "long"

    def narrow(self) -> list[str]:
        """Those that can become wider."""
        return [name for name, type_ in self.types.items() if type_ == "int"]


class Sender:
    """Sends records to any topic, and puts what was sent into a list."""

    def __init__(self, bootstrap_servers: str, registry: RegistryOptions, form: str) -> None:
        self._registry, self._form = registry, form
        options = {"bootstrap.servers": bootstrap_servers, "acks": "all", "linger.ms": 5, "log_level": 0}
        self._producer = Producer(options)
        self._made, self._clock = 0, 0
        self._schemas: dict[str, tuple[int, Any]] = {}

    def send(
        self, topic: str, partitions: int, fields: Fields, count: int, dice: random.Random
    ) -> list[Record]:
        """Send so many records, as the dice choose; answers with what was sent."""
        sent: list[Record] = []
        # What it knows of the topic may be older than its partitions.
        self._producer.list_topics(topic, timeout=60)
        for key, value, body, bad in self._chosen(topic, fields, count, dice):
            self._producer.produce(
                topic,
                value=value,
                key=key,
                partition=_partition(key, partitions, dice),
                on_delivery=_told(sent, key, value, body, bad),
            )
        assert self._producer.flush(60) == 0
        assert len(sent) == count
        return sent

    def _chosen(
        self, topic: str, fields: Fields, count: int, dice: random.Random
    ) -> Iterator[tuple[str | None, bytes | None, Row | None, bool]]:
        known: list[Row] = []
        for _ in range(count):
            drawn, key = dice.random(), dice.choice(KEYS)
            if drawn < 0.04:
                yield key, None, None, False
            elif drawn < 0.08:
                yield key, dice.choice(self._undecodable()), None, True
            else:
                body = dice.choice(known) if known and drawn < 0.13 else self._body(key, fields, dice)
                known.append(body)
                yield body["who"], self._encoded(topic, fields, body), body, False

    def _body(self, key: str, fields: Fields, dice: random.Random) -> Row:
        self._made += 1
        self._clock += 1
        late = dice.choice((0, 0, 0, 0, 1, 7, 60))
        moment = START + timedelta(hours=max(self._clock - late, 0))
        body = {
            "uid": self._made,
            "game": _mostly(dice, dice.choice(ENTITIES[:3] * 4 + ENTITIES), 0.02),
            "who": _mostly(dice, key, 0.03),
            "at": _mostly(dice, moment, 0.03),
            "op": dice.choice("uuuud"),
            "score": dice.choice((dice.randrange(SCORES), dice.randrange(3))),
        }
        return {**body, **{name: _value(type_, dice) for name, type_ in fields.types.items()}}

    def _undecodable(self) -> tuple[bytes, ...]:
        if self._form == "json":
            return b"{", b"\xff\xfe", b"[1"
        return b"\x00\x00", b"none", struct.pack(">bI", 0, _UNKNOWN_ID) + b"\x00"

    def _encoded(self, topic: str, fields: Fields, body: Row) -> bytes:
        if self._form == "json":
            at = None if body["at"] is None else body["at"].isoformat().replace("+00:00", "Z")
            return json.dumps({**body, "at": at}).encode()
        schema_id, schema = self._schema(topic, fields)
        stream = io.BytesIO(struct.pack(">bI", 0, schema_id))
        stream.seek(0, io.SEEK_END)
        # A record that comes once more may be of another schema by now.
        fastavro.schemaless_writer(stream, schema, body)
        return stream.getvalue()

    def _schema(self, topic: str, fields: Fields) -> tuple[int, Any]:
        text = json.dumps(_avro(fields.types))
        if (known := self._schemas.get(topic + text)) is None:
            with ConfluentRegistry(self._registry) as registry:
                number = registry.register(f"{topic}-value", text, "AVRO")
            known = self._schemas[topic + text] = number, fastavro.parse_schema(json.loads(text))
        return known


def _told(sent: list[Record], key: str | None, value: bytes | None, body: Row | None, bad: bool) -> Any:
    def told(error: object, message: Message) -> None:
        assert error is None, error
        place = message.topic(), message.partition(), message.offset()
        assert place[0] is not None and place[1] is not None and place[2] is not None
        sent.append(Record((place[0], place[1], place[2]), key, value, body, bad))

    return told


def _partition(key: str | None, partitions: int, dice: random.Random) -> int:
    """Mostly the same one for a key; a topic that has grown has others."""
    if key is None or dice.random() < 0.1:
        return dice.randrange(partitions)
    return int(key[1:]) % partitions


def _mostly(dice: random.Random, value: Any, none: float) -> Any:
    return None if dice.random() < none else value


def _value(type_: str, dice: random.Random) -> Any:
    if dice.random() < 0.2:
        return None
    # Few values, so that some records say the same as the one before.
    return {"string": dice.choice("ab"), "boolean": dice.random() < 0.5}.get(type_, dice.randrange(3))


def _avro(types: Mapping[str, str]) -> dict[str, Any]:
    at = {"type": "long", "logicalType": "timestamp-micros"}
    fixed = {"game": "string", "who": "string", "at": at, "op": "string"}
    optional = [
        {"name": name, "type": ["null", type_], "default": None} for name, type_ in {**fixed, **types}.items()
    ]
    every = [{"name": "uid", "type": "long"}, {"name": "score", "type": "int"}, *optional]
    return {"type": "record", "name": "Change", "fields": every}
